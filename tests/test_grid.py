"""Cells in the workers of a pipeline: the same results, and nothing is lost."""

import functools
import importlib.util
import os
import pathlib
import sys

import grid_job
import pytest
import tiny_runs

from keras_distill import _beam
from keras_distill import _files
from keras_distill._errors import UsageError
from keras_distill.experiments import Grid
from keras_distill.experiments.grid import CellTrainer
from keras_distill.experiments.records import Records

needs_beam = pytest.mark.skipif(
    importlib.util.find_spec("apache_beam") is None,
    reason="needs apache-beam: pip install 'keras-distill[beam]'",
)
# What is of this moment, and hashes that cover such.
TIMES = ("seconds", "latency", "hash", "files")
TESTS = pathlib.Path(__file__).parent
PROCESSES = ("--direct_num_workers=2", "--direct_running_mode=multi_processing")


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    data = tiny_runs.write_texts(folder / "data")
    return data, tiny_runs.saved_teacher(folder / "teacher")


@pytest.fixture(scope="module")
def plain(inputs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plain") / "run"
    return folder, grid_job.compare(folder, *inputs)


def without_times(value):
    if isinstance(value, dict):
        return {
            key: without_times(item)
            for key, item in value.items()
            if not any(part in key for part in TIMES)
        }
    if isinstance(value, list):
        return [without_times(item) for item in value]
    return value


def check_same(folder, found, plain):
    """To the byte, but for what says when it was made."""
    expected_folder, expected = plain
    assert without_times(found) == without_times(expected)
    names = ("hard-labels.0", "hard-labels.1", "kd.0", "kd.1")
    for name in names:
        first, second = (
            place / "cells" / f"textcnn.{name}" / "predictions.npz"
            for place in (folder, expected_folder)
        )
        assert first.read_bytes() == second.read_bytes()
        records = [
            without_times(
                _files.read_json(place / "phases" / f"textcnn.{name}.json")
            )
            for place in (folder, expected_folder)
        ]
        assert records[0] == records[1]


@pytest.mark.large
def test_what_a_worker_does(inputs, plain, tmp_path, monkeypatch):
    """Without a pipeline: the last cell first, task and teacher made once."""
    made = []

    def run(function, items, flags):
        assert flags == ("--some=flag",)
        for item in reversed(items):
            function(item)

    def make(*arguments):
        made.append(arguments)
        return grid_job.made(*arguments)

    monkeypatch.setattr(_beam, "run", run)
    folder = tmp_path / "run"

    def grid(prepared):
        path = str(prepared.folder.path)
        return Grid(
            functools.partial(make, prepared.preparation, path),
            ("--some=flag",),
        )

    found = grid_job.compare(folder, *inputs, grid)
    check_same(folder, found, plain)
    assert (
        len(made) == 2
    )  # The control is trained first, to tell weak teachers.
    # All is there: no worker is asked.
    again = grid_job.compare(folder, *inputs, grid)
    assert without_times(again) == without_times(found)
    assert len(made) == 2


def test_a_trainer_is_sent_without_its_bench(monkeypatch):
    trainer = CellTrainer(None, [], "folder", False)
    vars(trainer)["bench"] = object()
    assert set(trainer.__getstate__()) == {"make", "cells", "path", "redo"}


@pytest.mark.large
def test_a_pipeline_that_ends_early(inputs, tmp_path, monkeypatch):
    def run(function, items, flags):
        function(items[0])
        raise RuntimeError("a worker is gone\nand more")

    monkeypatch.setattr(_beam, "run", run)
    with pytest.raises(
        UsageError, match=r"early: a worker is gone\. Of 2 .* 1 are finished"
    ):
        grid_job.compare(tmp_path / "run", *inputs, Grid.of)
    records = Records(tmp_path / "run").records()
    assert [name for name in records if name.startswith("textcnn")] == [
        "textcnn.hard-labels.0"
    ]


def test_a_thread_that_fails_ends_the_wait():
    import threading

    others = threading.excepthook

    def work():
        def waits_for_a_worker():
            raise RuntimeError("exited with 137")

        threading.Thread(target=waits_for_a_worker).start()
        threading.Event().wait(60)

    with pytest.raises(RuntimeError, match="137"):
        _beam._unless_a_thread_fails(work)
    assert threading.excepthook is others
    with pytest.raises(KeyError):
        _beam._unless_a_thread_fails(lambda: {}["no"])
    done = []
    _beam._unless_a_thread_fails(lambda: done.append(1))
    assert done == [1]


def importable(monkeypatch):
    path = os.pathsep.join([str(TESTS), str(TESTS.parent), *sys.path])
    monkeypatch.setenv("PYTHONPATH", path)


def of(make):
    def grid(prepared):
        path = str(prepared.folder.path)
        return Grid(
            functools.partial(make, prepared.preparation, path), PROCESSES
        )

    return grid


@needs_beam
@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.filterwarnings("default")
def test_two_processes(inputs, plain, tmp_path, monkeypatch):
    importable(monkeypatch)
    folder = tmp_path / "run"
    found = grid_job.compare(folder, *inputs, of(grid_job.made))
    check_same(folder, found, plain)
    processes = set((tmp_path / "processes").read_text().split())
    assert len(processes) > 1
    assert str(os.getpid()) not in processes


@needs_beam
@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.filterwarnings("default")
def test_a_killed_worker_costs_its_cell_only(
    inputs, plain, tmp_path, monkeypatch
):
    importable(monkeypatch)
    folder, grid = tmp_path / "run", of(grid_job.dies_once)
    with pytest.raises(UsageError, match="Run the same again"):
        grid_job.compare(folder, *inputs, grid)
    assert len(Records(folder).records()) < 9
    check_same(folder, grid_job.compare(folder, *inputs, grid), plain)
