"""How much text is made where nobody says, and what follows from it."""

import dataclasses
import types

import numpy as np
import pytest
import tensorflow as tf
import tiny_runs
import tiny_text

from keras_distill import data
from keras_distill import recipes
from keras_distill import students
from keras_distill._watcher import Watcher
from keras_distill.cli.cache.options import Cache
from keras_distill.cli.compare import options as compare
from keras_distill.cli.distill import options as distill
from keras_distill.cli.shared import choices
from keras_distill.cli.shared.options import Transfer
from keras_distill.experiments import Preparation
from keras_distill.experiments import Prepared
from keras_distill.experiments import defaults
from keras_distill.experiments import distilling
from keras_distill.experiments import predicting
from keras_distill.experiments import prepared as module
from keras_distill.experiments import transfer
from keras_distill.experiments.prepared import open_folder
from keras_distill.tasks.base import TRANSFER


@pytest.mark.parametrize(
    ("rows", "expected"),
    [(0, 20), (2_000, 20), (2_001, 19), (20_000, 2), (20_001, None)],
)
def test_as_many_variations_as_make_enough_texts(rows, expected):
    assert transfer.for_rows(rows) == expected


@pytest.mark.parametrize(
    ("student", "rows", "more", "expected"),
    [
        (students.TextCNN(), 20_000, 0, 10),
        (students.TextCNN(), 20_000, 20_000, 10),
        (students.TextCNN(), 20_000, 40_000, 15),
        (students.TextCNN(), 1_000, 0, 30),
        (students.TextCNN(), 1_000, 1_000, 30),
        (students.TextCNN(), 1_000, 18_600, 98),
        (students.NGram(), 1_000, 18_600, 196),
        (students.Shrink(), 20_000, 40_001, 7),
    ],
)
def test_more_text_takes_more_steps(student, rows, more, expected):
    assert defaults.for_rows(student, rows, more).epochs == expected


@pytest.fixture
def files(tmp_path):
    """The options that name a pretrained teacher and a file of data."""
    teacher = tiny_runs.saved_teacher(tmp_path / "teacher")
    texts = tiny_runs.write_texts(tmp_path / "texts")
    return {"teacher": str(teacher), "data": str(texts)}


def decided(kind, files, names=(), **changed):
    what = dataclasses.replace(kind().what, **files)
    options = dataclasses.replace(kind(), what=what, **changed)
    return choices.preparation(options, names).transfer


@pytest.mark.parametrize("kind", [distill.Distill, compare.Compare])
def test_who_gets_text_made_unasked(kind, files, tmp_path):
    assert decided(kind, files, ["text_cnn"]) == "auto"
    assert decided(kind, files, ["shrink", "ngram"]) == "auto"
    assert decided(kind, files, ["shrink"]) is None
    assert decided(kind, files) is None
    assert decided(Cache, files) is None
    embedded = {**files, "teacher": "embedded"}
    assert decided(kind, embedded, ["text_cnn"]) is None
    smoke = dataclasses.replace(kind().run, smoke=True)
    assert decided(kind, files, ["text_cnn"], run=smoke) is None
    path = tmp_path / "more.txt"
    path.write_text("further text\n")
    own = Transfer(unlabelled=path)
    assert decided(kind, files, ["text_cnn"], transfer=own) is None
    asked = Transfer(transfer="augment:2")
    assert decided(kind, files, ["shrink"], transfer=asked) == "augment:2"


@pytest.mark.parametrize(
    ("made", "labels", "expected"),
    [
        (True, None, ["control", "distilled", "distilled_labelled"]),
        (False, None, ["control", "distilled"]),
        (True, 6, ["control", "distilled", "all_labels"]),
        (False, 6, ["control", "distilled", "all_labels"]),
    ],
)
def test_what_a_transfer_set_brings_is_measured(made, labels, expected):
    task = tiny_text.task(tiny_text.TRANSFER if made else ())
    cells = distilling.cells(
        task, students.TextCNN(), recipes.kd(), labels, (0,)
    )
    assert [cell.arm for cell in cells] == expected
    learns = {cell.arm: cell.recipe.transfer for cell in cells}
    assert learns["distilled"] == (made or labels is not None)
    assert not learns.get("distilled_labelled", False)
    asked = recipes.kd().with_transfer()
    if made and labels is None:
        found = distilling.cells(task, students.TextCNN(), asked, None, (0,))
        assert [cell.arm for cell in found] == ["control", "distilled"]


def prepared(folder, files, **chosen):
    """Settings and task, once with and once without what is in the folder."""
    found = []
    for _ in range(2):
        preparation = Preparation(**files, **chosen)
        with open_folder(folder, "distill", preparation) as opened:
            ready = Prepared(preparation, opened)
            phases = ready.phases(Watcher())
            opened.execute(phases[:2], Watcher())
            assert [phase.name for phase in phases][:2] == ["data", TRANSFER]
            found.append((ready.settings()["transfer"], ready.task))
    (first, task), (second, again) = found
    assert first == second
    assert task.hashes() == again.hashes()
    return first, task


def test_the_rows_decide(files, tmp_path, monkeypatch):
    chosen, task = prepared(tmp_path / "few", files, transfer="auto")
    assert chosen == "augment:20"
    assert len(task.encoded[TRANSFER]) > len(task.encoded["train"])
    assert "up to 20 variations of each train text" in task.notes[-1]
    rows = len(task.encoded["train"])
    monkeypatch.setattr(transfer, "WANTED_TEXTS", 2 * rows - 1)
    chosen, task = prepared(tmp_path / "many", files, transfer="auto")
    assert chosen is None
    assert TRANSFER not in task.encoded
    assert not task.has_transfer()
    assert not any("Transfer set" in note for note in task.notes)


def test_a_slow_teacher_labels_what_there_is_time_for():
    texts = [f"{place}" for place in range(4_000)]
    assert transfer.within(texts, 0.1, 10.0) is texts
    kept = transfer.within(texts, 0.3, 10.0)
    assert len(kept) == len(set(kept)) == 2_000
    # Variations of a text stand side by side: each text keeps some of its own.
    assert kept == texts[::2]
    assert len(transfer.within(texts, 60.0, 10.0)) == 1_000
    assert len(transfer.within(texts[:10], 60.0, 10.0)) == 10


def test_only_what_is_automatic_is_cut(files, tmp_path, monkeypatch):
    monkeypatch.setattr(transfer, "FEWEST_TEXTS", 7)
    monkeypatch.setattr(module, "seconds_per_row", lambda *_: 60.0)
    # In one folder: the teacher of the first run, which was timed, serves both.
    for asked in ("auto", "augment:20"):
        preparation = Preparation(
            **files, transfer=asked, teacher_epochs=0, teacher_minutes=1.0
        )
        with open_folder(tmp_path / "run", "distill", preparation) as opened:
            ready = Prepared(preparation, opened)
            opened.execute(ready.phases(Watcher()), Watcher(), redo=True)
            kept = len(ready.task.encoded[TRANSFER])
            made = opened.result("transfer")["texts"]
            # What is labelled is what the student gets.
            assert len(ready.teacher.logits[TRANSFER]) == kept
            told = ready.task.notes[-1]
        if asked == "auto":
            assert kept == 7 < made
            assert f"the other {made - 7:,}" in told
            assert "`--teacher-minutes`" in told
        else:
            assert kept == made
            assert "`--teacher-minutes`" not in told


def test_what_a_row_takes_is_timed_on_the_first_ones(monkeypatch):
    rows = tiny_text.task().encoded["train"]
    monkeypatch.setattr(predicting, "TIMED_ROWS", 5)
    passes, predictor = [], predicting.Predictor

    def spy(first):
        run = predictor(first)
        return lambda model: passes.append(run(model))

    monkeypatch.setattr(predicting, "Predictor", spy)
    ticks = iter((10.0, 11.0))
    clock = types.SimpleNamespace(perf_counter=lambda: next(ticks))
    monkeypatch.setattr(predicting, "time", clock)
    found = predicting.seconds_per_row(tiny_text.network(), rows)
    assert found == pytest.approx(0.2)
    assert [len(logits) for logits in passes] == [5, 5]


def test_batches_that_are_kept_are_made_once(monkeypatch):
    made, batches = [], data.batches

    def count(labels):
        made.append(len(labels))
        return labels

    def counted(*arguments, **options):
        return batches(*arguments, **options).map(
            lambda x, y: (x, tf.numpy_function(count, [y], y.dtype))
        )

    rows = tiny_text.task().encoded["train"]
    monkeypatch.setattr(predicting.data, "batches", counted)
    model = tiny_text.network()
    kept = predicting.Predictor(rows, keep=True)
    first, second = kept(model), kept(model)
    assert sum(made) == len(rows)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, predicting.predict(model, rows))
    assert sum(made) == 2 * len(rows)
