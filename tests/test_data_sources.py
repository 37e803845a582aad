"""Sources of data: what is read, what is decided, and what is refused."""

import bz2
import csv
import dataclasses
import errno
import gzip
import json
import lzma
import pathlib
import socket
import time

import numpy as np
import pytest
import tensorflow_datasets as tfds

from keras_distill import data
from keras_distill.data import _network
from keras_distill.data import docstrings
from keras_distill.data import sources
from keras_distill.data import tables
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


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_a_file_names_integer_labels(tmp_path, kind):
    write(tmp_path, train=lines(200, labels=("1", "", "0")))
    source = tmp_path if kind == "folder" else tmp_path / "train.tsv"
    assert data.load(source).label_names == ["0", "1"]
    names = tmp_path / "labels.txt"
    names.write_text("zebra \r\nant\n\n")
    splits = data.load(source)
    assert splits.label_names == ["zebra", "ant"]
    assert sources.names_file(source) == names
    row = splits.train.texts.index("sentence number 3")
    assert splits.train.labels[row] == 1
    assert -1 in splits.train.labels


@pytest.mark.parametrize(
    ("names", "labels", "message"),
    [
        ("a\n", ("0", "1"), "2 for the labels 0 to 1.*Received: 1 lines"),
        ("a\nb\nc\n", ("0", "1"), "one line for each class.*Received: 3 "),
        ("a\na\n", ("0", "1"), "another class. Received: 'a'.*line 2"),
        ("a\n\nb\n", ("0", "2"), "another class. Received: ''.*line 2"),
        ("a\nb\n", ("no", "yes"), r"integer labels.*labels=\['no', 'yes'\]"),
    ],
)
def test_names_that_do_not_fit_the_labels(tmp_path, names, labels, message):
    write(tmp_path, train=lines(60, labels=labels))
    (tmp_path / "labels.txt").write_text(names)
    with pytest.raises(ValueError, match=message):
        data.load(tmp_path)


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
            place.setdefault(data.TextSplits.identity(text), set()).add(name)
    assert len(place) == 100
    assert all(len(names) == 1 for names in place.values())


def test_unlabelled_rows_stay_in_train(folder):
    with (folder / "train.tsv").open("a") as file:
        file.write("no label here\t\n" + lines(99, 500, labels=["-1"]))
    splits = data.load(folder)
    assert splits.train.labels[-100:].tolist() == [-1] * 100
    assert splits.label_names == ["no", "yes"]
    (note,) = splits.notes
    assert note.startswith("100 of 300 train texts have no label (empty, or")
    (folder / "test.tsv").unlink()
    assert data.load(folder).train.labels.tolist().count(-1) == 100


def test_copies_without_a_label_do_not_stay_in_train(tmp_path):
    """The teacher would answer for the student what it is then asked."""
    rows = [f"text {i}\t{label}" for i in range(200) for label in ("a", "")]
    rows[0] = "text 0\tb"
    (tmp_path / "a.tsv").write_text("\n".join(["text\tlabel", *rows]))
    found = data.load(tmp_path / "a.tsv")
    for part in (found.dev, found.test):
        assert part.texts
        assert not set(part.texts) & set(found.train.texts)
        copies = f"and {len(part)} copies without a label left out"
        assert any(copies in note for note in found.notes)
    total = len(found.train) + 2 * len(found.dev) + 2 * len(found.test)
    assert total == 400


def test_equal_numbers_that_are_written_in_two_ways_have_an_order():
    for labels in (["1", "01", "2", "001"], ["001", "2", "01", "1"]):
        names = data.TextSplits.names_of(labels, None)
        assert names == ["001", "01", "1", "2"]


def test_only_line_ends_end_the_names_of_classes(tmp_path):
    (tmp_path / "labels.txt").write_text("a\u2028b\nc\n")
    assert tables.read_names(tmp_path / "labels.txt") == ["a\u2028b", "c"]


def test_csv_quotes_and_tsv_does_not(tmp_path):
    header, rest = "text,label\n", lines(20).replace("\t", ",")
    (tmp_path / "train.csv").write_text(header + '"one, ""two""",no\n' + rest)
    write(tmp_path, dev='"quoted\tyes\n', test=lines(4))
    splits = data.load(tmp_path)
    assert splits.train.texts[0] == 'one, "two"'
    assert splits.dev.texts == ['"quoted']


def test_a_quote_that_is_not_closed(tmp_path):
    """It took in the rest of the file: 61 of 200 rows were read."""
    rows = [
        f"sentence number {i},{'no' if i % 2 else 'yes'}" for i in range(200)
    ]
    rows[60] = '"' + rows[60]
    path = tmp_path / "train.csv"
    path.write_text("\n".join(["text,label", *rows]))
    with pytest.raises(
        ValueError, match=r"begins in train.csv, line 62\. Mend"
    ):
        data.load(path)
    # A later field with quotes ends it at the wrong place.
    rows[100] = '"one, two",no'
    path.write_text("\n".join(["text,label", *rows]))
    with pytest.raises(
        ValueError, match=r"begins in train.csv, line 62\. Mend"
    ):
        data.load(path)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_only_line_ends_end_lines(tmp_path, suffix):
    text = "one\u2028two\u2029three\x85four\x0bfive\x0csix\x1c\x1d\x1eseven"
    rows = [["text", "label"], [text, "no"], ["a", "yes"], ["b", "no"]]
    between = "," if suffix == ".csv" else "\t"
    ends = ["\n", "\r\n", "\r", "\n"]
    content = "".join(between.join(r) + end for r, end in zip(rows, ends))
    path = tmp_path / f"train{suffix}"
    path.write_bytes(content.encode())
    assert tables.read_table(path) == [tuple(row) for row in rows[1:]]


def test_objects_are_rows_of_a_table(tmp_path):
    rows = [
        {"text": "good\nfilm", "label": 1, "id": {"a": 2}},
        {"label": "bad", "text": " dull "},
        {"text": "unknown", "label": None},
        {"text": "no key"},
        {"text": "a share", "label": 0.5},
        {"text": "an answer", "label": True},
    ]
    path = tmp_path / "train.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert tables.header(path) == ["text", "label", "id"]
    labels = ["1", "bad", None, None, "0.5", "true"]
    texts = [row["text"].strip() for row in rows]
    assert tables.read_table(path) == list(zip(texts, labels))
    with pytest.raises(ValueError, match="a number, .* in train.jsonl, line 1"):
        tables.read_table(path, label_columns=("id",))
    with pytest.raises(ValueError, match="'review' among the keys of its obj"):
        tables.read_table(path, "review")
    path.write_text('{"label": 1, "text": "a"}\n{"label": 1}\n')
    with pytest.raises(ValueError, match="an empty text in train.jsonl, line"):
        tables.read_table(path)


def test_several_labels_of_an_object(tmp_path):
    path = tmp_path / "all.jsonl"
    names = ["a", "b"]
    lines = [{"text": f"t {n}", "labels": names[: n % 3]} for n in range(200)]
    path.write_text("\n".join(map(json.dumps, lines)))
    splits = data.load(path, kind=data.MultiLabelSplits)
    assert splits.label_names == names
    assert set(splits.train.labels.sum(axis=1)) == {0, 1, 2}
    lines[9]["labels"] = ["a", "c, d"]
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(ValueError, match=r"'\"c, d\"' in all.jsonl, line 10"):
        data.load(path, kind=data.MultiLabelSplits)


def test_long_fields_leave_the_limit_of_csv(tmp_path):
    before = csv.field_size_limit()
    path = tmp_path / "train.csv"
    path.write_text(f'text,label\n"{"x" * 200_000}",no\n')
    assert len(tables.read_table(path)[0][0]) == 200_000
    path.write_text("text,grade\na,b\n")
    with pytest.raises(ValueError, match="column 'label'"):
        tables.read_table(path)
    assert csv.field_size_limit() == before


def test_labels_that_are_no_numbers(folder):
    """A program that took labels for floats wrote them like this."""
    write(folder, train=lines(9) + "a\t-1.0\n")
    assert data.load(folder).label_names == ["no", "yes"]
    write(folder, train=lines(9) + "a\tNaN\n")
    with pytest.raises(
        ValueError, match="'NaN', where.*; in train.tsv, line 11"
    ):
        data.load(folder)


def test_an_unknown_label_among_many(folder):
    names = [f"class number {i}" for i in range(100_000)]
    write(folder, train=lines(100_001, labels=names), test=lines(2, 0, names))
    write(folder, dev=lines(3, 7, ["class nubmer 77"]))
    with pytest.raises(ValueError, match="row 1 of dev.*Is .*number 77'") as e:
        data.load(folder)
    assert len(str(e.value)) < 600
    assert "99,992 more" in str(e.value)
    assert "3 such rows" in str(e.value)


def test_the_files_that_are_read(folder):
    """What else lies in the folder is no part of the data."""
    (folder / "runs").mkdir()
    (folder / "runs" / "train.tsv").write_text("an output")
    (folder / "dev.tsv").unlink()
    assert sources.table_files(folder) == {
        "train": folder / "train.tsv",
        "dev": None,
        "test": folder / "test.tsv",
    }
    one = folder / "train.tsv"
    assert sources.table_files(one)["train"] == one


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
        (
            {"train": "a\tno\n \tyes\n"},
            "empty text in train.tsv, line 3. Remove the row$",
        ),
        (
            {"train": "a\tno\n" + "\tyes\n" * 23},
            r"line 3, and in the lines \[4, 5, .*11\] and 14 more. Remove",
        ),
        ({"train": lines(9, labels=["no"])}, r"two classes.*\['no'\]"),
        ({"train": lines(9, labels=["-1"])}, r"two classes.*\[\]"),
        ({"train": lines(20, labels=[*map(str, range(20))])}, "none occurs tw"),
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
    part = data.TextDataset(["one", "two"], [0, 1])
    built = data.TextSplits(part, part, part, ["a", "b"], ("made",))
    monkeypatch.setattr(docstrings, "build", lambda: built)
    assert vars(data.load()) == vars(built)


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
    assert calls == [
        ("glue/sst2", "sentence", ("label",), None, data.TextSplits)
    ]
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
            ("keras_distill_docstrings/small", None, ("text",)),
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
    monkeypatch.setattr(tfds_source, "any_answers", lambda urls: True)
    with pytest.raises(ConnectionError, match=r"ConnectionResetError.*tfds b"):
        tfds_source.load_tfds("glue/sst2", data_dir=tmp_path)


@pytest.mark.parametrize("hangs", [False, True])
def test_tfds_says_at_once_that_there_is_no_network(
    monkeypatch, tmp_path, hangs
):
    def connect(server, timeout):
        if hangs:
            time.sleep(1)
        raise OSError("unreachable")

    monkeypatch.setattr(_network.socket, "create_connection", connect)
    monkeypatch.setattr(_network, "SECONDS", 0.2)
    begin = time.perf_counter()
    with pytest.raises(ConnectionError, match=r"no connection.*tfds build"):
        tfds_source.load_tfds("glue/sst2", data_dir=tmp_path)
    assert time.perf_counter() - begin < 5
    info = tmp_path / "downloads" / "glue" / "sst.zip.INFO"
    info.parent.mkdir(parents=True)
    builder = tfds.builder("glue/sst2", data_dir=tmp_path)
    assert not tfds_source._is_here(builder)
    info.write_text(f'{{"urls": ["{next(iter(builder.url_infos))}"]}}')
    assert tfds_source._is_here(builder)


def test_a_server_or_its_proxy_answers(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        here, dead = f"http://127.0.0.1:{port}/x", "http://127.0.0.1:9/x"
        assert _network.any_answers([dead, here])
        assert not _network.any_answers([dead])
        monkeypatch.setenv("http_proxy", f"127.0.0.1:{port}")
        assert _network.any_answers(["http://example.invalid/x"])


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


PACKED = {"gzip": gzip.compress, "bzip2": bz2.compress, "xz": lzma.compress}


@pytest.mark.parametrize("name", PACKED)
def test_packed_files_under_a_name_that_says_otherwise(folder, name):
    path = folder / "dev.tsv"
    path.write_bytes(PACKED[name](path.read_bytes()))
    with pytest.raises(ValueError, match=rf"by {name}\. Unpack.*dev.tsv"):
        data.load(folder)


def test_texts_may_begin_like_packed_files(tmp_path):
    path = tmp_path / "genes.tsv"
    path.write_text("PAR1\ttext\tlabel\nx\tBZh\tno\n")
    assert tables.read_table(path) == [("BZh", "no")]


def test_files_that_may_not_be_read(folder, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(pathlib.Path, "read_bytes", refuse)
    with pytest.raises(OSError, match=r"read \(Permission denied\).*train.tsv"):
        data.load(folder)


def test_a_message_names_the_whole_path(tmp_path):
    path = tmp_path / ("f" * 90) / "x.csv"
    with pytest.raises(FileNotFoundError, match=f"path='{path}'"):
        data.load(path)
