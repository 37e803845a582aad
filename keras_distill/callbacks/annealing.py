"""Callbacks that move a temperature or a weight along a schedule."""

# ruff: noqa: ARG002 - Keras fixes the arguments of a callback's methods.

import math

import keras

from keras_distill._checks import check_choice
from keras_distill._replicas import number

POSITIONS = ("epoch", "step")
CHECKED_INDICES = 10_000


def state_of(callback):
    """The schedule variables of the Distiller that `callback` runs with.

    Raises:
        ValueError: if the callback runs with another model.
    """
    state = getattr(callback.model, "schedules", None)
    if state is None:
        raise ValueError(
            f"`{type(callback).__name__}` works with a `kd.Distiller`. "
            f"Received: model={type(callback.model).__name__}"
        )
    return state


class _Anneal(keras.callbacks.Callback):
    """Assigns the schedule's value to variables, without a retrace."""

    def __init__(self, schedule, per):
        super().__init__()
        if not callable(schedule):
            raise ValueError(
                "`schedule` must be a schedule such as "
                "`kd.schedules.Linear(4.0, 1.0, length=10)`, or a function "
                f"from an index to a number. Received: schedule={schedule!r}"
            )
        check_choice("per", per, POSITIONS)
        self.schedule = schedule
        self.per = per

    def _variables(self):
        raise NotImplementedError(
            f"{type(self).__name__} must implement `_variables`"
        )

    def _check(self, value, index):
        raise NotImplementedError(
            f"{type(self).__name__} must implement `_check`"
        )

    def _log_names(self):
        raise NotImplementedError(
            f"{type(self).__name__} must implement `_log_names`"
        )

    def _value(self, index):
        value = float(self.schedule(index))
        self._check(value, f"{self.per} {index}")
        return value

    def _assign(self, index):
        value = self._value(index)
        for variable in self._variables():
            variable.assign(value)

    def on_train_begin(self, logs=None):
        self._variables()
        length = self.params.get("epochs", 1)
        if self.per == "step":
            length *= self.params.get("steps") or 1
        stride = math.ceil(length / CHECKED_INDICES)
        for index in [*range(0, length, stride), length - 1]:
            self._value(index)

    def on_epoch_begin(self, epoch, logs=None):
        if self.per == "epoch":
            self._assign(epoch)

    def on_train_batch_begin(self, batch, logs=None):
        if self.per == "step":
            self._assign(number(self.model.optimizer.iterations))

    def on_epoch_end(self, epoch, logs=None):
        for name, variable in zip(self._log_names(), self._variables()):
            if logs is not None:
                logs[name] = number(variable)


class AnnealTemperature(_Anneal):
    """Moves the temperature of the soft losses along a schedule.

    The value is assigned to a variable, so nothing is retraced. It depends on
    the epoch or on the optimizer's step count alone, both of which a
    checkpoint holds: a training that is killed and resumed goes on with the
    right value. The logs get `temperature`; with `outputs`,
    `<output>_temperature`.

    In a training in stages, use `Stage(temperature=...)` instead.

    Args:
        schedule: A schedule of `kd.schedules`, or a function from an index,
            0 for the first, to a positive number.
        per: `"epoch"`, or `"step"` for each optimizer step. With
            `steps_per_execution > 1` the steps of one execution share the
            value of the first.
        outputs: Names of the outputs whose soft losses follow the schedule.
            Defaults to all that have a temperature.

    Raises:
        ValueError: if an argument is not as described; when `fit` starts, if
            a value is not positive or an output has no temperature.

    Example:

    >>> from keras_distill import schedules
    >>> callback = AnnealTemperature(schedules.Cosine(8.0, 1.0, length=10))
    >>> callback.schedule(0), callback.schedule(10)
    (8.0, 1.0)

    Reference:
        Jafari et al., 2021, https://aclanthology.org/2021.eacl-main.212.
    """

    def __init__(self, schedule, per="epoch", outputs=None):
        super().__init__(schedule, per)
        if isinstance(outputs, str):
            outputs = [outputs]
        self.outputs = None if outputs is None else list(outputs)

    def _variables(self):
        state_of(self)
        temperatures = self.model.bound_temperatures
        names = list(temperatures) if self.outputs is None else self.outputs
        missing = [name for name in names if name not in temperatures]
        if missing or not names:
            raise ValueError(
                "`AnnealTemperature` needs soft losses with a `temperature`, "
                "such as `kd.losses.ForwardKL(4.0)`. Outputs with one: "
                f"{list(temperatures)}. Received: outputs={self.outputs}"
            )
        return [temperatures[name] for name in names]

    def _check(self, value, index):
        if not 0 < value < math.inf:
            raise ValueError(
                "A temperature must be a positive number. Received: "
                f"{value} at {index} from schedule={self.schedule!r}"
            )

    def _log_names(self):
        if self.outputs is None:
            return ["temperature"]
        return [f"{name}_temperature" for name in self.outputs]


class AnnealWeight(_Anneal):
    """Multiplies the weight of one term of the loss by a schedule.

    The term's effective weight is its base weight times the schedule's value;
    the base weight stays as it is. Nothing is retraced, and a training that
    is killed and resumed goes on with the right value. The logs get
    `<term>_factor`.

    Args:
        term: String, `"hard"`, `"soft"` or the name of a match.
        schedule: A schedule of `kd.schedules`, or a function from an index,
            0 for the first, to a number of at least 0.
        per: `"epoch"`, or `"step"` for each optimizer step. With
            `steps_per_execution > 1` the steps of one execution share the
            value of the first.

    Raises:
        ValueError: if an argument is not as described; when `fit` starts, if
            a value is negative or the Distiller has no such term.

    Example:

    >>> from keras_distill import schedules
    >>> warm_up = schedules.Linear(0.0, 1.0, length=100)
    >>> callback = AnnealWeight("soft", warm_up, per="step")
    >>> callback.schedule(50)
    0.5
    """

    def __init__(self, term, schedule, per="epoch"):
        super().__init__(schedule, per)
        self.term = term

    def _variables(self):
        factors = state_of(self).factors
        if self.term not in factors:
            raise ValueError(
                f"The Distiller has no term {self.term!r}. Its terms: "
                f"{list(factors)}"
            )
        return [factors[self.term]]

    def _check(self, value, index):
        if not 0 <= value < math.inf:
            raise ValueError(
                "A weight must be a number of at least 0. Received: "
                f"{value} at {index} from schedule={self.schedule!r}"
            )

    def _log_names(self):
        return [f"{self.term}_factor"]
