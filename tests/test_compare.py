"""`kd.compare`: cells that continue, arms that learn what they should."""

import dataclasses
import json

import keras
import numpy as np
import pytest
from helpers import run_snippets

from keras_distill import data
from keras_distill import losses
from keras_distill import matching
from keras_distill import stages
from keras_distill import students
from keras_distill.comparison import Arm
from keras_distill.comparison import Student
from keras_distill.comparison import Task
from keras_distill.comparison import Watcher
from keras_distill.comparison import arms as arms_module
from keras_distill.comparison import cells
from keras_distill.comparison import compare
from keras_distill.comparison import default_arms
from keras_distill.comparison import training
from keras_distill.comparison.cells import Cell
from keras_distill.comparison.descriptions import describe

WORDS = {"good": "fine great nice lovely", "bad": "awful poor dull sad"}
VOCABULARY = [
    *data.vocabulary.SPECIAL_TOKENS,
    *" ".join(WORDS.values()).split(),
    *"the abcdefghijklmnopqrstuvwxyz0123456789"[4:],
    "the",
]
TRANSFER = [f"the {word} {i}" for i, word in enumerate(WORDS["good"].split())]


def part(rows, name):
    rng = np.random.default_rng(rows)
    texts = [
        " ".join(rng.choice(WORDS[["good", "bad"][i % 2]].split(), 3))
        for i in range(rows)
    ]
    return data.TextDataset(texts, np.arange(rows) % 2)


def build():
    return students.text_cnn(2, (len(VOCABULARY), 4), filters=4)


@pytest.fixture(scope="module")
def task():
    keras.utils.set_random_seed(3)
    sizes = {"train": 24, "dev": 10, "test": 12}
    splits = data.TextSplits(
        **{name: part(rows, name) for name, rows in sizes.items()},
        label_names=["good", "bad"],
    )
    return Task.from_texts(
        splits,
        data.bert_preprocessor(VOCABULARY, 8),
        build(),
        transfer=TRANSFER,
        name="tiny",
    )


@pytest.fixture
def untrained(monkeypatch):
    """Trainings that only count, and may be interrupted."""

    class Fits:
        def __init__(self):
            self.count = 0
            self.stop_at = None

        def __call__(self, model, batches, length, dev, callbacks):
            self.count += 1
            if self.count == self.stop_at:
                raise KeyboardInterrupt
            values = [0.5, 0.6, 0.4][: length[0]]
            for callback in callbacks:
                for epoch, value in enumerate(values):
                    callback.on_epoch_end(epoch, {"val_accuracy": value})
                callback.on_train_end()
            return {"val_accuracy": values}

    fits = Fits()
    monkeypatch.setattr(training, "fit", fits)
    monkeypatch.setattr(
        training,
        "predict",
        lambda model, rows: np.eye(2, dtype="float32")[rows.labels],
    )
    return fits


class Lines(Watcher):
    def __init__(self):
        self.lines = []

    def line(self, text):
        self.lines.append(text)


def call(task, folder, seeds=2, epochs=2, **options):
    watcher = Lines()
    arms = options.pop("arms", default_arms(False)[::2])
    options = {"export": False, "html": False, "watcher": watcher} | options
    student = Student(build, epochs=epochs, batch_size=8)
    found = compare(task, {"CNN": student}, folder, arms, seeds, **options)
    return found, watcher.lines


@pytest.mark.large
def test_a_finished_cell_is_not_trained_again(task, untrained, tmp_path):
    found, _ = call(task, tmp_path)
    assert untrained.count == 4
    again, lines = call(task, tmp_path)
    assert untrained.count == 4
    assert sum("already done" in line for line in lines) == 4
    assert json.dumps(again) == json.dumps(found)
    more, _ = call(task, tmp_path, seeds=3)
    assert untrained.count == 6
    assert more["rows"][0]["seeds"] == [0, 1, 2]
    assert json.loads((tmp_path / "report.json").read_text()) == more


def test_an_interrupted_comparison_continues(task, untrained, tmp_path):
    untrained.stop_at = 3
    with pytest.raises(KeyboardInterrupt):
        call(task, tmp_path)
    assert len(list((tmp_path / "cells").glob("*.json"))) == 2
    assert not list(tmp_path.rglob(".draft-*"))
    untrained.stop_at = None
    found, lines = call(task, tmp_path)
    assert untrained.count == 5
    assert sum("already done" in line for line in lines) == 2
    assert [len(row["seeds"]) for row in found["rows"]] == [2, 2]


@pytest.mark.parametrize("suffix", ["json", "npz", "keras"])
def test_a_cell_without_one_of_its_files_is_not_finished(
    suffix, task, untrained, tmp_path
):
    call(task, tmp_path, seeds=1)
    (tmp_path / "cells" / f"cnn.kd.0.{suffix}").unlink()
    call(task, tmp_path, seeds=1)
    assert untrained.count == 3


OTHERS = [
    ({"epochs": 3}, "student", 2),
    (
        {"arms": [Arm("hard labels"), Arm("KD", losses.ForwardKL(2.0))]},
        "arm",
        1,
    ),
    ({"labels": 10}, "labels", 2),
]


@pytest.mark.parametrize(("change", "part", "again"), OTHERS)
def test_cells_of_other_options_are_refused(
    change, part, again, task, untrained, tmp_path
):
    call(task, tmp_path, seeds=1)
    with pytest.raises(ValueError, match=f"another {part}.*redo"):
        call(task, tmp_path, seeds=1, **change)
    assert untrained.count == 2
    call(task, tmp_path, seeds=1, redo=True, **change)
    assert untrained.count == 2 + again


def test_what_a_cell_depends_on(task):
    hard, kd, more = Arm("a"), *default_arms(True)[2::3]
    guessed = Arm("b", transfer=True)
    made = {
        arm.name: Cell("s", Student(build), arm, 0, None, None).made_with(
            task, "initial"
        )
        for arm in (hard, kd, more, guessed)
    }
    assert made["b"]["teacher"] is not None
    assert made["a"]["teacher"] is None
    assert made["KD"]["teacher"] is not None
    assert made["KD"]["transfer"] is None
    assert made["KD + transfer"]["transfer"] is not None
    assert made["KD"]["arm"]["soft_loss"]["temperature"] == 4.0


def test_initial_weights_tell_students_apart():
    same, again, other = (
        cells.initial_weights(Student(build), seed) for seed in (0, 0, 1)
    )
    wider = Student(
        lambda: students.text_cnn(2, (len(VOCABULARY), 4), filters=5)
    )
    assert same == again != other
    assert cells.initial_weights(wider, 0) != same


def texts_of(task, arm, labels=None, seed=0):
    kept = task.labels(labels, seed)
    return cells._texts(arm, kept, task)


def test_what_an_arm_learns_from(task):
    hard, kd = Arm("hard"), Arm("KD", losses.ForwardKL())
    rows, logits = texts_of(task, hard)
    assert len(rows) == len(logits) == 24
    rows, logits = texts_of(task, kd, labels=6)
    assert len(rows) == len(logits) == 6
    known = np.flatnonzero(task.labels(6, 0) != data.UNLABELLED)
    np.testing.assert_array_equal(logits, task.logits["train"][known])
    np.testing.assert_array_equal(
        rows.inputs["token_ids"],
        task.encoded["train"].inputs["token_ids"][known],
    )


def test_transfer_text_has_labels_only_from_the_teacher(task):
    kd = Arm("KD", losses.ForwardKL(), transfer=True)
    rows, logits = texts_of(task, kd, labels=6)
    assert len(rows) == len(logits) == 24 + len(TRANSFER)
    assert (rows.labels != data.UNLABELLED).sum() == 6
    np.testing.assert_array_equal(
        logits[24:], task.logits["transfer"].astype("float32")
    )
    rows, logits = texts_of(task, Arm("hard", transfer=True), labels=6)
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
    bare = Task(task.splits, *without_transfer(task))
    assert bare.has_transfer(6)
    assert not bare.has_transfer()


def without_transfer(task):
    return [
        {k: v for k, v in held.items() if k != "transfer"}
        for held in (task.encoded, task.logits)
    ]


def test_batches_carry_the_logits_of_their_texts(task):
    rows, logits = texts_of(task, Arm("KD", losses.ForwardKL(), transfer=True))
    taught = {
        tuple(ids): row for ids, row in zip(rows.inputs["token_ids"], logits)
    }
    seen = 0
    for x, _ in training.batches(rows, 8, 0, logits).take(4):
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


def test_default_arms():
    names = [arm.name for arm in default_arms(True)]
    assert names == [
        "hard labels",
        "logit MSE",
        "KD",
        "hard labels + transfer",
        "logit MSE + transfer",
        "KD + transfer",
    ]
    kinds = [(a.is_control, a.is_distilled) for a in default_arms(True)]
    assert kinds == [
        (True, False),
        (False, True),
        (False, True),
        (False, False),
        (False, True),
        (False, True),
    ]


def test_descriptions():
    kd = Arm("KD", losses.ForwardKL(2.0), 0.2, 0.8, transfer=True)
    told = describe(kd, 4)
    for words in ("0.2 x", "0.8 x ForwardKL", "temperature 2", "unlabelled"):
        assert words in told
    assert "teacher predicts" in describe(Arm("hard", transfer=True), 4)


def test_descriptions_of_stages():
    annealed = losses.AnnealedMSE(3)

    def recipe(epochs):
        return stages.annealing_kd_stages(3, 1, epochs - 3)

    def flat(epochs):
        first, second = recipe(epochs)
        return [dataclasses.replace(first, temperature=1.0), second]

    assert describe(Arm("A", annealed, stages=recipe), 5) == (
        "3 epochs: 1 x AnnealedMSE (temperature 3 to 1, max_temperature 3); "
        "2 epochs: 1 x cross-entropy with the labels"
    )
    not_annealed = describe(Arm("A", annealed, stages=flat), 5)
    assert "(temperature 1.0, max_temperature 3); 2" in not_annealed
    inherited = Arm("A", annealed, 0.2, 0.8, stages=lambda e: [stages.Stage(e)])
    told = describe(inherited, 2)
    assert told.startswith("2 epochs: 0.2 x cross-entropy")


def test_options_hold_what_stages_and_matches_are():
    arm = Arm(
        "A",
        losses.AnnealedMSE(3),
        stages=lambda epochs: stages.annealing_kd_stages(3, 1, epochs - 3),
        matches=matching.uniform_layer_map,
    )
    five, six = (json.dumps(arm.options(n)) for n in (5, 6))
    assert five != six
    assert "uniform_layer_map" in five
    assert five == json.dumps(arm.options(5))


WRONG = [
    ({"seeds": 0}, "seeds=0"),
    ({"seeds": [1, 1]}, "different integers"),
    ({"arms": [Arm("KD", losses.ForwardKL())]}, "the control"),
    ({"arms": [Arm("a"), Arm("A")]}, "different names"),
    ({"arms": []}, "at least one"),
    ({"labels": 0}, "labels=0"),
    ({"cost_per_hour": -1}, "cost_per_hour"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_wrong_arguments(change, message, task, untrained, tmp_path):
    with pytest.raises(ValueError, match=message):
        call(task, tmp_path / "out", **change)
    assert untrained.count == 0


@pytest.mark.parametrize(
    ("students_given", "message"),
    [
        ({}, "at least one"),
        ({"teacher": build}, "not name one"),
        ({"a": 3}, "callable"),
        ([build], "must be a dict"),
    ],
)
def test_wrong_students(students_given, message, task, tmp_path):
    with pytest.raises(ValueError, match=message):
        compare(task, students_given, tmp_path, export=False, html=False)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Arm("+"), "letter"),
        (lambda: Arm("a", hard_weight=-1), "hard_weight=-1"),
        (lambda: Arm("a", losses.ForwardKL(), soft_weight=0), "be positive"),
        (lambda: Arm("a", matches=len), "are for arms with"),
        (lambda: Student(build, epochs=0), "epochs=0"),
        (lambda: Student(build, learning_rate=0), "learning_rate=0"),
    ],
)
def test_wrong_arms_and_students(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_arms_that_the_task_cannot_serve(task, untrained, tmp_path):
    bare = Task(task.splits, *without_transfer(task))
    kd = losses.ForwardKL()
    for arm, message in [
        (Arm("KD", kd, transfer=True), "text without labels"),
        (Arm("KD", kd, matches=lambda t, s: []), "the teacher itself"),
    ]:
        with pytest.raises(ValueError, match=message):
            call(bare, tmp_path, arms=[Arm("hard labels"), arm])


def test_one_model_is_not_a_way_to_build_many(task, tmp_path):
    with pytest.raises(ValueError, match="trained twice"):
        compare(task, {"CNN": build()}, tmp_path)


def test_slugs():
    assert arms_module.slug("KD + transfer, T=4") == "kd-transfer-t-4"


@pytest.mark.large
def test_a_whole_comparison(task, tmp_path):
    arms = [
        *default_arms(True)[::2],
        Arm("KD + transfer", losses.ForwardKL(), transfer=True),
        Arm(
            "Annealing-KD",
            losses.AnnealedMSE(2),
            stages=lambda epochs: stages.annealing_kd_stages(2, 1, epochs - 2),
        ),
    ]
    found, _ = call(task, tmp_path, arms=arms, epochs=3, export=True, html=True)
    for row in found["rows"]:
        assert len(row["curves"][0]["val_accuracy"]) == 3
        assert row["steps"] == 9
        assert row["parameters"] == build().count_params()
    assert (tmp_path / "report.html").stat().st_size > 20_000
    if keras.backend.backend() != "tensorflow":
        assert found["exports"] == {}
        return
    export = tmp_path / "export" / "cnn"
    files = found["exports"]["CNN"]["files"]
    assert list(files) == ["float32", "int8", "SavedModel"]
    card = export / "README.md"
    for words in ("## Limits", "tiny", "points", "Seed", "## Metrics"):
        assert words in card.read_text()
    for path in (card, export / "saved_model" / "README.md"):
        assert set(run_snippets(path)) <= {"good", "bad"}
    again, lines = call(
        task, tmp_path, arms=arms, epochs=3, export=True, html=True
    )
    assert again["exports"] == found["exports"]
    assert not any(line.startswith("export") for line in lines)
