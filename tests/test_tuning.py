"""What is chosen on dev before the students are trained."""

import dataclasses

import numpy as np
import pytest
import tiny_text

import keras_distill as kd
from keras_distill import _files
from keras_distill._errors import UsageError
from keras_distill._watcher import Watcher
from keras_distill.cli import main
from keras_distill.cli.shared import choices
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.bench import Trained

STUDENT = kd.students.TextCNN(width=4, epochs=9)


class Best:
    """What a training tells: its score on dev."""

    def __init__(self, score):
        self.score = score


@pytest.fixture
def tried(monkeypatch):
    """Trials that are not trained: dev follows from what is tried."""
    found = []

    def fit(self, cell, watcher=None):
        del self, watcher
        student, recipe = cell.student, cell.recipe
        temperature = getattr(recipe.soft_loss, "temperature", None)
        found.append(
            (
                recipe.name,
                student.epochs,
                student.learning_rate,
                temperature,
                recipe.hard_weight,
            )
        )
        wrong = abs(np.log2(student.learning_rate / 1e-3))
        if temperature is not None:
            wrong += abs(np.log2(temperature / 2)) + recipe.hard_weight
        if student.learning_rate > 4e-3:
            return Trained(None, Best(None), {}, 0, 0, 0, 1.0)
        score = 0.9 - 0.1 * wrong - 0.01 / student.epochs
        return Trained(None, Best(score), {}, 0, 0, 0, student.epochs * 1.0)

    monkeypatch.setattr(Bench, "fit", fit)
    return found


@pytest.fixture
def task():
    return tiny_text.task()


@pytest.fixture
def teacher(task):
    return tiny_text.teacher(task, tiny_text.encoder(task))


def tune(task, teacher, folder, minutes=100, **changed):
    return kd.experiments.tune(
        task, teacher, STUDENT, folder, minutes=minutes, **changed
    )


def test_the_best_on_dev_is_found(task, teacher, tmp_path, tried):
    found = tune(task, teacher, tmp_path)
    assert found.values == {
        "learning_rate": 1e-3,
        "temperature": 2.0,
        "hard_weight": 0.1,
    }
    assert found.student == dataclasses.replace(STUDENT, learning_rate=1e-3)
    assert found.recipe.soft_loss.temperature == 2.0
    assert (found.recipe.hard_weight, found.recipe.soft_weight) == (0.1, 0.9)
    assert found.trials == len(tried) == len(set(tried))
    assert str(found).startswith("learning rate 0.001, temperature 2, ")
    # The rate by labels alone: all five for an epoch, the better two for more.
    assert [row[1] for row in tried if row[0] == "hard labels"] == [
        *[1] * 5,
        *[3] * 2,
        *[9] * 2,
    ]
    distilled = [row for row in tried if row[0] == "KD + transfer"]
    assert {row[2] for row in distilled} == {1e-3}
    assert [row[1] for row in distilled] == [*[1] * 12, *[3] * 5, *[9] * 3]
    # What would be used untuned stays in to the end.
    assert distilled[-3][3:] == (4.0, 0.5)


def test_a_tie_keeps_the_defaults(task, teacher, tmp_path, monkeypatch):
    trained = Trained(None, Best(0.5), {}, 0, 0, 0, 1.0)
    monkeypatch.setattr(Bench, "fit", lambda *_: trained)
    found = tune(task, teacher, tmp_path)
    assert found.student == STUDENT
    assert found.recipe.soft_loss.temperature == 4.0
    assert found.recipe.hard_weight == found.recipe.soft_weight == 0.5


@pytest.mark.parametrize(
    ("minutes", "trials"), [(0.05, 2), (0.2, 11), (1.0, 14), (100, 29)]
)
def test_the_time_decides_how_many(
    minutes, trials, task, teacher, tmp_path, tried
):
    lines = []
    watcher = Watcher()
    watcher.line = lines.append
    found = tune(task, teacher, tmp_path, minutes, watcher=watcher)
    assert found.trials == len(tried) == trials
    assert sum(row[1] for row in tried) <= max(60 * minutes, 2)
    alone = [line for line in lines if "no time for a second" in line]
    assert len(alone) == (2 if minutes < 0.1 else 0)


def test_what_is_named_is_not_tuned(task, teacher, tmp_path, tried):
    found = tune(task, teacher, tmp_path, temperature=8.0, learning_rate=2e-3)
    assert found.values == {"hard_weight": 0.1}
    assert {row[2:4] for row in tried} == {(2e-3, 8.0)}
    assert found.student == STUDENT
    nothing = tune(
        task,
        teacher,
        tmp_path / "nothing",
        temperature=8.0,
        hard_weight=0.3,
        learning_rate=2e-3,
    )
    assert (nothing.trials, nothing.values) == (0, {})
    assert nothing.recipe.hard_weight == 0.3


def test_stages_have_no_temperature_to_tune(task, teacher, tmp_path, tried):
    found = tune(
        task,
        teacher,
        tmp_path,
        make_recipe=lambda: kd.recipes.annealing(max_temperature=2),
    )
    assert found.values == {"learning_rate": 1e-3}
    assert {row[0] for row in tried} == {"hard labels"}


def test_a_second_call_takes_what_is_there(task, teacher, tmp_path, tried):
    first = tune(task, teacher, tmp_path)
    count = len(tried)
    again = tune(task, teacher, tmp_path)
    assert len(tried) == count
    assert (again.values, again.trials) == (first.values, first.trials)
    other = dataclasses.replace(STUDENT, width=6)
    with pytest.raises(UsageError, match="redo"):
        kd.experiments.tune(task, teacher, other, tmp_path, minutes=100)


def test_wrong_arguments(task, teacher, tmp_path):
    for minutes in (0, -1.0, float("nan")):
        with pytest.raises(UsageError, match="minutes"):
            tune(task, teacher, tmp_path, minutes)
    with pytest.raises(UsageError, match="temperature"):
        tune(task, teacher, tmp_path, temperature=0.0)


@pytest.mark.parametrize(
    ("text", "minutes"), [(None, None), ("90s", 1.5), ("10m", 10), ("1h", 60)]
)
def test_a_time_as_people_write_it(text, minutes):
    assert choices.minutes("--tune", text) == minutes


@pytest.mark.parametrize(
    "text", ["10", "0m", "-1m", "ten", "nanm", "9" * 400 + "h", "10000000h"]
)
def test_a_time_that_is_none(text):
    with pytest.raises(UsageError, match="`--tune` must be a time such as"):
        choices.minutes("--tune", text)


@pytest.mark.large
@pytest.mark.usefixtures("eager")
def test_the_command_tunes_and_says_so(tmp_path, capsys):
    texts = tiny_text.write(
        tmp_path / "texts", {"train": 40, "dev": 16, "test": 16}
    )
    arguments = ["distill", "--smoke", "--tune", "2s", "--data", str(texts)]
    arguments += ["--output", str(tmp_path / "out")]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "tune: hard labels, learning rate" in out
    assert "tuned: learning rate" in out
    settings = _files.read_json(tmp_path / "out" / "report.json")["settings"]
    assert settings["tune"] == "2s"
    assert settings["temperature"] > 0
    assert settings["hard_weight"] > 0
    assert main(arguments) == 0
    assert "already done: tune" in capsys.readouterr().out
