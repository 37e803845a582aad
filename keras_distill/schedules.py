"""Schedules: a value for each epoch or step, counted from 0.

A schedule is a pure function of its index and keeps no state, so a training
that is killed and resumed continues where it was.
"""

import bisect
import dataclasses
import math

import keras

from keras_distill._checks import check_finite
from keras_distill._checks import check_integer
from keras_distill._checks import check_positive


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A value for each index: `schedule(index) -> float`.

    Subclasses are frozen dataclasses that implement `value(index)`. Equal
    arguments make equal schedules.
    """

    def __call__(self, index):
        """The value at `index`, an integer from 0 on.

        Raises:
            ValueError: if `index` is not an integer, or negative.
        """
        check_integer("index", index, minimum=0)
        return float(self.value(int(index)))

    def value(self, index):
        raise NotImplementedError(
            f"{type(self).__name__} must implement `value(index)`"
        )

    def get_config(self):
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@dataclasses.dataclass(frozen=True)
class _Ramp(Schedule):
    start: float
    end: float
    length: int

    def __post_init__(self):
        check_finite("start", self.start)
        check_finite("end", self.end)
        check_integer("length", self.length, minimum=1)

    def progress(self, index):
        return min(index / self.length, 1.0)


@keras.saving.register_keras_serializable(package="keras_distill")
@dataclasses.dataclass(frozen=True)
class StepDown(Schedule):
    """Integers downwards: `max(end, start - index // hold)`.

    The temperatures of Annealing-KD: `start` for `hold` indices, then
    `start - 1`, down to `end`, where it stays.

    Args:
        start: Integer, the first value.
        end: Integer, the last value, at most `start`. Defaults to `1`.
        hold: Integer, for how many indices each value holds. Defaults to `1`.

    Raises:
        ValueError: if an argument is not an integer, if `end > start` or if
            `hold < 1`.

    Example:

    >>> schedule = StepDown(3, hold=2)
    >>> [schedule(epoch) for epoch in range(8)]
    [3.0, 3.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0]

    Reference:
        Jafari et al., 2021, https://aclanthology.org/2021.eacl-main.212.
    """

    start: int
    end: int = 1
    hold: int = 1

    def __post_init__(self):
        check_integer("start", self.start)
        check_integer("end", self.end)
        check_integer("hold", self.hold, minimum=1)
        if self.end > self.start:
            raise ValueError(
                "`end` must be at most `start`: the values step down. "
                f"Received: start={self.start}, end={self.end}"
            )

    def value(self, index):
        return max(self.end, self.start - index // self.hold)


@keras.saving.register_keras_serializable(package="keras_distill")
@dataclasses.dataclass(frozen=True)
class Linear(_Ramp):
    """A straight line from `start` to `end`.

    With `u = min(index / length, 1)` the value is
    `start + (end - start) u`: `start` at index 0, `end` from `length` on.

    Args:
        start: Float, the value at index 0.
        end: Float, the value from index `length` on.
        length: Integer, `length >= 1`.

    Raises:
        ValueError: if a value is not a finite number or if `length < 1`.

    Example:

    >>> schedule = Linear(4.0, 1.0, length=3)
    >>> [schedule(epoch) for epoch in range(5)]
    [4.0, 3.0, 2.0, 1.0, 1.0]
    """

    def value(self, index):
        u = self.progress(index)
        return (1 - u) * self.start + u * self.end


@keras.saving.register_keras_serializable(package="keras_distill")
@dataclasses.dataclass(frozen=True)
class Cosine(_Ramp):
    """Half a cosine from `start` to `end`, flat at both.

    With `u = min(index / length, 1)` the value is
    `end + (start - end) (1 + cos(pi u)) / 2`.

    Args:
        start: Float, the value at index 0.
        end: Float, the value from index `length` on.
        length: Integer, `length >= 1`.

    Raises:
        ValueError: if a value is not a finite number or if `length < 1`.

    Example:

    >>> schedule = Cosine(5.0, 1.0, length=4)
    >>> [round(schedule(epoch), 2) for epoch in range(5)]
    [5.0, 4.41, 3.0, 1.59, 1.0]

    Reference:
        Loshchilov and Hutter, 2017, https://arxiv.org/abs/1608.03983, eq. 5,
        one period.
    """

    def value(self, index):
        half_cosine = (1 + math.cos(math.pi * self.progress(index))) / 2
        return half_cosine * self.start + (1 - half_cosine) * self.end


@keras.saving.register_keras_serializable(package="keras_distill")
@dataclasses.dataclass(frozen=True)
class Exponential(_Ramp):
    """A constant factor per index, from `start` to `end`.

    With `u = min(index / length, 1)` the value is `start (end / start)^u`.

    Args:
        start: Float, `start > 0`, the value at index 0.
        end: Float, `end > 0`, the value from index `length` on.
        length: Integer, `length >= 1`.

    Raises:
        ValueError: if `start` or `end` is not positive or if `length < 1`.

    Example:

    >>> schedule = Exponential(8.0, 1.0, length=3)
    >>> [round(schedule(epoch), 2) for epoch in range(5)]
    [8.0, 4.0, 2.0, 1.0, 1.0]
    """

    def __post_init__(self):
        super().__post_init__()
        check_positive("start", self.start)
        check_positive("end", self.end)

    def value(self, index):
        u = self.progress(index)
        return self.start ** (1 - u) * self.end**u


@keras.saving.register_keras_serializable(package="keras_distill")
@dataclasses.dataclass(frozen=True)
class Piecewise(Schedule):
    """Constants between boundaries.

    `values[0]` before index `boundaries[0]`, `values[1]` from
    `boundaries[0]` on, and so on.

    Args:
        boundaries: Integers, positive and increasing.
        values: Floats, one more than `boundaries`.

    Raises:
        ValueError: if a boundary is not a positive integer, if they do not
            increase, if a value is not a finite number or if the numbers of
            boundaries and values do not fit.

    Example:

    >>> schedule = Piecewise([2, 3], [4.0, 2.0, 1.0])
    >>> [schedule(epoch) for epoch in range(5)]
    [4.0, 4.0, 2.0, 1.0, 1.0]
    """

    boundaries: tuple
    values: tuple

    def __post_init__(self):
        object.__setattr__(self, "boundaries", tuple(self.boundaries))
        object.__setattr__(self, "values", tuple(self.values))
        for boundary in self.boundaries:
            check_integer("boundaries", boundary, minimum=1)
        for value in self.values:
            check_finite("values", value)
        if list(self.boundaries) != sorted(set(self.boundaries)):
            raise ValueError(
                "`boundaries` must increase. "
                f"Received: boundaries={self.boundaries}"
            )
        if len(self.values) != len(self.boundaries) + 1:
            raise ValueError(
                "`values` must have one element more than `boundaries`. "
                f"Received: {len(self.boundaries)} boundaries, "
                f"{len(self.values)} values"
            )

    def value(self, index):
        return self.values[bisect.bisect_right(self.boundaries, index)]
