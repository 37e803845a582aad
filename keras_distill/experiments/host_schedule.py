"""A learning rate that the host sets before each step, timed, with an end."""

import dataclasses
import math
import time

import keras


@dataclasses.dataclass(frozen=True)
class Limit:
    """Where a cycle ends before its time.

    Args:
        steps: Integer; infinity for none.
        seconds: Float; infinity for none.
    """

    steps: float = math.inf
    seconds: float = math.inf


class HostSchedule(keras.callbacks.Callback):
    """Sets the learning rate before each step: up for a tenth, then down.

    Args:
        peak: Float.
        steps: Integer, after which the rate is 0.
        limit: `Limit`, where the training ends.
    """

    def __init__(self, peak, steps, limit):
        super().__init__()
        self._peak, self._total, self._limit = peak, steps, limit
        self._warm_up = max(1, steps // 10)
        self._begin = self._first = self.end = time.perf_counter()
        self.steps = 0

    @property
    def step_seconds(self):
        """Float. The first step, which is compiled, counts only if alone."""
        if self.steps < 2:
            return self.end - self._begin
        return (self.end - self._first) / (self.steps - 1)

    def _rate(self):
        if self.steps < self._warm_up:
            return self._peak * self.steps / self._warm_up
        left = self._total - self._warm_up
        done = (self.steps - self._warm_up) / max(1, left)
        return self._peak * (1 + math.cos(math.pi * done)) / 2

    def on_train_batch_begin(self, batch, logs=None):
        del batch, logs
        self.model.optimizer.learning_rate.assign(self._rate())

    def on_train_batch_end(self, batch, logs=None):
        del batch, logs
        self.end = time.perf_counter()
        self.steps += 1
        if self.steps == 1:
            self._first = self.end
        late = self.end - self._begin >= self._limit.seconds
        if late or self.steps >= self._limit.steps:
            self.model.stop_training = True
