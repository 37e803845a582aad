"""Values from NumPy references written here, then laws and bad arguments."""

import keras
import numpy as np
import pytest

from keras_distill import schedules

INDICES = np.arange(12)
PROGRESS = np.minimum(INDICES / 6, 1)
REFERENCES = {
    "step_down": (
        schedules.StepDown(5, end=2, hold=3),
        [5, 5, 5, 4, 4, 4, 3, 3, 3, 2, 2, 2],
    ),
    "linear": (
        schedules.Linear(8, 2, length=6),
        np.interp(INDICES, [0, 6], [8, 2]),
    ),
    "linear_up": (
        schedules.Linear(0, 1, length=6),
        np.interp(INDICES, [0, 6], [0, 1]),
    ),
    "cosine": (
        schedules.Cosine(8, 2, length=6),
        2 + 6 * np.cos(np.pi * PROGRESS / 2) ** 2,
    ),
    "exponential": (
        schedules.Exponential(8, 2, length=6),
        np.geomspace(8, 2, 7)[np.minimum(INDICES, 6)],
    ),
    "piecewise": (
        schedules.Piecewise([2, 7], [3, 0.5, 1]),
        [3, 3, 0.5, 0.5, 0.5, 0.5, 0.5, 1, 1, 1, 1, 1],
    ),
}
CASES = pytest.mark.parametrize(
    ("schedule", "expected"), REFERENCES.values(), ids=REFERENCES
)


@CASES
def test_equals_reference(schedule, expected):
    values = [schedule(index) for index in INDICES]
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)
    assert all(type(value) is float for value in values)


@CASES
def test_round_trip(schedule, expected):
    config = keras.saving.serialize_keras_object(schedule)
    twin = keras.saving.deserialize_keras_object(config)
    assert type(twin) is type(schedule)
    assert twin == schedule
    assert [twin(i) for i in range(12)] == [schedule(i) for i in range(12)]


@CASES
def test_stays_at_the_end(schedule, expected):
    assert schedule(10**6) == expected[-1]


@pytest.mark.parametrize("epochs_per_temperature", [1, 2, 3])
@pytest.mark.parametrize("maximum", [1, 2, 7])
def test_annealing_kd_temperatures(maximum, epochs_per_temperature):
    schedule = schedules.StepDown(maximum, hold=epochs_per_temperature)
    epochs = maximum * epochs_per_temperature
    expected = np.repeat(np.arange(maximum, 0, -1), epochs_per_temperature)
    assert [schedule(epoch) for epoch in range(epochs)] == list(expected)
    assert {schedule(epoch) for epoch in range(epochs, 3 * epochs)} == {1.0}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.StepDown(2.5), "Received: start=2.5"),
        (lambda: schedules.StepDown(3, end=True), "Received: end=True"),
        (lambda: schedules.StepDown(3, hold=0), "hold.*at least 1.*hold=0"),
        (lambda: schedules.StepDown(1, end=2), "start=1, end=2"),
        (lambda: schedules.Linear(1, float("nan"), 3), "Received: end=nan"),
        (lambda: schedules.Linear("4", 1, 3), "Received: start='4'"),
        (lambda: schedules.Cosine(4, 1, 0), "at least 1.*length=0"),
        (lambda: schedules.Exponential(4, 0, 3), "positive.*end=0"),
        (lambda: schedules.Exponential(-4, 1, 3), "positive.*start=-4"),
        (lambda: schedules.Piecewise([0], [1, 2]), "boundaries=0"),
        (lambda: schedules.Piecewise([3, 3], [1, 2, 3]), "must increase"),
        (lambda: schedules.Piecewise([2, 5], [1, 2]), "2 boundaries, 2 val"),
        (lambda: schedules.Piecewise([2], [1, None]), "values=None"),
        (lambda: schedules.Linear(4, 1, 3)(-1), "at least 0.*index=-1"),
        (lambda: schedules.Linear(4, 1, 3)(0.5), "index=0.5"),
    ],
)
def test_message(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_schedule_of_ones_own():
    class Constant(schedules.Schedule):
        def value(self, index):
            return 3

    assert Constant()(5) == 3.0
    with pytest.raises(NotImplementedError, match="Schedule must implement"):
        schedules.Schedule()(0)
