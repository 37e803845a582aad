"""Run folders that are damaged, full, in use, or in the wrong place.

What a run leaves is whole, or made again, or refused in one paragraph; never
taken for what it is not.
"""

import errno
import functools
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys

import damaged
import pytest
import tiny_runs

from keras_distill import _files
from keras_distill._errors import UsageError
from keras_distill.cli import main
from keras_distill.experiments import engine
from keras_distill.experiments import prepared
from keras_distill.experiments.phases import Phase
from keras_distill.experiments.records import Records
from keras_distill.experiments.run_folder import RunFolder


@pytest.fixture
def quick(monkeypatch):
    """Trainings and reports without what takes long and changes nothing."""
    tiny_runs.without_tracing(monkeypatch)
    tiny_runs.without_exports(monkeypatch)
    monkeypatch.setattr(engine.gc, "collect", lambda: None)


def distil(inputs, output, *further):
    return main(
        [
            *("distill", "--smoke", "--data", str(inputs / "texts")),
            *("--teacher", str(inputs / "teacher" / "tiny.keras")),
            *("--batch-size", "10", "--transfer", "augment:1"),
            *("--output", str(output), *further),
        ]
    )


def numbers(folder):
    """All that a run found out: weights, logits, scores."""
    report = json.loads((folder / "report.json").read_text())
    for row in report["rows"]:
        del row["seconds"]
    for model in report["models"]:
        model.pop("latency_ms", None)
    told = [report["difference"], report["models"], report["rows"]]
    return tiny_runs.arrays(folder), told


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    tiny_runs.write_texts(folder / "texts")
    tiny_runs.saved_teacher(folder / "teacher")
    return folder


@pytest.fixture(scope="module")
def finished(inputs, tmp_path_factory):
    """The folder of a whole run, and what it found out."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    with pytest.MonkeyPatch.context() as patch:
        tiny_runs.without_tracing(patch)
        tiny_runs.without_exports(patch)
        assert distil(inputs, folder) == 0
    return folder, numbers(folder)


FILES = [
    "run.json",
    *(
        f"phases/{name}.json"
        for name in (
            *("data", "transfer", "teacher", "signal"),
            *("linear_all_labels", "control_seed_0", "distilled_seed_0"),
            "distilled_labelled_seed_0",
        )
    ),
    *("data/texts.json", "data/tokens.npz", "data/transfer_texts.json"),
    *("data/teacher_logits.npz", "teacher.keras"),
    *("cells/control_seed_0/student.keras", "report.json"),
    *("cells/distilled_seed_0/predictions.npz", ".lock"),
]


@pytest.mark.large
def test_the_list_names_every_file(finished):
    folder, _ = finished
    found = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file()
    }
    further = found - set(FILES)
    assert set(FILES) <= found
    assert {pathlib.Path(name).name for name in further} <= {
        *("student.keras", "predictions.npz", "report.md"),
    }


def rewritten(change, path):
    path.write_bytes(change(path.read_bytes()))


def into_a_folder(path):
    path.unlink()
    path.mkdir()
    (path / "inside").write_text("")


def other_numbers(path):
    """Valid JSON, of a run that never was."""
    record = json.loads(path.read_text())
    record["result"] = {
        name: value + 0.25 if isinstance(value, float) else value
        for name, value in record["result"].items()
    }
    path.write_text(json.dumps(record))


def damages():
    """Dict from a name to what damages a finished run's folder."""
    found = {}
    for number, name in enumerate(FILES):
        changes = {
            "flipped": functools.partial(damaged.flips, seed=number),
            "cut": functools.partial(damaged.cuts, seed=number),
            ("empty" if number % 2 else "of zeros"): (
                (lambda data: b"") if number % 2 else lambda d: bytes(len(d))
            ),
        }
        if name != ".lock":
            for what, change in changes.items():
                found[f"{name} {what}"] = (
                    name,
                    functools.partial(rewritten, change),
                )
        found[f"{name} a folder"] = name, into_a_folder
    for text in ("[]", "null", "{}", '{"command": 3}', "[" * 10**5):
        found[f"run.json {text:.9}"] = (
            "run.json",
            functools.partial(rewritten, lambda _, t=text: t.encode()),
        )
        found[f"a record {text:.9}"] = (
            "phases/signal.json",
            functools.partial(rewritten, lambda _, t=text: t.encode()),
        )
    for name in ("control_seed_0", "teacher"):
        found[f"other numbers of {name}"] = f"phases/{name}.json", other_numbers
    for name in ("data", "cells", "phases", "cells/control_seed_0"):
        found[f"{name} a file"] = name, as_a_file
        found[f"{name} gone"] = name, shutil.rmtree
    return found


def as_a_file(path):
    shutil.rmtree(path)
    path.write_text("in the way")


DAMAGES = damages()


def slower(names):
    """Most after which a student is trained anew are large; cuts, too."""
    for name in names:
        trains = any(
            part in name for part in ("seed_0", "gone", "cells", "cut")
        )
        few = name.endswith((".keras flipped", "of control_seed_0"))
        marks = [pytest.mark.large] if trains and not few else []
        yield pytest.param(name, marks=marks)


@pytest.mark.large
@pytest.mark.parametrize("what", list(slower(DAMAGES)))
def test_damage(what, finished, inputs, quick, tmp_path, capsys):
    source, right = finished
    folder = tmp_path / "out"
    shutil.copytree(source, folder)
    name, damage = DAMAGES[what]
    damage(folder / name)
    code = distil(inputs, folder)
    told = capsys.readouterr().err.strip()
    assert code in (0, 2)
    if code == 2:
        assert len(told.splitlines()) == 1
        assert "Received" in told or "Remove" in told
        assert what.endswith("a file") or name == ".lock", told
    else:
        assert told == ""
        assert numbers(folder) == right


class Found(BaseException):
    """A phase would be made again."""


def made_again(self, *args):
    raise Found


@pytest.mark.large
def test_flipped_bytes_are_found_or_harmless(
    finished, inputs, quick, tmp_path, monkeypatch, capsys
):
    """One of any file, 200 times: nothing is taken for what it is not."""
    source, right = finished
    monkeypatch.setattr(Records, "_make", made_again)
    folder, choice, outcomes = tmp_path / "out", random.Random(0), []
    names = [path for path in FILES if (source / path).stat().st_size]
    for seed in range(200):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        name = choice.choice(names)
        rewritten(functools.partial(damaged.flips, seed=seed), folder / name)
        try:
            outcomes.append(distil(inputs, folder))
        except Found:
            outcomes.append("found")
        told = capsys.readouterr().err.strip()
        assert len(told.splitlines()) == (outcomes[-1] == 2), told
        if outcomes[-1] == 0:
            assert numbers(folder) == right, name
    assert set(outcomes) <= {0, 2, "found"}
    assert outcomes.count("found") > 100


# ---- One run at a time ----


def test_a_second_run_is_refused_and_changes_nothing(
    finished, inputs, tmp_path, capsys
):
    folder = tmp_path / "out"
    shutil.copytree(finished[0], folder)
    before = _files.tree_hash(folder)
    with RunFolder(folder, "distill"):
        assert distil(inputs, folder, "--redo", "--seeds", "2") == 2
        assert "Another run is writing" in capsys.readouterr().err
    assert _files.tree_hash(folder) == before
    with RunFolder(folder, "distill"):
        pass


HOLD = """
import sys
from keras_distill.experiments.run_folder import RunFolder

with RunFolder(sys.argv[1], "distill") as folder:
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.large
def test_a_killed_process_holds_a_folder_no_more(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "out")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match="Another run is writing"):
            RunFolder(tmp_path / "out", "distill")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        with RunFolder(tmp_path / "out", "distill") as folder:
            assert folder.records() == {}


def test_what_a_killed_run_left_unfinished_is_removed(tmp_path):
    for name in (".draft-a", "phases/.draft-b", "cells/one/.draft-c"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "half").write_text("")
    (tmp_path / "run.json").write_text('{"command": "distill"}')
    with RunFolder(tmp_path, "distill"):
        assert not list(tmp_path.rglob(".draft-*"))
        assert (tmp_path / "cells" / "one").exists()


# ---- The wrong place ----


@pytest.mark.parametrize("command", ["distill", "compare", "cache", "gkd"])
@pytest.mark.parametrize("place", ["texts/out", "texts", "link/a/b"])
def test_an_output_within_the_data(command, place, tmp_path, capsys):
    texts = tiny_runs.write_texts(tmp_path / "texts")
    (tmp_path / "link").symlink_to(texts)
    before = sorted(texts.iterdir())
    arguments = ["--data", str(texts), "--output", str(tmp_path / place)]
    assert main([command, *arguments]) == 2
    told = capsys.readouterr().err
    assert "must not lie within what the run reads" in told
    assert len(told.strip().splitlines()) == 1
    assert sorted(texts.iterdir()) == before


def test_an_output_within_the_teacher(tmp_path):
    with pytest.raises(UsageError, match="must not lie within"):
        RunFolder(tmp_path / "teacher" / "out", "gkd", [tmp_path / "teacher"])


@pytest.mark.parametrize("kind", ["loop", "file/below", "a\0b", "x" * 400])
def test_an_output_that_cannot_be(kind, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UsageError, match="cannot be written.*Received"):
        RunFolder(tmp_path / kind, "distill", [tmp_path / "texts"])


# ---- A full disk ----

OWNERS = {
    "data/tokens.npz": "data",
    "data/transfer_texts.json": "transfer",
    "phases/teacher.json": "teacher",
    "teacher.keras": "teacher",
    "data/teacher_logits.npz": "signal",
    "cells/control_seed_0/student.keras": "control_seed_0",
    "phases/distilled_seed_0.json": "distilled_seed_0",
    "report.json": "none",
    "report.md": "none",
}


@pytest.mark.parametrize("name", list(slower(OWNERS)))
def test_no_room_for_a_file(
    name, finished, inputs, quick, tmp_path, capsys, monkeypatch
):
    source, right = finished
    folder = tmp_path / "out"
    shutil.copytree(source, folder)
    _files.remove(folder / "phases" / f"{OWNERS[name]}.json")
    replace = os.replace

    def full(draft, path):
        if pathlib.Path(path) == folder / name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        replace(draft, path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert distil(inputs, folder) == 2
    told = capsys.readouterr().err.strip()
    assert "no room left" in told
    assert len(told.splitlines()) == 1
    assert not list(folder.rglob(".draft-*"))
    assert distil(inputs, folder) == 0
    assert numbers(folder) == right


def test_no_room_for_the_first_file(inputs, tmp_path, capsys, monkeypatch):
    def full(*args):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert distil(inputs, tmp_path / "out") == 2
    assert "no room left" in capsys.readouterr().err
    # The folder is neither held nor taken for one with other things.
    with RunFolder(tmp_path / "out", "distill"):
        pass


def test_no_room_within_a_library(tmp_path):
    """HDF5 and TensorFlow wrap the system's error in errors of their own."""

    def write():
        with _files.complete_file(tmp_path / "out" / "model.keras") as draft:
            draft.write_text("half")
            raise RuntimeError(f"h5: {os.strerror(errno.ENOSPC)}")

    phase = Phase("one", "one", {}, write, str, files=("model.keras",))
    with RunFolder(tmp_path / "out", "distill") as folder:
        with pytest.raises(UsageError, match="no room left"):
            folder.execute([phase])
        assert folder.records() == {}
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left == {"run.json", ".lock"}


# ---- What C++ wrote last ----

ABORT = """
import os
from keras_distill.cli.shared import native_log

with native_log.kept() as log:
    print(log, flush=True)
    os.write(2, b"RESOURCE_EXHAUSTED: out of memory")
    native_log.call(os.abort, log)
"""


def test_the_last_words_of_a_process_are_kept():
    done = subprocess.run(
        [sys.executable, "-c", ABORT], capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGABRT
    log = pathlib.Path(done.stdout.strip())
    try:
        assert "out of memory" in log.read_text()
        assert "out of memory" not in done.stderr
        assert "Fatal Python error: Aborted" in done.stderr
        assert str(log) in done.stderr
    finally:
        log.unlink()


def test_a_fault_names_the_log(inputs, monkeypatch, tmp_path):
    from keras_distill.cli.distill import command

    def fail(*args):
        os.write(2, b"native words")
        raise RuntimeError("a fault")

    monkeypatch.setattr(command, "run", fail)
    with pytest.raises(RuntimeError) as raised:
        distil(inputs, tmp_path / "out")
    (note,) = raised.value.__notes__
    log = pathlib.Path(note.rsplit(" ", 1)[-1])
    assert "native words" in log.read_text()
    log.unlink()


def test_a_preparation_that_failed_holds_its_folder_no_more(tmp_path):
    data = tmp_path / "data.tsv"
    data.write_text("text\tlabel\nonly one\tclass\n")
    with pytest.raises(UsageError) as told:
        prepared.prepare(tmp_path / "out", data=str(data), smoke=True)
    assert "two classes" in str(told.value)
    # `told` keeps the frames of the call, and all that they hold, alive.
    RunFolder(tmp_path / "out", "experiment").close()
