"""`kd.compare`: cells that continue, recipes that learn what they should."""

import dataclasses
import json

import keras
import numpy as np
import pytest
import tiny_text
from helpers import run_snippets
from tiny_text import TRANSFER
from tiny_text import cnn

import keras_distill as kd
from keras_distill import data
from keras_distill import losses
from keras_distill import recipes
from keras_distill import stages
from keras_distill.experiments import Watcher
from keras_distill.experiments import configurations
from keras_distill.experiments import default_recipes
from keras_distill.experiments import training
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import Cell
from keras_distill.experiments.descriptions import describe
from keras_distill.recipes import Recipe
from keras_distill.recipes.base import slug
from keras_distill.students import Custom

HARD = recipes.hard()
KD = recipes.kd()


@pytest.fixture(scope="module")
def task():
    return tiny_text.task()


@pytest.fixture(scope="module")
def teacher(task):
    return tiny_text.teacher(task)


@pytest.fixture(scope="module")
def bench(task, teacher):
    return Bench(task, teacher)


@pytest.fixture
def untrained(monkeypatch):
    """Trainings that only count, and may be interrupted."""

    class Fits:
        def __init__(self):
            self.count = 0
            self.stop_at = None

        def __call__(self, model, batches, length, callbacks, watcher):
            self.count += 1
            if self.count == self.stop_at:
                raise KeyboardInterrupt
            values = [0.5, 0.6, 0.4][: length[0]]
            for callback in callbacks:
                for epoch, value in enumerate(values):
                    callback.value = lambda value=value: value
                    callback.on_epoch_end(epoch, {})
                callback.on_train_end()
            return {"val_score": values}

    fits = Fits()
    monkeypatch.setattr(training, "fit", fits)
    monkeypatch.setattr(
        training,
        "predict",
        lambda model, rows: 2 * np.eye(2, dtype="float32")[rows.labels],
    )
    return fits


class Lines(Watcher):
    def __init__(self):
        self.lines = []

    def line(self, text):
        self.lines.append(text)

    def start(self, text, phase):
        if phase is not None:
            self.lines.append(f"started: {phase}")


@pytest.fixture
def call(task, teacher):
    """Compares; the report, and what the watcher was told."""

    def run(folder, seeds=2, epochs=2, task=task, teacher=teacher, **options):
        watcher = Lines()
        options = {
            "recipes": [HARD, KD],
            "export": False,
            "html": False,
            "watcher": watcher,
        } | options
        student = Custom(builder=cnn, epochs=epochs, batch_size=8)
        found = kd.compare(
            task, teacher, {"CNN": student}, folder, seeds=seeds, **options
        )
        return found, watcher.lines

    return run


@pytest.mark.large
def test_a_finished_cell_is_not_trained_again(call, untrained, tmp_path):
    found, _ = call(tmp_path)
    assert untrained.count == 4
    again, lines = call(tmp_path)
    assert untrained.count == 4
    assert sum("already done" in line for line in lines) == 5
    assert json.dumps(again) == json.dumps(found)
    more, _ = call(tmp_path, seeds=3)
    assert untrained.count == 6
    assert more["rows"][0]["seeds"] == [0, 1, 2]
    assert json.loads((tmp_path / "report.json").read_text()) == more


def test_an_interrupted_comparison_continues(call, untrained, tmp_path):
    untrained.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        call(tmp_path)
    assert len(list((tmp_path / "phases").glob("*.json"))) == 3
    assert not list(tmp_path.rglob(".draft-*"))
    untrained.stop_at = None
    found, lines = call(tmp_path)
    assert untrained.count == 5
    assert sum("already done" in line for line in lines) == 3
    assert [len(row["seeds"]) for row in found["rows"]] == [2, 2]


@pytest.mark.parametrize(
    "file",
    [
        "phases/cnn.kd.0.json",
        "cells/cnn.kd.0/predictions.npz",
        "cells/cnn.kd.0/student.keras",
    ],
)
def test_a_cell_without_one_of_its_files_is_not_finished(
    file, call, untrained, tmp_path
):
    call(tmp_path, seeds=1)
    (tmp_path / file).unlink()
    call(tmp_path, seeds=1)
    assert untrained.count == 3


OTHERS = [
    ({"epochs": 3}, r"student\.epochs: 2 there, 3 now", 2),
    (
        {"recipes": [HARD, recipes.kd(2.0)]},
        r"recipe\.soft_loss\.config\.temperature: 4.0 there, 2.0 now",
        1,
    ),
    ({"labels": 10}, "labels: None there, 10 now", 2),
]


@pytest.mark.parametrize(("change", "part", "again"), OTHERS)
def test_cells_of_other_options_are_refused(
    change, part, again, call, untrained, tmp_path
):
    call(tmp_path, seeds=1)
    with pytest.raises(ValueError, match=f"{part}.*redo"):
        call(tmp_path, seeds=1, **change)
    assert untrained.count == 2
    call(tmp_path, seeds=1, redo=True, **change)
    assert untrained.count == 2 + again


def cell(recipe, student=None, seed=0, labels=None):
    return Cell(
        "name",
        "title",
        "CNN",
        student or Custom(builder=cnn),
        recipe.name,
        recipe,
        seed,
        labels,
    )


def test_what_a_cell_depends_on(bench):
    guessed = recipes.hard().with_transfer()
    made = {
        recipe.name: bench.made_with(cell(recipe))
        for recipe in (HARD, KD, KD.with_transfer(), guessed)
    }
    assert made["hard labels + transfer"]["teacher"] is not None
    assert made["hard labels"]["teacher"] is None
    assert made["KD"]["teacher"] is not None
    assert not made["KD"]["transfer texts"]
    assert made["KD + transfer"]["transfer texts"]
    assert made["KD"]["recipe"]["soft_loss"]["config"]["temperature"] == 4.0


def test_initial_weights_tell_students_apart(task, teacher):
    def wider(task, teacher):
        return tiny_text.network(filters=5)

    def initial(builder, seed):
        made = Bench(task, teacher).made_with(
            cell(HARD, Custom(builder=builder), seed)
        )
        return made["student"]["initial weights"]

    same, again, other = (initial(cnn, seed) for seed in (0, 0, 1))
    assert same == again != other
    assert initial(wider, 0) != same


def texts_of(bench, recipe, labels=None, seed=0):
    labels = bench.task.labels(labels, seed)
    rows, signal = bench.signals.rows(recipe, labels)
    return rows, signal["logits"]


def test_what_an_arm_learns_from(bench):
    task = bench.task
    rows, logits = texts_of(bench, HARD)
    assert len(rows) == len(logits) == 24
    rows, logits = texts_of(bench, KD, labels=6)
    assert len(rows) == len(logits) == 6
    known = np.flatnonzero(task.labels(6, 0) != data.UNLABELLED)
    np.testing.assert_array_equal(logits, bench.teacher.logits["train"][known])
    np.testing.assert_array_equal(
        rows.inputs["token_ids"],
        task.encoded["train"].inputs["token_ids"][known],
    )


def test_transfer_text_has_labels_only_from_the_teacher(bench):
    task = bench.task
    rows, logits = texts_of(bench, KD.with_transfer(), labels=6)
    assert len(rows) == len(logits) == 24 + len(TRANSFER)
    assert (rows.labels != data.UNLABELLED).sum() == 6
    np.testing.assert_array_equal(logits[24:], bench.teacher.logits["transfer"])
    rows, logits = texts_of(bench, HARD.with_transfer(), labels=6)
    known = np.flatnonzero(task.labels(6, 0) != data.UNLABELLED)
    truth = task.splits.train.labels
    np.testing.assert_array_equal(rows.labels[known], truth[known])
    guessed = np.setdiff1d(np.arange(len(rows)), known)
    np.testing.assert_array_equal(
        rows.labels[guessed], logits[guessed].argmax(-1)
    )


def test_labels_are_of_the_seed(task):
    assert (task.labels(6, 0) != task.labels(6, 1)).any()
    assert task.has_transfer(6)
    bare = tiny_text.task(transfer=())
    assert bare.has_transfer(6)
    assert not bare.has_transfer()


def test_batches_carry_the_logits_of_their_texts(bench):
    rows, logits = texts_of(bench, KD.with_transfer())
    taught = {
        tuple(ids): row for ids, row in zip(rows.inputs["token_ids"], logits)
    }
    seen = 0
    for x, _ in training.batches(rows, 8, 0, {"logits": logits}).take(4):
        assert set(x["student"]) == set(rows.inputs)
        for ids, row in zip(
            x["student"]["token_ids"].numpy(),
            x["teacher_signal"]["logits"].numpy(),
        ):
            padded = tuple(np.pad(ids, (0, 8 - len(ids))))
            np.testing.assert_array_equal(row, taught[padded])
            seen += 1
    assert seen > 20
    for x, _ in training.batches(rows, 8, 0).take(1):
        assert set(x) == set(rows.inputs)


def test_predictions_are_in_the_order_of_the_rows():
    """Rows of similar length run together, and cost what they hold."""

    class Widths(keras.layers.Layer):
        """The row's first token, and how wide its batch was."""

        def call(self, x):
            width = keras.ops.ones_like(x[:, 0]) * keras.ops.shape(x)[1]
            return keras.ops.stack([x[:, 0], width], axis=1)

    tokens = keras.Input((None,), dtype="int32", name="token_ids")
    model = keras.Model({"token_ids": tokens}, Widths()(tokens))
    lengths = np.random.default_rng(0).integers(1, 31, 300)
    ids = np.arange(300, dtype="int32")[:, None] * np.ones((1, 64), "int32")
    rows = data.EncodedDataset({"token_ids": ids}, lengths * 0, lengths)
    found = training.predict(model, rows)
    np.testing.assert_array_equal(found[:, 0], np.arange(300))
    np.testing.assert_array_equal(found[:, 1], -(-lengths // 8) * 8)


def test_default_recipes():
    names = [arm.name for arm in default_recipes(True)]
    assert names == [
        "hard labels",
        "logit MSE",
        "KD",
        "hard labels + transfer",
        "logit MSE + transfer",
        "KD + transfer",
    ]
    kinds = [(a.is_control, a.is_distilled) for a in default_recipes(True)]
    assert kinds == [
        (True, False),
        (False, True),
        (False, True),
        (False, False),
        (False, True),
        (False, True),
    ]


def test_descriptions():
    told = describe(recipes.kd(2.0, 0.2, 0.8).with_transfer(), 4)
    for words in ("0.2 x", "0.8 x ForwardKL", "temperature 2", "unlabelled"):
        assert words in told
    assert "teacher predicts" in describe(HARD.with_transfer(), 4)


def test_descriptions_of_stages():
    annealed = losses.AnnealedMSE(3)

    def recipe(epochs):
        return stages.annealing_kd_stages(3, 1, epochs - 3)

    def flat(epochs):
        first, second = recipe(epochs)
        return [dataclasses.replace(first, temperature=1.0), second]

    assert describe(Recipe("A", annealed, stages=recipe), 5) == (
        "3 epochs: 1 x AnnealedMSE (temperature 3 to 1, max_temperature 3); "
        "2 epochs: 1 x cross-entropy with the labels"
    )
    not_annealed = describe(Recipe("A", annealed, stages=flat), 5)
    assert "(temperature 1.0, max_temperature 3); 2" in not_annealed
    inherited = Recipe(
        "A", annealed, 0.2, 0.8, stages=lambda e: [stages.Stage(e)]
    )
    told = describe(inherited, 2)
    assert told.startswith("2 epochs: 0.2 x cross-entropy")


def test_options_hold_what_stages_and_matches_are(task):
    recipe = recipes.annealing(3)
    five, six = (configurations.configuration(recipe.stages(n)) for n in (5, 6))
    assert five != six
    assert five == configurations.configuration(recipe.stages(5))
    assert json.dumps(five) != json.dumps(
        configurations.configuration(recipes.two_stage(3).stages(5))
    )
    matching_it = Bench(
        task, tiny_text.teacher(task, tiny_text.encoder(task))
    ).made_with(cell(recipes.hidden(), kd.students.BiLSTM(width=4)))
    (match,) = matching_it["recipe"]["matches"]
    assert match["weight"] == 1.0
    assert "HiddenMSE" in match["loss"]["class"]


WRONG = [
    ({"seeds": 0}, "seeds=0"),
    ({"seeds": [1, 1]}, "different integers"),
    ({"recipes": [KD]}, "the control"),
    ({"recipes": [Recipe("a"), Recipe("A")]}, "different names"),
    ({"recipes": []}, "at least one"),
    ({"labels": 0}, "labels=0"),
    ({"cost_per_hour": -1}, "cost_per_hour"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_wrong_arguments(change, message, call, untrained, tmp_path):
    with pytest.raises(ValueError, match=message):
        call(tmp_path / "out", **change)
    assert untrained.count == 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("students_given", "message"),
    [
        ({}, "at least one"),
        ({"teacher": cnn}, "not name one"),
        ({"a": 3}, "callable"),
        ([cnn], "must be a dict"),
    ],
)
def test_wrong_students(students_given, message, task, teacher, tmp_path):
    with pytest.raises(ValueError, match=message):
        kd.compare(
            task, teacher, students_given, tmp_path, export=False, html=False
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Recipe("+"), "letter"),
        (lambda: Recipe("a", hard_weight=-1), "hard_weight=-1"),
        (
            lambda: Recipe("a", losses.ForwardKL(), soft_weight=0),
            "at least 1e-06",
        ),
        (lambda: Recipe("a", matches=len), "are for recipes with"),
        (
            lambda: Recipe("a", losses.ForwardKL(), signals=len),
            "pass both.*matches=None",
        ),
        (lambda: Custom(builder=cnn, epochs=0), "epochs=0"),
        (lambda: Custom(builder=cnn, learning_rate=0), "learning_rate=0"),
    ],
)
def test_wrong_recipes_and_students(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_recipes_that_the_task_cannot_serve(
    call, task, teacher, untrained, tmp_path
):
    bare = tiny_text.task(transfer=())
    taught = tiny_text.teacher(bare, teacher.model)
    for recipe, message in [
        (KD.with_transfer(), "text without labels"),
        (
            Recipe("match", losses.ForwardKL(), matches=lambda s, t, m: []),
            "the teacher itself",
        ),
    ]:
        with pytest.raises(ValueError, match=message):
            call(
                tmp_path,
                task=bare,
                teacher=tiny_text.logits_alone(taught),
                recipes=[HARD, recipe],
            )


def test_one_model_is_not_a_way_to_build_many(task, teacher, tmp_path):
    with pytest.raises(ValueError, match="trained twice"):
        kd.compare(task, teacher, {"CNN": tiny_text.network()}, tmp_path)


def test_slugs():
    assert slug("KD + transfer, T=4") == "kd-transfer-t-4"


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_a_whole_comparison(call, tmp_path):
    chosen = [
        HARD,
        KD,
        KD.with_transfer(),
        recipes.annealing(2),
    ]
    options = {"recipes": chosen, "epochs": 3, "export": True, "html": True}
    found, _ = call(tmp_path, **options)
    for row in found["rows"]:
        assert len(row["curves"][0]["val_score"]) == 3
        assert row["steps"] == 9
        assert row["parameters"] == tiny_text.network().count_params()
    assert (tmp_path / "report.html").stat().st_size > 20_000
    export = tmp_path / "export" / "cnn"
    files = found["exports"]["CNN"]["files"]
    assert list(files) == ["float32", "int8", "SavedModel"]
    card = export / "README.md"
    for words in ("## Limits", "tiny", "points", "Seed", "## Metrics"):
        assert words in card.read_text()
    for path in (card, export / "student_saved_model" / "README.md"):
        assert set(run_snippets(path)) <= {"good", "bad"}
    again, lines = call(tmp_path, **options)
    assert again["exports"] == found["exports"]
    assert not any(line.startswith("started") for line in lines)
