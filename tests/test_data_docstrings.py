"""The docstring set: deterministic, masked, and no leak between splits."""

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from keras_distill.data import docstrings
from keras_distill.data.splits import unit_hash
from keras_distill.data.text_splits import TextSplits

PARTS = ("train", "dev", "test")
ROOT = pathlib.Path(__file__).parents[1]
SMALL = ("numpy", "keras")


@pytest.fixture(scope="module")
def small():
    return docstrings.build(SMALL)


@pytest.fixture(scope="module")
def full():
    return docstrings.build()


def texts(splits):
    return [text for name in PARTS for text in getattr(splits, name).texts]


def check_leaks(splits):
    keys = [TextSplits.identity(text) for text in texts(splits)]
    assert len(keys) == len(set(keys))
    found = [
        text
        for text in texts(splits)
        if any(
            name in text.lower()
            for name in ("numpy", "keras", "tensorflow", "tfds", "cpython")
        )
        or {"tf", "np", "python"} & set(TextSplits.identity(text).split())
    ]
    assert not found


def test_small_set(small):
    check_leaks(small)
    assert small.label_names == list(SMALL)
    for name in PARTS:
        assert set(getattr(small, name).labels.tolist()) == {0, 1}
    assert len(small.train) > 1500
    assert len(small.train) > 4 * len(small.test)


@pytest.mark.large
@pytest.mark.exhaustive
def test_full_set(full):
    check_leaks(full)
    total = sum(np.bincount(getattr(full, n).labels) for n in PARTS)
    assert total.max() == 5000
    assert total.min() > 500
    assert total.sum() > 12000


def test_two_builds_agree(small):
    again = docstrings.build(SMALL)
    for name in PARTS:
        assert getattr(again, name).texts == getattr(small, name).texts
        np.testing.assert_array_equal(
            getattr(again, name).labels, getattr(small, name).labels
        )


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Writes sources of two libraries and has them read instead."""

    def write(**files):
        for name, source in files.items():
            path = tmp_path / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(source)
        for name in SMALL:
            (tmp_path / name).mkdir(exist_ok=True)
        monkeypatch.setattr(docstrings, "_folder", lambda name: tmp_path / name)

    return write


def module(library, count, word):
    """The source of `count` functions, each with a sentence of its own."""
    return "".join(
        f'def f{i}():\n    """{word} number {library} of {i}. More."""\n'
        for i in range(count)
    )


def modules(library, count=40):
    return {
        f"{library}__m{i}": module(library[0] * 9, 3, f"Module {i}")
        for i in range(count)
    }


def test_a_module_stays_in_one_split(library):
    library(**modules("numpy"), **modules("keras"))
    splits = docstrings.build(SMALL)
    place = {}
    for name in PARTS:
        for text in getattr(splits, name).texts:
            words = text.split()
            place.setdefault((words[1], words[3]), set()).add(name)
    assert len(place) == 80
    assert all(len(names) == 1 for names in place.values())


def test_cap_takes_the_lowest_hashes(library):
    library(**modules("numpy"), **modules("keras"))
    every = texts(docstrings.build(SMALL))
    capped = docstrings.build(SMALL, max_per_class=100)
    for label in (0, 1):
        rows = sum(
            int((getattr(capped, name).labels == label).sum()) for name in PARTS
        )
        assert rows == 100
    hashes = [unit_hash(TextSplits.identity(t)) for t in every if "nnn" in t]
    kept = [
        unit_hash(TextSplits.identity(t)) for t in texts(capped) if "nnn" in t
    ]
    assert sorted(kept) == sorted(hashes)[:100]


def test_shared_and_repeated_sentences(library):
    shared = 'def f():\n    """A sentence that both have."""\n'
    repeated = 'def f():\n    """Some words said twice."""\n'
    library(
        **modules("numpy"),
        **modules("keras"),
        numpy__a=shared,
        keras__a=shared.replace("sentence", "SENTENCE"),
        keras__b=repeated,
        keras__c=repeated,
    )
    found = [
        TextSplits.identity(text) for text in texts(docstrings.build(SMALL))
    ]
    assert "a sentence that both have" not in found
    assert found.count("some words said twice") == 1


def test_what_is_read(library):
    library(
        **modules("numpy"),
        **modules("keras"),
        keras__kinds='''"""The module has a sentence."""
class A:
    """The class has a sentence."""
    async def f(self):
        """The coroutine has a sentence."""
        if self:
            def g():
                """The nested one has a sentence."""
def short():
    """Only three words."""
text = """A string is no docstring."""
''',
        keras__tests__a='"""Test folders are left out."""',
        keras__a_test='"""Test files are left out."""',
        keras__broken='"""Broken files are left out."""\ndef',
    )
    found = texts(docstrings.build(SMALL))
    for kind in ("module", "class", "coroutine", "nested one"):
        assert f"The {kind} has a sentence." in found
    assert not [text for text in found if "left out" in text]
    assert not [text for text in found if "no docstring" in text]
    assert "Only three words." not in found
    assert "Only three words." in texts(docstrings.build(SMALL, min_words=3))


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Adds numbers.\n\n    Args:\n", "Adds numbers."),
        ("Wraps\n   a `layer`.  It trains.", "Wraps a layer."),
        ("Uses e.g. this one. Then that.", "Uses e.g. this one."),
        ("add(x, y)\n\nAdds.", ""),
        (">>> add(1)\n2", ""),
        ("Args:\n  x: A number.", ""),
        ("A KerasTensor of Keras 3", "A library Tensor of library 3"),
        ("np.add, tf.a, TFRecord", "library.add, library.a, library Record"),
        ("tfds, TensorFlow Datasets, KerasHub", "library, library, library"),
        ("A half and an input", "A half and an input"),
    ],
)  # fmt: skip
def test_first_sentence(docstring, expected):
    assert docstrings.first_sentence(docstring) == expected


@pytest.mark.large
@pytest.mark.exhaustive
def test_hash_seed_does_not_matter(small):
    code = (
        "from keras_distill.data import docstrings as d;"
        "s = d.build(('numpy', 'keras'));"
        "import sys; sys.stdout.write('|'.join(s.train.texts))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONUTF8": "1"},
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout.decode()
        for seed in ("1", "2")
    ]
    assert outputs == ["|".join(small.train.texts)] * 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"libraries": ("numpy", "torch")}, "Received: libraries="),
        ({"libraries": ("numpy",)}, "two or more"),
        ({"libraries": ("numpy", "numpy")}, "two or more"),
        ({"max_per_class": 0}, "Received: max_per_class=0"),
        ({"min_words": 0}, "Received: min_words=0"),
    ],
)
def test_messages(arguments, message):
    with pytest.raises(ValueError, match=message):
        docstrings.build(**arguments)


def test_a_missing_library(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install keras-hub"):
        docstrings.build(("keras_hub", "numpy"))
