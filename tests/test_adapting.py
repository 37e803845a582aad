"""Fine-tuning a teacher by what dev says."""

import types

import keras
import numpy as np
import pytest
import tiny_text
import variants

from keras_distill._errors import UsageError
from keras_distill.experiments import Preparation
from keras_distill.experiments import adapting
from keras_distill.experiments import teachers
from keras_distill.experiments import teaching
from keras_distill.experiments import training
from keras_distill.experiments.host_schedule import HostSchedule


@pytest.fixture(scope="module")
def task():
    return tiny_text.task(transfer=())


class Curves:
    """Stands for `training.fit`: what dev says is given, steps are counted."""

    def __init__(self, scores, seconds=1e-6):
        self.scores = {rate: iter(held) for rate, held in scores.items()}
        self.fits = []
        self.clock = 0.0
        self.seconds = seconds

    def __call__(self, model, batches, length, callbacks, watcher=None):
        schedule, best = callbacks
        model.stop_training = False
        scorings, each = length
        rates = []
        for epoch in range(scorings):
            for step in range(each):
                schedule.on_train_batch_begin(step)
                rates.append(float(model.optimizer.learning_rate))
                self.clock += self.seconds
                schedule.on_train_batch_end(step)
                if model.stop_training:
                    break
            peak = schedule._peak
            value = next(self.scores[peak])
            model.set_weights([np.full(w.shape, value) for w in model.weights])
            best.value = lambda value=value: value
            best.on_epoch_end(epoch, {})
        best.on_train_end()
        self.fits.append((peak, len(rates), max(rates), rates[-1]))
        return {}


def adapt(
    task, monkeypatch, scores, rates, minutes=10.0, seconds=1e-6, enough=0
):
    curves = Curves(scores, seconds)
    model = tiny_text.network()
    schedule = HostSchedule.on_train_batch_begin

    def begin(self, batch, logs=None):
        self.set_model(model)
        schedule(self, batch, logs)

    with monkeypatch.context() as patch:
        patch.setattr(adapting, "ENOUGH_STEPS", enough)
        patch.setattr(training, "fit", curves)
        patch.setattr(adapting.time, "perf_counter", lambda: curves.clock)
        patch.setattr(HostSchedule, "on_train_batch_begin", begin)
        found = adapting.fine_tune_adaptively(model, task, rates, 8, minutes)
    return found, model, curves.fits


def test_the_lowest_of_equally_good_rates_is_taken(task, monkeypatch):
    scores = {
        1.0: iter([0.7]),
        2.0: iter([0.797, *[0.8] * 8]),
        4.0: iter([0.8]),
    }
    found, model, fits = adapt(task, monkeypatch, scores, (1.0, 2.0, 4.0))
    assert found.learning_rate == 2.0
    assert found.tried == {"1": 0.7, "2": 0.797, "4": 0.8}
    # 24 rows in batches of 8: twenty passes are 60 steps, in 8 scorings.
    assert [steps for _, steps, *_ in fits] == [60, 60, 60, 56]
    assert (found.steps, found.best_epoch, found.cut) == (56, 2.3, False)
    np.testing.assert_allclose(model.get_weights()[0], 0.8, rtol=1e-6)


def test_rates_rise_and_fall(task, monkeypatch):
    _, _, fits = adapt(task, monkeypatch, {3.0: [0.5] * 9}, (3.0,))
    (_, timed, *_), (_, _, highest, last) = fits
    assert timed == adapting.TIMED_STEPS
    assert highest == pytest.approx(3.0, rel=0.01)
    assert last < 0.02


def test_another_cycle_while_dev_rises(task, monkeypatch):
    rising = np.linspace(0.5, 0.8, 8).tolist()
    scores = {2.0: [0.9, *rising], 1.0: [*np.linspace(0.6, 0.9, 7), 0.85]}
    found, model, fits = adapt(task, monkeypatch, scores, (2.0,))
    assert [peak for peak, *_ in fits] == [2.0, 2.0, 1.0]
    assert found.steps == 56 + 24
    assert found.best_epoch == round((56 + 7 * 3) / 3, 1)
    np.testing.assert_allclose(model.get_weights()[0], 0.9, rtol=1e-6)


def test_few_rows_are_passed_over_more_often(task, monkeypatch):
    # 24 rows in batches of 8: twenty passes are 60 steps.
    scores = {rate: [0.4 * rate] * 9 for rate in (1.0, 2.0)}
    found, _, fits = adapt(
        task, monkeypatch, scores, (1.0, 2.0), enough=adapting.ENOUGH_STEPS
    )
    assert [steps for _, steps, *_ in fits] == [100, 100, 296]
    assert found.steps == 296


def test_no_other_cycle_where_the_end_was_not_the_best(task, monkeypatch):
    scores = {2.0: [0.95, 0.5, 0.9, *[0.8] * 6]}
    found, model, fits = adapt(task, monkeypatch, scores, (2.0,))
    assert len(fits) == 2
    assert found.best_epoch == round(2 * 7 / 3, 1)
    np.testing.assert_allclose(model.get_weights()[0], 0.9, rtol=1e-6)


def test_the_time_is_kept(task, monkeypatch):
    """Trials of at most 40 steps in 24 seconds of 96, three of them left."""
    scores = {1.0: [0.5], 2.0: [0.8, *[0.7] * 8], 4.0: [0.6]}
    found, _, fits = adapt(
        task, monkeypatch, scores, (1.0, 2.0, 4.0), minutes=1.6, seconds=0.2
    )
    assert [steps for _, steps, *_ in fits] == [40, 40, 40, 56]
    assert not found.cut
    scores = {1.0: [0.5], 2.0: [0.8, *[0.7] * 8]}
    found, _, fits = adapt(
        task, monkeypatch, scores, (1.0, 2.0), minutes=4.0, seconds=1.0
    )
    assert [steps for _, steps, *_ in fits] == [30, 30, 56]
    assert not found.cut


def test_the_training_is_cut_where_the_time_is_up(task, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(adapting, "TRIAL_STEPS", 10)
        scores = {1.0: [0.5] * 9}
        found, _, fits = adapt(task, patch, scores, (1.0,), 0.51, seconds=1.0)
    # 30.6 seconds: eight of them to time a step, and 22.
    assert [steps for _, steps, *_ in fits] == [8, 16]
    assert found.cut
    scores = {1.0: [0.5], 2.0: [0.8, *np.linspace(0.1, 0.9, 8)]}
    scores |= {1.0: [0.5, *[0.95] * 8]}
    found, _, fits = adapt(
        task, monkeypatch, scores, (1.0, 2.0), minutes=4.2, seconds=1.0
    )
    # 252 seconds: 32 + 32 + 56 are taken, 132 left for half of the steps.
    assert [steps for _, steps, *_ in fits] == [32, 32, 56, 24]


def test_without_time_to_try_the_middle_rate_is_taken(task, monkeypatch):
    scores = {1.0: [0.5], 2.0: [0.7] * 8}
    found, _, fits = adapt(
        task, monkeypatch, scores, (1.0, 2.0, 4.0), minutes=0.01, seconds=1.0
    )
    assert [steps for _, steps, *_ in fits] == [1, 56]
    assert (found.learning_rate, found.tried, found.cut) == (2.0, {}, True)


def test_a_model_that_is_never_finite_is_told(task, monkeypatch):
    scores = {1.0: [float("nan")] * 9}
    with pytest.raises(UsageError, match="could not be fine-tuned"):
        adapt(task, monkeypatch, scores, (1.0,))


@pytest.mark.large
def test_it_learns_and_does_so_again(task):
    """The same seed, the same weights, whatever was tried before."""
    found = []
    for rates in ((0.01,), (1e-6, 0.01)):
        keras.utils.set_random_seed(1)
        model = tiny_text.network(dropout=0.0)
        told = adapting.fine_tune_adaptively(model, task, rates, 8, 10.0)
        assert told.learning_rate == 0.01
        logits = training.predict(model, task.encoded["train"])
        assert task.score({"train": logits}, "train") > 0.9
        found.append(model.get_weights())
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)


def test_a_step_is_traced_once(monkeypatch):
    model = tiny_text.network()
    step, traces = type(model).train_step, []

    def counted(self, data):
        traces.append(data)
        return step(self, data)

    monkeypatch.setattr(type(model), "train_step", counted)
    teaching.fine_tune(model, tiny_text.task(), epochs=2)
    assert len(traces) == 1


@pytest.mark.large
@pytest.mark.parametrize("epochs", variants.in_ci([2, None], None))
def test_a_teacher_may_see_no_more_labels_than_the_student(epochs, monkeypatch):
    task = tiny_text.task()
    seen = []
    batches = training.batches

    def spy(rows, *args, **kwargs):
        seen.append(rows)
        return batches(rows, *args, **kwargs)

    monkeypatch.setattr(training, "batches", spy)
    model = tiny_text.network()
    source = types.SimpleNamespace(
        build=lambda _: (model, False), kind="embedded", is_new=True
    )
    monkeypatch.setattr(Preparation, "source", source)
    start = model.get_weights()
    for labels, sees in ((6, "student"), (6, "all"), (None, "student")):
        chosen = Preparation(
            data="docstrings",
            labels=labels or "all",
            teacher_labels=sees,
            teacher_epochs=epochs,
            teacher_learning_rate=0.01,
            teacher_minutes=0.01,
        )
        model.set_weights(start)
        seen.clear()
        teachers.teacher_for(chosen, task)
        few = sees == "student" and labels is not None
        assert {len(rows) for rows in seen} == {6 if few else 24}
        if few:
            kept = np.flatnonzero(task.labels(6, 0) >= 0)
            ids = task.encoded["train"].take(kept).inputs["token_ids"]
            np.testing.assert_array_equal(seen[0].inputs["token_ids"], ids)


def test_whose_labels_a_teacher_sees_is_one_of_two():
    with pytest.raises(UsageError, match="teacher_labels.*'few'"):
        Preparation(data="docstrings", teacher_labels="few")
