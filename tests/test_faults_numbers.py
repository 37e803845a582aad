"""Numbers that are none stop a run, or are told as a failure; never a result.

The largest of logits that are NaN is class 0: a broken model has an accuracy
like any other.
"""

import json
import math

import keras
import numpy as np
import pytest
import tiny_runs
import tiny_text

import keras_distill as kd
from keras_distill._errors import UsageError
from keras_distill.cli import main
from keras_distill.experiments import engine
from keras_distill.experiments import training
from keras_distill.experiments.teaching import Teacher


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    tiny_runs.without_tracing(monkeypatch)
    tiny_runs.without_exports(monkeypatch)
    monkeypatch.setattr(engine.gc, "collect", lambda: None)


@pytest.fixture
def call(tmp_path, capsys):
    """Calls a command on tiny texts; exit code, output, errors."""
    texts = tiny_runs.write_texts(tmp_path / "texts")
    teacher = tiny_runs.saved_teacher(tmp_path / "teacher")

    def run(command, *arguments):
        options = ["--smoke", "--data", str(texts), *arguments]
        options += ["--output", str(tmp_path / "out")]
        if "--teacher" not in options:
            options += ["--teacher", str(teacher)]
        code = main([command, *options])
        return code, *capsys.readouterr()

    return run


def strictly(path):
    """The contents of a JSON file without NaN and infinity."""

    def refuse(constant):
        raise AssertionError(f"no JSON: {constant}")

    return json.loads(path.read_text(), parse_constant=refuse)


def break_loss(monkeypatch, loss):
    def call(self, y_true, y_pred):
        return keras.ops.sum(y_pred, axis=-1) * math.nan

    monkeypatch.setattr(loss, "call", call)


@pytest.mark.parametrize("command", ["distill", "compare", "cache"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_broken_teacher_stops_the_run(command, value, call, tmp_path):
    path = tmp_path / "teacher" / "tiny.keras"
    model = keras.models.load_model(path, compile=False)
    model.layers[-1].bias.assign([value, 0.0])
    model.save(path)
    code, _, err = call(command)
    assert code == 2
    assert "teacher's logits for dev must be finite" in err
    assert len(err.strip().splitlines()) == 1
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert not left & {"report.json", "cells", "cache", "teacher.keras"}


def test_logits_that_are_not_finite_are_no_teachers():
    logits = {"train": np.zeros((3, 2)), "dev": np.zeros((2, 2))}
    Teacher(logits)
    logits["dev"][1, 0] = np.inf
    with pytest.raises(UsageError, match="for 1 of 2 rows, the first one row"):
        Teacher(logits)


SOFT = ("--learning-rate", "0.1", "--batch-size", "10")


@pytest.mark.large
def test_a_broken_student_is_told_as_failed(call, tmp_path, monkeypatch):
    break_loss(monkeypatch, kd.losses.ForwardKL)
    for told in ("epoch 1", "already done: distilled_seed_0 (failed"):
        code, out, err = call("distill", *SOFT)
        assert (code, err) == (0, "")
        assert told in out
        assert "failed" in out.lower()
        assert "no epoch gave finite logits" in out
    found = strictly(tmp_path / "out" / "report.json")
    rows = {row["arm"]: row for row in found["rows"]}
    assert list(rows["distilled"]["failed"]) == ["0"]
    assert rows["distilled"]["test_accuracy"]["mean"] is None
    assert rows["control"]["failed"] == {}
    assert rows["control"]["test_accuracy"]["mean"] > 0
    assert found["difference"] is None
    (verdict,) = found["verdicts"]
    assert "no difference can be shown" not in verdict["headline"].lower()
    assert any(word.startswith("Failed") for word in verdict["details"])


@pytest.mark.large
def test_a_broken_arm_is_told_as_failed(call, tmp_path, monkeypatch):
    break_loss(monkeypatch, kd.losses.ForwardKL)
    arms = ("--arms", "hard", "mse", "kd", "--no-html", "--seeds", "1")
    code, out, err = call("compare", *arms, *SOFT)
    assert (code, err) == (0, "")
    assert "Failed" in out
    found = strictly(tmp_path / "out" / "report.json")
    failed = {row["arm"]: bool(row["failed"]) for row in found["rows"]}
    assert failed == {"hard labels": False, "logit MSE": False, "KD": True}
    assert "failed" in (tmp_path / "out" / "report.md").read_text().lower()


@pytest.mark.large
@pytest.mark.parametrize("command", ["distill", "compare"])
def test_all_students_broken(command, call, tmp_path, monkeypatch):
    break_loss(monkeypatch, keras.losses.SparseCategoricalCrossentropy)
    further = ("--no-html", "--arms", "hard", "kd") * (command == "compare")
    code, out, err = call(command, *SOFT, *further)
    assert (code, err) == (0, "")
    assert "failed" in out.lower()
    found = strictly(tmp_path / "out" / "report.json")
    assert all(row["failed"] for row in found["rows"])


@pytest.mark.large
def test_a_teacher_that_diverges_stops_the_run(call, tmp_path, monkeypatch):
    break_loss(monkeypatch, keras.losses.SparseCategoricalCrossentropy)
    code, _, err = call("distill", "--teacher", "embedded")
    assert code == 2
    assert "could not be fine-tuned" in err
    assert "teacher_learning_rate=0.0005" in err
    assert not (tmp_path / "out" / "report.json").exists()
    assert not (tmp_path / "out" / "teacher.keras").exists()


def best_of(*epochs, loss=1.0):
    """The `BestEpoch` after epochs with these logits, and the final weight."""
    task = tiny_text.task()
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    best = training.BestEpoch(model, task)
    best.set_model(model)
    for number, logits in enumerate(epochs):
        model.set_weights([np.full((1, 1), number + 1.0), np.zeros(1)])
        best._predict = lambda model, logits=logits: logits
        best.on_epoch_end(number, {"loss": loss})
    best.on_train_end()
    return best, float(model.layers[0].kernel[0, 0])


def right_on(share):
    """Logits for dev that are right on such a share of the rows."""
    labels = tiny_text.task().encoded["dev"].labels
    sign = np.where(np.arange(len(labels)) < share * len(labels), 1.0, -1.0)
    return sign[:, None] * np.eye(2)[labels]


def test_an_epoch_that_is_not_finite_is_the_worst():
    good, better, broken = right_on(0.5), right_on(0.9), right_on(1.0)
    broken[-1, 0] = np.nan
    infinite = np.where(np.isnan(broken), np.inf, broken)
    for epochs, chosen in (
        ((broken, good), 2),
        ((good, broken), 1),
        ((good, infinite), 1),
        ((infinite, good), 2),
        ((broken, good, infinite, better), 4),
    ):
        best, weight = best_of(*epochs)
        assert (best.epoch, weight) == (chosen, chosen)
        assert best.failure is None
    best, weight = best_of(broken, broken)
    assert best.epoch is None
    assert weight == 2
    assert "no epoch gave finite logits" in best.failure


def test_a_loss_that_is_not_finite_ends_the_training():
    best, _ = best_of(right_on(0.5), loss=math.nan)
    assert best.model.stop_training


@pytest.mark.large
def test_a_broken_language_model_stops_the_run(tmp_path, capsys):
    teacher = tiny_runs.language_model(tmp_path / "teacher", broken=True)
    texts = tiny_runs.write_letters(tmp_path / "texts.txt")
    code = main(
        [
            *("gkd", "--smoke", "--teacher", str(teacher)),
            *("--data", str(texts), "--prompt-tokens", "2"),
            *("--output", str(tmp_path / "out")),
        ]
    )
    err = capsys.readouterr().err
    assert code == 2
    assert "weights of the teacher must be finite" in err
    assert not (tmp_path / "out" / "report.json").exists()
