"""Fine-tuning a teacher by what dev says."""

import keras
import numpy as np
import pytest
import tiny_text

from keras_distill._errors import UsageError
from keras_distill.experiments import adapting
from keras_distill.experiments import training


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

    def __call__(self, model, batches, length, dev, callbacks, watcher=None):
        schedule, best = callbacks
        scorings, each = length
        rates = []
        for epoch in range(scorings):
            for step in range(each):
                schedule.on_train_batch_begin(step)
                rates.append(float(model.optimizer.learning_rate))
            peak = schedule._peak
            value = next(self.scores[peak])
            model.set_weights([np.full(w.shape, value) for w in model.weights])
            best.on_epoch_end(epoch, {"val_accuracy": value})
        best.on_train_end()
        self.clock += self.seconds * scorings * each
        self.fits.append((peak, scorings * each, max(rates), rates[-1]))
        return {}


def adapt(task, monkeypatch, scores, rates, minutes=10.0, seconds=1e-6):
    curves = Curves(scores, seconds)
    monkeypatch.setattr(training, "fit", curves)
    monkeypatch.setattr(adapting.time, "perf_counter", lambda: curves.clock)
    model = tiny_text.network()
    schedule = adapting._HostSchedule.on_train_batch_begin

    def begin(self, batch, logs=None):
        self.set_model(model)
        schedule(self, batch, logs)

    monkeypatch.setattr(adapting._HostSchedule, "on_train_batch_begin", begin)
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
    _, _, fits = adapt(task, monkeypatch, {3.0: [0.5] * 8}, (3.0,))
    ((_, _, highest, last),) = fits
    assert highest == pytest.approx(3.0, rel=0.01)
    assert last < 0.02


def test_another_cycle_while_dev_rises(task, monkeypatch):
    rising = np.linspace(0.5, 0.8, 8).tolist()
    scores = {2.0: rising, 1.0: [*np.linspace(0.6, 0.9, 7), 0.85]}
    found, model, fits = adapt(task, monkeypatch, scores, (2.0,))
    assert [peak for peak, *_ in fits] == [2.0, 1.0]
    assert found.steps == 56 + 24
    assert found.best_epoch == round((56 + 7 * 3) / 3, 1)
    np.testing.assert_allclose(model.get_weights()[0], 0.9, rtol=1e-6)


def test_no_other_cycle_where_the_end_was_not_the_best(task, monkeypatch):
    scores = {2.0: [0.5, 0.9, *[0.8] * 6]}
    found, model, fits = adapt(task, monkeypatch, scores, (2.0,))
    assert len(fits) == 1
    assert found.best_epoch == round(2 * 7 / 3, 1)
    np.testing.assert_allclose(model.get_weights()[0], 0.9, rtol=1e-6)


def test_the_time_is_kept(task, monkeypatch):
    """Two trials of 20 steps of a second, and 24 seconds are left."""
    monkeypatch.setattr(adapting, "TRIAL_STEPS", 20)
    scores = {1.0: [0.5], 2.0: [0.8, *[0.7] * 8]}
    found, _, fits = adapt(
        task, monkeypatch, scores, (1.0, 2.0), minutes=64.5 / 60, seconds=1.0
    )
    assert [steps for _, steps, *_ in fits] == [20, 20, 24]
    assert found.cut


def test_without_time_there_is_still_a_teacher(task, monkeypatch):
    scores = {1.0: [0.5], 2.0: [0.8, *[0.7] * 8]}
    found, _, fits = adapt(
        task, monkeypatch, scores, (1.0, 2.0), minutes=0.01, seconds=1.0
    )
    assert [steps for _, steps, *_ in fits] == [60, 60, 56]
    assert found.cut


def test_a_model_that_is_never_finite_is_told(task, monkeypatch):
    scores = {1.0: [float("nan")] * 9}
    with pytest.raises(UsageError, match="could not be fine-tuned"):
        adapt(task, monkeypatch, scores, (1.0,))


def test_it_learns_and_does_so_again(task):
    """The same seed, the same weights, whatever was tried before."""
    found = []
    for rates in ((0.01,), (1e-6, 0.01)):
        keras.utils.set_random_seed(1)
        model = tiny_text.network(dropout=0.0)
        told = adapting.fine_tune_adaptively(model, task, rates, 8, 10.0)
        assert told.learning_rate == 0.01
        logits = training.predict(model, task.encoded["train"])
        assert task.score(logits, "train") > 0.9
        found.append(model.get_weights())
    for one, other in zip(*found):
        np.testing.assert_array_equal(one, other)
