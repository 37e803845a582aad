"""300 damaged or odd inputs: each is read right or refused in a paragraph."""

import functools
import json
import shutil
import zlib

import damaged
import numpy as np
import pytest
import tensorflow as tf
import tiny
from damaged import REFUSED
from damaged import Case

from keras_distill import augment
from keras_distill import cache
from keras_distill.data import prompts
from keras_distill.data import sources
from keras_distill.data import tables

TEXTS = [
    "a good film",
    "not, as they say, good",
    'the "best" of them',
    "one\u2028line, and\x0bone\x0cline\x1c\x1d\x1e\x85\u2029still",
    "  blanks around  ",
    "äöü 好い 🙂 e\u0301",
    "-1",
    "'quoted' \\n \\t",
    '"',
    "ends with a comma,",
    "the last one",
] * 3
LONG = "x" * 140_000  # csv takes 131,072 unless it is told otherwise.
LABELS = ["no", "yes", "", "-1", "no", "1.0"]
ANSWERS = [" 2", "-1", "", "  two blanks", "nan", "a, b", 'say "yes"']


def quoted(field):
    """A field of CSV, quoted where it must be."""
    if set('",\n\r') & set(field):
        return '"' + field.replace('"', '""') + '"'
    return field


def csv_of(header, rows):
    rows = [header, *rows]
    return "".join(",".join(map(quoted, row)) + "\n" for row in rows)


def tsv_of(header, rows):
    return "".join("\t".join(row) + "\n" for row in [header, *rows])


def jsonl_of(header, rows):
    return "".join(
        json.dumps(dict(zip(header, row)), ensure_ascii=False) + "\n"
        for row in rows
    )


def text_of(_, rows):
    return "".join(f"{text}\n" for text, _ in rows)


MULTILINE = [("two\nlines", "no"), ("three\r\nmore\rlines", "yes")]
PAIRS = [(t, LABELS[i % len(LABELS)]) for i, t in enumerate(TEXTS)]
GIVEN = [(t, ANSWERS[i % len(ANSWERS)]) for i, t in enumerate(TEXTS)]
LABELLED, ANSWERED = ("text", "label"), ("prompt", "completion")


def without_prompts(path):
    return [text for _, text in prompts.read_prompts(path)]


# Each kind of file: its name, what reads it, what it holds by other means.
KINDS = {
    "labelled CSV": (
        ("train.csv", csv_of(LABELLED, MULTILINE + PAIRS)),
        (tables.read_table, damaged.labelled),
    ),
    "labelled TSV": (
        ("train.tsv", tsv_of(LABELLED, PAIRS)),
        (tables.read_table, damaged.labelled),
    ),
    "labelled JSON lines": (
        ("train.jsonl", jsonl_of(LABELLED, MULTILINE + PAIRS)),
        (tables.read_table, damaged.labelled_objects),
    ),
    "texts as CSV": (
        ("more.csv", csv_of(LABELLED, MULTILINE + PAIRS)),
        (tables.read_texts, damaged.unlabelled),
    ),
    "texts": (
        ("more.txt", text_of(LABELLED, PAIRS)),
        (augment.read_texts, damaged.lines),
    ),
    "prompts as CSV": (
        ("train.csv", csv_of(ANSWERED, MULTILINE + GIVEN)),
        (prompts.read_prompts, damaged.prompts),
    ),
    "prompts as TSV": (
        ("train.tsv", tsv_of(ANSWERED, GIVEN)),
        (prompts.read_prompts, damaged.prompts),
    ),
    "prompts as JSON lines": (
        ("train.jsonl", jsonl_of(ANSWERED, GIVEN)),
        (prompts.read_prompts, damaged.objects),
    ),
    "prompts as texts": (
        ("train.txt", text_of(ANSWERED, GIVEN)),
        (without_prompts, damaged.lines),
    ),
}


def written(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return path


def put(place, name, folder):
    return damaged.in_its_place(place, folder / "data" / name)


def case_of(kind, what, make):
    """A case of one kind of file."""
    read, oracle = KINDS[kind][1]

    def expected(path):
        text = path.is_file() and damaged.decoded(path.read_bytes())
        delimiter = "\t" if path.suffix == ".tsv" else ","
        return oracle(text, delimiter) if isinstance(text, str) else REFUSED

    return Case(f"{kind}: {what}", make, read, expected)


def case_of_bytes(kind, what, data):
    name = KINDS[kind][0][0]
    return case_of(kind, what, functools.partial(written, name=name, data=data))


def file_cases(kind):
    """Cases of one kind of file."""
    name, content = KINDS[kind][0]
    content = content.encode()
    of_bytes = functools.partial(case_of_bytes, kind)

    yield of_bytes("a long text", content.replace(b"good", LONG.encode(), 1))
    for what, change in damaged.FIXED.items():
        yield of_bytes(what, change(content))
    for what, change in damaged.RANDOM.items():
        # Of the name, not of its place here: new cases leave the others.
        seed = zlib.crc32(f"{kind}: {what}".encode())
        yield of_bytes(what, change(content, seed))
    for what in damaged.PLACES:
        yield case_of(kind, what, functools.partial(put, what, name))


FILES = [case for kind in KINDS for case in file_cases(kind)]


@pytest.mark.parametrize("case", FILES, ids=lambda case: case.name)
def test_files(case, tmp_path):
    case.check(tmp_path)


def test_there_are_300():
    names = [case.name for case in FILES] + list(CACHES)
    assert len(names) == len(set(names)) >= 300


@pytest.mark.parametrize("kind", KINDS)
def test_whole_files_hold_what_was_written(kind, tmp_path):
    """So that the other means of reading cannot be wrong alike."""
    cases = {case.name: case for case in file_cases(kind)}
    case = cases[f"{kind}: whole"]
    found = case.read(case.make(tmp_path))
    many = "CSV" in kind or kind == "labelled JSON lines"
    rows = MULTILINE * many + (GIVEN if "prompt" in kind else PAIRS)
    texts = [text for text, _ in rows]
    if kind.startswith("prompts as") and kind != "prompts as texts":
        assert found == [(p, c or None) for p, c in rows]
    elif kind.startswith("labelled"):
        known = [None if la in ("", "-1") else la for _, la in rows]
        assert found == list(zip([t.strip() for t in texts], known))
    else:
        assert found == [text.strip() for text in texts]


def test_the_list_is_neither_all_refused_nor_all_read(tmp_path):
    """Or it would show little."""
    refused = 0
    for i, case in enumerate(FILES):
        folder = tmp_path / str(i)
        folder.mkdir()
        refused += case.expected(case.make(folder)) == REFUSED
    assert 0.3 < refused / len(FILES) < 0.8


PATHS = {
    "a NUL": "train\0.csv",
    "half a character": "train\ud83d.csv",
    "too long": "t" * 5000 + ".csv",
    "packed": "train.csv.gz",
    "another kind": "train.xlsx",
}
LOADERS = {
    "load": sources.load,
    "load_prompts": prompts.load_prompts,
    "read_texts": augment.read_texts,
}


@pytest.mark.parametrize("what", PATHS)
@pytest.mark.parametrize("loader", LOADERS)
def test_paths(what, loader, tmp_path):
    if what in ("packed", "another kind"):
        (tmp_path / PATHS[what]).write_bytes(damaged.zipped(b"a text"))
    Case(
        what,
        lambda folder: f"{folder}/{PATHS[what]}",
        LOADERS[loader],
        lambda _: REFUSED,
    ).check(tmp_path)


# ---- Folders of caches ----

X = np.random.default_rng(0).normal(size=(20, 4)).astype("float32")
MANIFEST, SHARD = "manifest.json", "shard-00001.tfrecord"


def rows_of_cache():
    return tf.data.Dataset.from_tensor_slices(X)


def signals(folder):
    attached = cache.attach(rows_of_cache(), folder)
    found = attached.batch(32).get_single_element()
    return found["teacher_signal"]["logits"].numpy().tolist()


def rewritten(folder):
    """The signals after another call of `write`, as the messages advise."""
    layout = cache.Layout(batch_size=4, shard_size=8)
    cache.write(tiny.mlp(), rows_of_cache(), folder, layout=layout)
    return signals(folder)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cache")
    return folder, rewritten(folder)


def replaced(folder, name, change):
    path = folder / name
    path.write_bytes(change(path.read_bytes()))


def swapped(folder):
    one, other = folder / "shard-00000.tfrecord", folder / SHARD
    data = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(data)


def in_place(place, name, folder):
    damaged.in_its_place(place, folder / name)


def cache_cases():
    """Dict from a name to what damages the folder of a cache."""
    found = {
        "a shard of another": lambda folder: swapped(folder),
        "no manifest": lambda folder: (folder / MANIFEST).unlink(),
    }
    for name in (MANIFEST, SHARD):
        changes = {
            f"{what} {i}": functools.partial(change, seed=i)
            for what, change in damaged.RANDOM.items()
            if what != "mixed line ends"
            for i in range(3 if what == "a flipped byte" else 1)
        }
        changes |= {
            "empty": lambda data: b"",
            "longer": lambda data: data + b"\0",
            "of zeros": lambda data: bytes(len(data)),
        }
        found |= {
            f"{name} {what}": functools.partial(
                replaced, name=name, change=change
            )
            for what, change in changes.items()
        }
        found |= {
            f"{name} is {place}": functools.partial(in_place, place, name)
            for place in damaged.PLACES
            if place != "a file above it"
        }
    for what in ("[]", "null", "{}", '"a"', '{"format": 2}', "[" * 100_000):
        found[f"{MANIFEST} holds {what:.20}"] = functools.partial(
            replaced, name=MANIFEST, change=lambda _, what=what: what.encode()
        )
    return found


CACHES = cache_cases()


@pytest.mark.parametrize("what", CACHES)
def test_caches(what, whole, tmp_path):
    """Neither reader nor writer takes what the teacher did not say."""
    source, right = whole
    folder = tmp_path / "cache"
    shutil.copytree(source, folder)
    CACHES[what](folder)
    refusals = (cache.CacheError,)
    Case(what, lambda _: folder, signals, lambda _: REFUSED, refusals).check(
        tmp_path
    )
    found, _ = damaged.outcome(rewritten, folder, refusals)
    assert found in (REFUSED, right)


@pytest.mark.parametrize("use", [signals, rewritten])
@pytest.mark.parametrize("path", ["a\0b", "t" * 5000, "file", "file/below"])
def test_paths_of_caches(use, path, tmp_path):
    (tmp_path / "file").write_text("a file")
    Case(
        path,
        lambda folder: f"{folder}/{path}",
        use,
        lambda _: REFUSED,
        (cache.CacheError, ValueError),
    ).check(tmp_path)
