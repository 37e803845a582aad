"""`keras-distill cache`: options, and whole tiny runs."""

import importlib.util
import re
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from keras_distill import cache
from keras_distill._errors import UsageError
from keras_distill.cli import main
from keras_distill.cli.shared import choices
from keras_distill.cli.shared.options import Beam
from keras_distill.experiments import training

BEAM = importlib.util.find_spec("apache_beam")


@pytest.fixture
def texts(tmp_path):
    """A folder with train, dev and test."""
    folder = tmp_path / "texts"
    folder.mkdir()
    words = ["good fine great nice", "bad dull sad poor"]
    for part, count in {"train": 40, "dev": 8, "test": 8}.items():
        lines = [
            f"{part} {row} {words[row % 2]}\t{row % 2}" for row in range(count)
        ]
        text = "\n".join(["text\tlabel", *lines, ""])
        (folder / f"{part}.tsv").write_text(text)
    return folder


@pytest.fixture
def call(texts, tmp_path, capsys):
    """Calls the command on the tiny texts; exit code and all it printed."""

    def run(*arguments, output="out"):
        given = ["cache", "--smoke", "--data", str(texts)]
        given += ["--output", str(tmp_path / output)]
        code = main([*given, *arguments])
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return run


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


@pytest.mark.large
def test_rows_and_cache_belong_together(call, tmp_path):
    arguments = "--transfer", "augment:1", "--shard-size", "20"
    code, printed = call(*arguments)
    assert code == 0
    assert re.search(r"To train on it: kd\.cache\.attach\(", printed)
    out = tmp_path / "out"
    rows = tf.data.Dataset.load(str(out / "rows"))
    found = list(cache.attach(rows, out / "cache").as_numpy_iterator())
    texts = list(rows.as_numpy_iterator())
    assert len(found) == len(texts) > 40
    assert [y for _, y in found[:40]] == [row % 2 for row in range(40)]
    assert {int(y) for _, y in found[40:]} == {-1}
    teacher = training.load(out / "teacher.keras")
    inputs = {
        name: np.stack([x[name] for x, _ in texts]) for name in texts[0][0]
    }
    logits = np.stack([x["teacher_signal"]["logits"] for x, _ in found])
    expected = teacher.predict(inputs, verbose=0)
    np.testing.assert_allclose(logits, expected, rtol=2e-3, atol=2e-3)
    before = contents(out / "cache")
    code, printed = call(*arguments)
    assert code == 0
    assert "already done: cache" in printed
    assert contents(out / "cache") == before


@pytest.mark.large
def test_another_dtype_is_refused_or_made_again(call, tmp_path):
    assert call()[0] == 0
    small = contents(tmp_path / "out" / "cache")
    code, printed = call("--dtype", "float32")
    assert code == 2
    assert "dtype" in printed
    assert contents(tmp_path / "out" / "cache") == small
    assert call("--dtype", "float32", "--redo")[0] == 0
    assert contents(tmp_path / "out" / "cache") != small


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.filterwarnings("default")
@pytest.mark.skipif(
    BEAM is None, reason="needs apache-beam: pip install 'keras-distill[beam]'"
)
def test_beam_writes_the_same_bytes(call, tmp_path):
    """Over the first run's rows and teacher, the cache made anew."""
    arguments = "--shard-size", "16"
    assert call(*arguments)[0] == 0
    whole = contents(tmp_path / "out" / "cache")
    (tmp_path / "out" / "phases" / "cache.json").unlink()
    for file in (tmp_path / "out" / "cache").iterdir():
        file.unlink()
    flags = "direct_num_workers=2", "direct_running_mode=multi_processing"
    code, printed = call(
        *arguments, "--runner", "DirectRunner", "--beam-flags", *flags
    )
    assert code == 0, printed
    assert contents(tmp_path / "out" / "cache") == whole


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (Beam(None, ("a=1",)), "are for a runner of Beam"),
        (Beam("DirectRunner", ("workers",)), "of the form NAME=VALUE"),
        (Beam("DirectRunner", ("--a=1",)), "of the form NAME=VALUE"),
    ],
)
def test_flags_that_are_refused(options, message):
    with pytest.raises(UsageError, match=message):
        choices.beam_flags(options)


def test_flags_of_beam(monkeypatch):
    found = {"apache_beam": True}
    monkeypatch.setattr(importlib.util, "find_spec", found.get)
    # Stands in for Beam, which the quick tests do without.
    beam = types.ModuleType("apache_beam.runners")
    beam.create_runner = ["FlinkRunner", "DirectRunner"].index
    monkeypatch.setitem(sys.modules, "apache_beam", types.ModuleType("beam"))
    monkeypatch.setitem(sys.modules, "apache_beam.runners", beam)
    assert choices.beam_flags(Beam()) is None
    assert choices.beam_flags(Beam("FlinkRunner", ("parallelism=2",))) == [
        "--runner=FlinkRunner",
        "--parallelism=2",
    ]
    with pytest.raises(UsageError, match="that Apache Beam knows.*'Fli'"):
        choices.beam_flags(Beam("Fli"))
    found.clear()
    with pytest.raises(UsageError, match=r"pip install 'keras-distill\[beam"):
        choices.beam_flags(Beam("DirectRunner"))


@pytest.mark.parametrize("option", ["batch-size", "shard-size"])
def test_sizes_are_checked_first(call, tmp_path, option):
    code, printed = call(f"--{option}", "0")
    assert code == 2
    assert option.replace("-", "_") in printed
    assert not (tmp_path / "out").exists()
