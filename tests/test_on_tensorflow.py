"""What only TensorFlow does, for runs on other backends."""

import functools
import os
import sys

import keras
import pytest
import tiny_text

from keras_distill._watcher import Watcher
from keras_distill.experiments import exports
from keras_distill.experiments import on_tensorflow
from keras_distill.experiments.phases import Phase
from keras_distill.experiments.run_folder import RunFolder
from keras_distill.experiments.teaching import Teacher


def phase(run, **changed):
    options = {"name": "one", "title": "one", "options": {}, "summary": str}
    return Phase(run=run, **options | changed)


def backend(model):
    shape = model.output_shape
    return {"backend": keras.backend.backend(), "outputs": shape[-1]}


def fails():
    raise RuntimeError("no room left")


class Screen(Watcher):
    def __init__(self):
        self.lines = []

    def line(self, text):
        self.lines.append(text)


@pytest.fixture
def model():
    return keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])


@pytest.fixture
def folder(tmp_path):
    with RunFolder(tmp_path / "run", "test") as found:
        yield found


@pytest.mark.large
def test_phases_run_on_tensorflow(model, folder):
    planned = [phase(functools.partial(backend, model))]
    assert folder.missing(planned) == planned
    assert on_tensorflow.execute(planned, folder.path) is None
    assert not folder.missing(planned)
    assert folder.result("one") == {"backend": "tensorflow", "outputs": 3}


@pytest.mark.large
@pytest.mark.exhaustive
def test_what_ends_it_is_told(folder):
    found = on_tensorflow.execute([phase(fails)], folder.path)
    assert found == "its process ended with 1, RuntimeError: no room left"
    assert folder.record("one") is None


def test_what_cannot_be_pickled_is_told(folder):
    def within():
        return {}

    found = on_tensorflow.execute([phase(within)], folder.path)
    assert "pickle" in found
    assert folder.record("one") is None


@pytest.mark.large
@pytest.mark.exhaustive
def test_a_process_dies(folder):
    die = phase(functools.partial(os._exit, 3))
    found = on_tensorflow.execute([die], folder.path)
    assert found.startswith("its process ended with 3, ")


def test_ship_tells_why_there_are_no_files(model, folder, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    screen, teacher = Screen(), Teacher({"train": []}, model)
    task = tiny_text.task()
    assert exports.ship({}, task, teacher, folder, screen) == {}
    assert screen.lines[0].startswith("export: on TensorFlow")
    assert screen.lines[1].startswith("not exported: its process ended with 1")
    assert "Load a `student.keras`" in screen.lines[1]
    assert exports.ship({}, task, Teacher({"train": []}), folder, screen) == {}
    assert len(screen.lines) == 2  # Nothing to export, nothing to tell.
