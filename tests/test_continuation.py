"""Continuation-KD: schedules, the loss in force in each epoch, messages."""

import keras
import numpy as np
import pytest
import tiny

from keras_distill import losses
from keras_distill import schedules
from keras_distill.callbacks import continuation_kd

X, Y = tiny.data(8)


def fit(epochs, **kwargs):
    distiller = tiny.distiller(
        tiny.mlp(8),
        tiny.mlp(4, seed=9),
        soft_loss=losses.ContinuationMSE(2, margin=0.5),
        optimizer=keras.optimizers.SGD(0.0),
        hard_weight=1.0,
        soft_weight=1.0,
    )
    callbacks = continuation_kd(epochs, max_temperature=2, **kwargs)
    logs = distiller.fit(
        X, Y, epochs=epochs, verbose=0, callbacks=callbacks
    ).history
    return distiller, logs


def test_the_loss_of_each_epoch():
    distiller, logs = fit(5)
    hard = float(tiny.CROSS_ENTROPY(Y, distiller.student(X)))
    teacher = np.asarray(distiller.teacher(X), "float64")
    student = np.asarray(distiller.student(X), "float64")
    wanted = []
    shares, temperatures = [0, 1 / 3, 2 / 3, 1, 1], [2, 2, 1, 1, 1]
    for share, temperature in zip(shares, temperatures):
        phi = 1 - (temperature - 1) / 2
        square = ((student - phi * teacher) ** 2).sum(-1)
        soft = np.maximum(square - 0.5 * phi, 0).mean()
        wanted.append(share * hard + (1 - share) * soft)
    assert logs["loss"] == pytest.approx(wanted, rel=1e-4)
    assert distiller.traces == 1


def test_a_step_makes_it_annealing_kd():
    step = schedules.Piecewise([2], [0.0, 1.0])
    temperature, hard, soft = continuation_kd(4, 2, hard_share=step)
    assert [hard.schedule(i) for i in range(4)] == [0, 0, 1, 1]
    assert [soft.schedule(i) for i in range(4)] == [1, 1, 0, 0]
    assert [temperature.schedule(i) for i in range(4)] == [2, 2, 1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 3}, "at least 7. Received: epochs=3"),
        ({"epochs": 3, "max_temperature": 0}, "max_temperature=0"),
        ({"epochs": 9, "hard_share": 0.5}, "Received: hard_share=0.5"),
        (
            {"epochs": 9, "hard_share": schedules.Linear(0, 2, length=4)},
            "Received: 1.5 at epoch 3",
        ),
    ],
)
def test_message(options, message):
    with pytest.raises(ValueError, match=message):
        continuation_kd(**options)
