"""Students of runs that are trained under the rounding of their file."""

import dataclasses

import keras
import numpy as np
import pytest
import tiny_images
import tiny_text
import variants
from helpers import run_snippets

import keras_distill as kd
from keras_distill import _files
from keras_distill.cli import main
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import CELLS
from keras_distill.experiments.comparing import cell
from keras_distill.experiments.training import load

HARD, KD = kd.recipes.hard(), kd.recipes.kd()
STUDENT = kd.students.TextCNN(width=8, epochs=1, batch_size=8)


@pytest.fixture(scope="module")
def task():
    return tiny_text.task()


@pytest.fixture(scope="module")
def teacher(task):
    return tiny_text.teacher(task)


@pytest.fixture(scope="module", params=variants.in_ci(["int4", "int8"], "int4"))
def run(task, teacher, request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    student = dataclasses.replace(STUDENT, quantization=request.param)
    options = {"recipes": [HARD, KD], "seeds": 1, "html": False}
    found = kd.compare(task, teacher, {"CNN": student}, folder, **options)
    return request.param, folder, found


@pytest.mark.large
def test_the_file_is_what_was_trained(run, task):
    form, folder, found = run
    exported = found["exports"]["CNN"]
    assert list(exported["files"]) == [form, "SavedModel"]
    assert exported["files"][form]["agreement"] >= 0.9
    (row,) = (r for r in found["rows"] if r["arm"] == exported["arm"])
    # One of twelve texts may stand at a tie.
    score = exported["files"][form]["test_accuracy"]
    assert abs(score - row["test_score"]["mean"]) < 0.1
    card = folder / "export" / "cnn" / "README.md"
    assert set(run_snippets(card)) <= {"good", "bad"}
    report = (folder / "report.md").read_text()
    assert f"CNN: trained, and exported, under the rounding of an {form}" in (
        report
    )


@pytest.mark.large
def test_a_cell_predicts_by_what_is_on_the_grid(run, task):
    form, folder, _ = run
    path = folder / CELLS / "cnn.kd.0"
    aware = load(path / "student.keras")
    assert aware.quantization == form
    held = np.load(path / "predictions.npz")["test_logits"]
    inputs = task.encoded["test"].inputs
    inputs = {x.name: inputs[x.name] for x in aware.student.inputs}
    with aware.on_grid():
        expected = keras.ops.convert_to_numpy(aware(inputs))
    np.testing.assert_allclose(held, expected, atol=1e-5)
    before = keras.ops.convert_to_numpy(aware.student(inputs))
    after = keras.ops.convert_to_numpy(aware.finish()(inputs))
    assert not np.allclose(before, after, atol=1e-5)


def test_one_seed_is_one_start(task, teacher):
    """Under rounding, too: the weights behind it are those of a plain one."""
    bench = Bench(task, teacher)
    plain, aware = (
        bench.new_student(cell("CNN", student, KD, 0, None))
        for student in (
            STUDENT,
            dataclasses.replace(STUDENT, quantization="int4"),
        )
    )
    for a, b in zip(plain.weights, aware.student.weights, strict=True):
        np.testing.assert_array_equal(a, b)


def test_another_rounding_is_another_cell(task, teacher):
    bench = Bench(task, teacher)
    made = [
        bench.made_with(
            cell(
                str(form),
                dataclasses.replace(STUDENT, quantization=form),
                KD,
                0,
                None,
            )
        )
        for form in (None, "int4", "int8")
    ]
    hashes = {_files.json_hash(options) for options in made}
    assert len(hashes) == 3


@pytest.mark.large
def test_states_under_rounding_are_matched(task, tmp_path):
    student = kd.students.BiLSTM(
        width=8, epochs=1, batch_size=8, quantization="int4"
    )
    found = kd.compare(
        task,
        tiny_text.encoder(task),
        {"BiLSTM": student},
        tmp_path,
        recipes=[HARD, kd.recipes.hidden()],
        seeds=1,
        export=False,
        html=False,
    )
    (_, hidden) = found["rows"]
    assert not hidden["failed"]
    assert np.isfinite(hidden["curves"][0]["loss"]).all()


@pytest.mark.parametrize(
    ("student", "told"),
    [
        (lambda: dataclasses.replace(STUDENT, quantization="int2"), "one of"),
        (
            lambda: kd.students.BiLSTM(width=8, quantization="int8"),
            "recurrent",
        ),
    ],
)
def test_what_cannot_be_is_told(student, told, task, teacher, tmp_path):
    with pytest.raises(ValueError, match=told):
        kd.compare(
            task, teacher, {"one": student()}, tmp_path, seeds=1, html=False
        )
    assert not list(tmp_path.rglob("*.keras"))


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_compress_trains_what_it_stores(tmp_path):
    task = tiny_images.task()
    found = kd.compress(
        task,
        tiny_images.network(),
        "multiplications=70%",
        tmp_path,
        epochs=1,
        batch_size=8,
        quantization="int8",
    )
    front = {(row["model"], row["form"]) for row in found["front"]}
    refused = found["exports"].get("pruned, int8", {}).get("files", {})
    assert ("pruned, int8", "int8") in front or "refused" in refused["int8"]
    assert "pruned, int8" in found["against"]


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.parametrize("command", ["distill", "compress"])
@pytest.mark.usefixtures("eager")
def test_the_commands(command, tmp_path):
    arguments = [command, "--smoke", "--quantization", "int4"]
    assert main([*arguments, "--output", str(tmp_path)]) == 0
    found = _files.read_json(tmp_path / "report.json")
    name = {"distill": "TextCNN", "compress": "pruned, int4"}[command]
    assert found["students"][name]["quantization"] == "int4"
    assert "int4" in found["exports"][name]["files"]
