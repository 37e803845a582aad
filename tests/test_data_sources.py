"""Sources of data: what is read, what is decided, and what is refused."""

import dataclasses

import numpy as np
import pytest
import tensorflow_datasets as tfds

from keras_distill import data
from keras_distill.data import docstrings
from keras_distill.data import sources
from keras_distill.data import tfds_source

PARTS = ("train", "dev", "test")


def lines(count, start=0, labels=("no", "yes")):
    return "".join(
        f"sentence number {i}\t{labels[i % len(labels)]}\n"
        for i in range(start, start + count)
    )


def write(folder, header="text\tlabel\n", **parts):
    for name, content in parts.items():
        (folder / f"{name}.tsv").write_text(header + content)
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(
        tmp_path, train=lines(200), dev=lines(6, 300), test=lines(8, 400)
    )


def test_folder(folder):
    splits = data.load(folder)
    assert splits.label_names == ["no", "yes"]
    assert splits.notes == ()
    assert [len(getattr(splits, n)) for n in PARTS] == [200, 6, 8]
    assert splits.dev.texts[1] == "sentence number 301"
    np.testing.assert_array_equal(splits.dev.labels, [0, 1] * 3)


def test_integer_labels_sort_by_value(tmp_path):
    labels = [str(i) for i in range(11)]
    write(tmp_path, train=lines(300, labels=labels), test=lines(1, 2, labels))
    splits = data.load(tmp_path)
    assert splits.label_names == labels
    assert splits.test.labels.tolist() == [2]


@pytest.mark.parametrize("missing", [("dev",), ("test",), ("dev", "test")])
def test_missing_parts_come_from_train(folder, missing):
    for name in missing:
        (folder / f"{name}.tsv").unlink()
    splits = data.load(folder)
    every = sum((getattr(splits, n).texts for n in PARTS), [])
    assert len(every) == len(set(every))
    assert len(splits.notes) == len(missing)
    for name, note in zip(sorted(missing, reverse=True), splits.notes):
        assert 8 <= len(getattr(splits, name)) <= 35
        assert note.startswith(f"No {name} part")
    assert data.load(folder).dev.texts == splits.dev.texts


def test_one_file_splits_itself(folder):
    splits = data.load(folder / "train.tsv")
    assert len(splits.notes) == 2
    assert sum(len(getattr(splits, name)) for name in PARTS) == 200


def test_equal_texts_stay_together(tmp_path):
    write(tmp_path, train=lines(100) + lines(100).replace("sent", "Sent"))
    splits = data.load(tmp_path)
    place = {}
    for name in PARTS:
        for text in getattr(splits, name).texts:
            place.setdefault(docstrings.identity(text), set()).add(name)
    assert len(place) == 100
    assert all(len(names) == 1 for names in place.values())


def test_unlabelled_rows_stay_in_train(folder):
    with (folder / "train.tsv").open("a") as file:
        file.write("no label here\t\n" + lines(99, 500, labels=["-1"]))
    splits = data.load(folder)
    assert splits.train.labels[-100:].tolist() == [-1] * 100
    assert splits.label_names == ["no", "yes"]
    (folder / "test.tsv").unlink()
    assert data.load(folder).train.labels.tolist().count(-1) == 100


def test_csv_quotes_and_tsv_does_not(tmp_path):
    header, rest = "text,label\n", lines(20).replace("\t", ",")
    (tmp_path / "train.csv").write_text(header + '"one, ""two""",no\n' + rest)
    write(tmp_path, dev='"quoted\tyes\n', test=lines(4))
    splits = data.load(tmp_path)
    assert splits.train.texts[0] == 'one, "two"'
    assert splits.dev.texts == ['"quoted']


def test_column_names(tmp_path):
    write(
        tmp_path,
        "sentence\tgrade\n",
        train=lines(9),
        dev=lines(2),
        test=lines(2),
    )
    splits = data.load(tmp_path, "sentence", "grade")
    assert len(splits.train) == 9


def test_byte_order_mark_is_no_text(folder):
    content = (folder / "dev.tsv").read_text()
    (folder / "dev.tsv").write_text(content, encoding="utf-8-sig")
    assert len(data.load(folder).dev) == 6


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"train": ""}, "rows below its header"),
        ({"train": "a\tno\tx\n"}, "2 fields.*: 3 fields in train.tsv, l"),
        ({"train": "a\tno\n \tyes\n"}, "empty text in train.tsv, line 3"),
        ({"train": lines(9, labels=["no"])}, r"two classes.*\['no'\]"),
        ({"train": lines(9, labels=["-1"])}, r"two classes.*\[\]"),
        ({"test": "a\tno\nb\t-1\n"}, "row of test needs a label.*1 of 2 rows"),
        ({"dev": "a\t\n"}, "row of dev needs a label.*1 of 1 rows"),
        ({"test": "a\tmaybe\n"}, "test must occur in train.*label='maybe'"),
    ],
)  # fmt: skip
def test_refused_tables(folder, parts, message):
    write(folder, **parts)
    with pytest.raises(ValueError, match=message):
        data.load(folder)


def test_refused_headers(folder):
    with pytest.raises(ValueError, match="column 'grade'.*'text', 'label'"):
        data.load(folder, label_column="grade")
    write(folder, header="", train="")
    with pytest.raises(ValueError, match=r"column 'text'.*columns=\[\]"):
        data.load(folder)


def test_refused_bytes(folder):
    (folder / "dev.tsv").write_bytes(b"text\tlabel\ncaf\xe9\tno\n")
    with pytest.raises(ValueError, match=r"UTF-8.*0xe9 at offset 14.*iconv"):
        data.load(folder)


def test_missing_files(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="'docstrings', 'tfds:NAME'"):
        data.load("docstring")
    with pytest.raises(FileNotFoundError, match="no such file.*x.csv"):
        data.load(tmp_path / "x.csv")
    (folder / "train.tsv").unlink()
    with pytest.raises(FileNotFoundError, match=r"train.csv.*'dev.tsv'"):
        data.load(folder)


def test_two_files_for_one_part(folder):
    (folder / "dev.csv").write_text("text,label\na,no\n")
    with pytest.raises(ValueError, match="one file for dev"):
        data.load(folder)


def test_docstrings_have_no_columns():
    with pytest.raises(ValueError, match="text_column='x'"):
        data.load("docstrings", text_column="x")


def test_docstrings_is_the_default(monkeypatch):
    monkeypatch.setattr(docstrings, "build", lambda: "built")
    assert data.load() == "built"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """The registered set, built once by tensorflow-datasets."""
    folder = tmp_path_factory.mktemp("tfds")
    name = "keras_distill_docstrings/small"
    return folder, tfds_source.load_tfds(name, data_dir=folder)


def test_tfds_builder(prepared):
    folder, (rows, names, notes) = prepared
    built = docstrings.build(["numpy", "keras"], max_per_class=500)
    assert names == built.label_names
    assert notes == []
    for part in PARTS:
        expected = getattr(built, part)
        expected = {
            t: names[i] for t, i in zip(expected.texts, expected.labels)
        }
        assert dict(rows[part]) == expected
    again = tfds.load(
        "keras_distill_docstrings/small", data_dir=folder, split="validation"
    )
    assert len(again) == len(rows["dev"])


def test_tfds_through_load(prepared, monkeypatch):
    calls = []

    def load_tfds(*arguments):
        calls.append(arguments)
        return prepared[1]

    monkeypatch.setattr(sources, "load_tfds", load_tfds)
    splits = data.load("tfds:glue/sst2", "sentence")
    assert calls == [("glue/sst2", "sentence", None)]
    assert splits.label_names == ["numpy", "keras"]
    assert splits.train.texts[0] == prepared[1][0]["train"][0][0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nosuch_set",), "knows. Received: source='tfds:nosuch_set'"),
        (("glue/nosuch",), "knows. Received: source='tfds:glue/nosuch'"),
        (
            ("keras_distill_docstrings/small", "label"),
            r"\['text'\]. Received: text_column='label'",
        ),
        (
            ("keras_distill_docstrings/small", None, "text"),
            "label.*text.*Received: label_column='text'",
        ),
    ],
)
def test_refused_tfds(prepared, arguments, message):
    with pytest.raises(ValueError, match=message):
        tfds_source.load_tfds(*arguments, data_dir=prepared[0])


def test_tfds_without_a_network(monkeypatch, tmp_path):
    def fail(self):
        raise ConnectionResetError("reset")

    monkeypatch.setattr(tfds.core.DatasetBuilder, "download_and_prepare", fail)
    with pytest.raises(ConnectionError, match=r"ConnectionResetError.*tfds b"):
        tfds_source.load_tfds("glue/sst2", data_dir=tmp_path)


def part(*labels):
    return data.TextDataset([f"text {i}" for i in range(len(labels))], labels)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"label_names": ["a"]}, r"two classes.*label_names=\['a'\]"),
        ({"dev": part()}, "`dev` must not be empty"),
        ({"test": part(0, -1)}, r"between 0 and 1.*test.labels\[1\]=-1"),
        ({"train": part(0, 2)}, r"between -1 and 1.*train.labels\[1\]=2"),
    ],
)
def test_refused_splits(changes, message):
    good = data.TextSplits(part(0, 1), part(0), part(1), ["a", "b"])
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(good, **changes)


def test_labels_must_match_texts():
    with pytest.raises(
        ValueError, match=r"len\(texts\)=1, labels.shape=\(2,\)"
    ):
        data.TextDataset(["a"], [0, 1])


@pytest.fixture
def skewed():
    labels = [0] * 60 + [1] * 38 + [2] * 2 + [-1] * 10
    return data.TextSplits(part(*labels), part(0), part(1), ["a", "b", "c"])


@pytest.mark.parametrize("count", [3, 4, 10, 50, 99, 100])
def test_keep_labels_is_stratified(skewed, count):
    few = data.keep_labels(skewed, count)
    before, after = skewed.train.labels, few.train.labels
    kept = after >= 0
    assert kept.sum() == count
    np.testing.assert_array_equal(after[kept], before[kept])
    sizes = np.bincount(after[kept], minlength=3)
    assert sizes.min() >= 1
    assert (sizes <= [60, 38, 2]).all()
    np.testing.assert_allclose(
        sizes, np.array([0.6, 0.38, 0.02]) * count, atol=2
    )
    assert few.train.texts == skewed.train.texts
    assert few.dev is skewed.dev


def test_keep_labels_depends_on_the_seed(skewed):
    one, same, other = (
        data.keep_labels(skewed, 20, seed).train.labels for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


@pytest.mark.parametrize("count", [2, 101])
def test_keep_labels_message(skewed, count):
    with pytest.raises(ValueError, match=rf"\(3\).*\(100\).*count={count}"):
        data.keep_labels(skewed, count)
