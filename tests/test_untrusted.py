"""Models and data of strangers: nothing in them is run or put elsewhere."""

import pathlib
import tempfile
import zipfile

import keras
import numpy as np
import pytest
import tiny_runs

from keras_distill import data
from keras_distill._backend import load_model
from keras_distill.cli import main


@pytest.fixture
def mark(tmp_path):
    """A file that is there once something in a model has been run."""
    return tmp_path / "run"


@pytest.fixture
def model(tmp_path, mark):
    """A `.keras` file with Python code in it."""
    source = f"lambda x: (open({str(mark)!r}, 'w').close(), x)[1]"
    code = eval(source)
    layer = keras.layers.Lambda(code, output_shape=(4,))
    path = tiny_runs.saved_teacher(tmp_path / "model", further=[layer])
    mark.unlink(missing_ok=True)
    return path


COMMANDS = {
    "teacher": "distill --teacher {model} --data {texts}",
    "student": "distill --student saved --student-file {model} --data {texts}",
    "of compress": "compress --model {model} --data {texts}",
    "of gkd": "gkd --teacher {model} --data {texts}/../lines.txt",
    "of cache": "cache --teacher {model} --data {texts}",
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_code_in_models_is_not_run(command, model, mark, tmp_path, capsys):
    texts = tiny_runs.write_texts(tmp_path / "texts")
    lines = [f"{number} is a number\n" for number in range(200)]
    (tmp_path / "lines.txt").write_text("".join(lines))
    words = command.format(model=model, texts=texts).split()
    out = tmp_path / "out"
    assert main([*words, "--smoke", "--output", str(out)]) == 2
    told = capsys.readouterr().err.strip()
    assert not mark.exists()
    assert str(model) in told
    assert len(told.splitlines()) == 1


def test_the_code_would_leave_its_mark(model, mark):
    loaded = keras.models.load_model(model, compile=False, safe_mode=False)
    loaded({name: np.zeros((1, 2), "int32") for name in loaded.input})
    assert mark.exists()


@pytest.mark.parametrize("name", ["../outside", "assets/../../outside"])
def test_files_in_models_stay_inside(name, tmp_path, monkeypatch):
    path = tiny_runs.hub_teacher(tmp_path / "teacher")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(name, "outside")
    place = tmp_path / "temporary" / "below"
    place.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with pytest.warns(match="Skipping invalid path"):
        load_model(path)
    assert not list(tmp_path.rglob("outside"))


class Marks:
    """What a pickle can be made to do."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return pathlib.Path.touch, (self.path,)


@pytest.mark.parametrize("part", ["x_train", "y_train"])
def test_pickles_in_arrays_are_not_loaded(part, tmp_path, mark):
    arrays = {
        "x_train": np.zeros((6, 4, 4, 3), "uint8"),
        "y_train": np.arange(6) % 2,
    }
    arrays[part] = np.array([Marks(mark)] * 6, object)
    path = tmp_path / "images.npz"
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="without objects"):
        data.load_images(path)
    assert not mark.exists()
    with np.load(path, allow_pickle=True) as held:
        held[part]
    assert mark.exists()
