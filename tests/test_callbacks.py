"""Annealing: values in force during training, traces, kill and resume."""

import keras
import numpy as np
import pytest

from keras_distill import losses
from keras_distill.callbacks import AnnealTemperature
from keras_distill.callbacks import AnnealWeight
from keras_distill.distiller import Distiller
from keras_distill.matching import Match
from keras_distill.schedules import Linear
from keras_distill.schedules import Piecewise
from keras_distill.schedules import StepDown

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 4)).astype("float32")
Y = RNG.integers(0, 3, 24).astype("int32")
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def mlp(width, seed, outputs=("out",)):
    init = keras.initializers.GlorotUniform(seed)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(
        width, activation="tanh", kernel_initializer=init, name="hidden"
    )(inputs)
    heads = {
        name: keras.layers.Dense(3, kernel_initializer=init, name=name)(hidden)
        for name in outputs
    }
    single = len(outputs) == 1
    return keras.Model(inputs, heads[outputs[0]] if single else heads)


class Trace(Distiller):
    """Counts how often the train step is traced."""

    traces = 0

    def train_step(self, *args):
        self.traces += 1
        return super().train_step(*args)


class Watch(keras.callbacks.Callback):
    """Reads a value at the end of each batch or execution."""

    def __init__(self, read):
        super().__init__()
        self.read = read
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        self.seen.append(float(self.read(self.model)))


def temperature(model):
    return model.schedules.temperatures["soft"]


def traces(model):
    return model.traces


def compiled(soft_loss=None, matches=(), **kwargs):
    distiller = Trace(mlp(8, 1), mlp(6, 2), matches=matches)
    distiller.compile(
        optimizer=keras.optimizers.Adam(0.05),
        loss=LOSS,
        soft_loss=soft_loss or losses.ForwardKL(4.0),
        **kwargs,
    )
    return distiller


def fit(distiller, callbacks, epochs=4, **kwargs):
    return distiller.fit(
        X,
        Y,
        batch_size=8,
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=callbacks,
        **kwargs,
    ).history


def test_temperature_per_epoch():
    distiller = compiled()
    watch, count = Watch(temperature), Watch(traces)
    history = fit(distiller, [AnnealTemperature(StepDown(3)), watch, count])
    assert watch.seen == [3] * 3 + [2] * 3 + [1] * 6
    assert history["temperature"] == [3, 2, 1, 1]
    assert len(set(count.seen)) == 1


def test_temperature_per_step():
    distiller = compiled()
    watch, count = Watch(temperature), Watch(traces)
    schedule = Linear(12.0, 1.0, length=11)
    fit(distiller, [AnnealTemperature(schedule, per="step"), watch, count])
    np.testing.assert_allclose(watch.seen, np.arange(12, 0, -1), rtol=1e-6)
    assert len(set(count.seen)) == 1


@pytest.mark.parametrize("execution", [2, 3])
def test_one_execution_shares_the_value_of_its_first_step(execution):
    distiller = compiled(steps_per_execution=execution)
    watch = Watch(temperature)
    schedule = Linear(12.0, 1.0, length=11)
    fit(distiller, [AnnealTemperature(schedule, per="step"), watch])
    steps = [s for e in range(4) for s in range(3 * e, 3 * e + 3, execution)]
    np.testing.assert_allclose(watch.seen, 12 - np.array(steps), rtol=1e-6)


def test_the_temperature_in_force_is_the_one_of_the_loss():
    annealed = compiled(losses.ForwardKL(9.0), hard_weight=0.0)
    plain = compiled(losses.ForwardKL(2.0), hard_weight=0.0)
    schedule = Piecewise([50], [2.0, 1.0])
    one = fit(annealed, [AnnealTemperature(schedule)])
    other = fit(plain, [])
    np.testing.assert_allclose(one["loss"], other["loss"], rtol=1e-6)


def test_a_schedule_multiplies_the_base_weight():
    distiller = compiled(hard_weight=0.0, soft_weight=0.4)
    count = Watch(traces)
    schedule = Linear(2.0, 0.5, 3)
    history = fit(distiller, [AnnealWeight("soft", schedule), count])
    factor = np.array([2.0, 1.5, 1.0, 0.5])
    np.testing.assert_allclose(history["soft_factor"], factor, rtol=1e-6)
    np.testing.assert_allclose(
        history["loss"], 0.4 * factor * history["soft_loss"], rtol=1e-5
    )
    base = distiller.schedules.weights_by_term["soft"]
    assert float(base) == pytest.approx(0.4)
    assert len(set(count.seen)) == 1


def test_the_weight_of_a_match():
    match = Match(
        "hidden", "hidden", keras.losses.MeanSquaredError(), name="near"
    )
    distiller = compiled(matches=[match], hard_weight=0.0, soft_weight=0.0)
    history = fit(distiller, [AnnealWeight("near", StepDown(2, end=0))])
    np.testing.assert_allclose(
        history["loss"],
        np.array([2, 1, 0, 0]) * history["near"],
        rtol=1e-5,
        atol=1e-7,
    )


def test_only_the_named_outputs():
    outputs = ("a", "b")
    distiller = Distiller(mlp(8, 1, outputs), mlp(6, 2, outputs))
    soft_loss = {"a": losses.ForwardKL(4.0), "b": losses.ForwardKL(5.0)}
    distiller.compile(soft_loss=soft_loss, hard_weight=0.0)
    callback = AnnealTemperature(StepDown(3), outputs=["b"])
    history = distiller.fit(
        X, batch_size=8, epochs=2, verbose=0, callbacks=[callback]
    ).history
    temperatures = distiller.schedules.temperatures
    assert {k: float(v) for k, v in temperatures.items()} == {"a": 4, "b": 2}
    assert history["b_temperature"] == [3, 2]
    fit_all = AnnealTemperature(StepDown(9))
    distiller.fit(X, epochs=1, verbose=0, callbacks=[fit_all])
    assert {float(v) for v in temperatures.values()} == {9}


class Kill(keras.callbacks.Callback):
    """Ends training in the middle of an epoch, as a lost machine would."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch = epoch
        self.now = False

    def on_epoch_begin(self, epoch, logs=None):
        self.now = epoch == self.epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.now and batch == 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("per", "backup_first"),
    [
        ("epoch", False),
        ("step", True),
        pytest.param("epoch", True, marks=pytest.mark.large),
        pytest.param("step", False, marks=pytest.mark.large),
    ],
)
def test_killed_and_resumed_equals_uninterrupted(tmp_path, per, backup_first):
    def callbacks(backup):
        own = [
            AnnealTemperature(Linear(8.0, 1.0, length=4), per=per),
            AnnealWeight("hard", Linear(0.0, 1.0, length=4), per=per),
        ]
        return [backup, *own] if backup_first else [*own, backup]

    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup")

    whole = compiled()
    expected = fit(whole, callbacks(keras.callbacks.Callback()))
    killed = compiled()
    with pytest.raises(KeyboardInterrupt):
        fit(killed, [*callbacks(backup()), Kill(epoch=2)])
    resumed = compiled()
    history = fit(resumed, callbacks(backup()))
    assert len(history["loss"]) == 2
    for name, values in history.items():
        np.testing.assert_array_equal(values, expected[name][2:], name)
    for one, other in zip(whole.get_weights(), resumed.get_weights()):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: AnnealTemperature(4.0), "schedule=4.0"),
        (lambda: AnnealTemperature(StepDown(4), per="batch"), "per='batch'"),
        (lambda: AnnealWeight("soft", None), "schedule=None"),
    ],
)
def test_message_of_a_wrong_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (AnnealTemperature(StepDown(3, end=0)), "positive.*0.0 at epoch 3"),
        (
            AnnealTemperature(Linear(3, -1, 11), per="step"),
            r"positive number. Received: -\d.* at step \d+",
        ),
        (AnnealTemperature(StepDown(3), outputs="b"), r"one: \['soft'\].*'b'"),
        (AnnealTemperature(lambda index: float("inf")), "inf at epoch 0"),
        (AnnealWeight("soft", Linear(1, -1, 3)), "at least 0.*at epoch 2"),
        (AnnealWeight("sofd", StepDown(3)), r"'sofd'.*\['hard', 'soft'\]"),
    ],
)
def test_message_before_training_starts(callback, message):
    distiller = compiled()
    with pytest.raises(ValueError, match=message):
        fit(distiller, [callback])
    assert distiller.traces == 0


def test_message_without_a_temperature():
    distiller = compiled(losses.ReverseKL(temperature=np.full(8, 2.0)))
    with pytest.raises(ValueError, match="losses with a `temperature`"):
        fit(distiller, [AnnealTemperature(StepDown(3))])


def test_message_with_another_model():
    model = mlp(4, 0)
    model.compile(loss=LOSS)
    with pytest.raises(ValueError, match="works with a `kd.Distiller`"):
        fit(model, [AnnealTemperature(StepDown(3))])
