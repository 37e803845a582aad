"""The base of the losses on logits, which says what a loss takes."""

import warnings

import keras
import numpy as np
from keras import ops

from keras_distill._checks import check_choice
from keras_distill._checks import check_same_shape
from keras_distill.divergences._distributions import squared

# What a loss compares that is nothing with one unit, and why.
ONE_UNIT = {
    "classes": (
        "distributions over at least 2 classes",
        "whose softmax is constant",
    ),
    "vectors": ("directions", "whose direction is a sign"),
}


class LogitsLoss(keras.losses.Loss):
    """Base of the losses on logits: what a loss takes, and its temperature.

    `y_true` are the teacher's logits, which get no gradient, `y_pred` the
    student's, both of shape `[..., classes]`. A subclass sets `divergence`, a
    function such as `kd.divergences.forward_kl`, or implements
    `compare(teacher_logits, student_logits, temperature)`. Whoever uses a
    loss reads from its attributes what it takes: there is no list of losses.

    Attributes:
        over: What the units of the logits stand for: `"classes"` of one
            distribution (softmax), which needs at least two of them;
            `"labels"`, each on its own (sigmoid); `"vectors"`, a direction,
            which also needs two; `"anything"`, the logits as mere numbers; or
            None for a loss that takes other outputs, too.
        needs_labels: Boolean, whether a call takes `labels`, which a
            `Distiller` then hands on from the batch.
        reads_sparse: Boolean, whether `y_true` are the sparse targets of a
            cache, `"indices"` and `"log_probabilities"`.
        relates_rows: Boolean, whether the value of a row depends on the other
            rows of the batch.
        with_two_classes: String, what becomes of the loss then, for a warning;
            empty where nothing does.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule
            `rule(teacher_logits, student_logits)` that returns one, such as
            `keras_distill.temperatures.FLSW()`. May be assigned later. A
            subclass that has none sets `temperature = None` as an attribute.
        temperature_squared: Boolean, whether the values are multiplied by
            `T^2`. None where a subclass leaves no choice.
        **kwargs: `name`, `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive; when called, if the
            logits are none that the loss takes.

    Example:

    >>> from keras_distill import divergences
    >>> class SquaredTotalVariation(LogitsLoss):
    ...     over = "classes"
    ...
    ...     def compare(self, teacher_logits, student_logits, temperature):
    ...         return divergences.total_variation(
    ...             teacher_logits, student_logits, temperature) ** 2
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(SquaredTotalVariation(temperature=1.0)(t, s)), 4)
    0.09
    """

    over = "classes"
    needs_labels = False
    reads_sparse = False
    relates_rows = False
    with_two_classes = ""
    divergence = None
    _warned = False

    def __init__(self, temperature, temperature_squared=None, **kwargs):
        super().__init__(**kwargs)
        self.temperature = temperature
        choices = (True, False, None)
        check_choice("temperature_squared", temperature_squared, choices)
        self.temperature_squared = temperature_squared

    @property
    def temperature(self):
        """The number, variable, array or rule in use."""
        return self._temperature

    @temperature.setter
    def temperature(self, value):
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, list | tuple):
            value = np.asarray(value, "float32")
        if isinstance(value, int | float | np.ndarray):
            self._check_numbers(np.asarray(value))
        elif not (
            callable(value)
            or isinstance(value, keras.Variable)
            or ops.is_tensor(value)
        ):
            raise ValueError(
                "`temperature` must be a positive number, a variable, an array "
                f"or a rule. Received: temperature={value!r}"
            )
        self._temperature = value

    def _check_numbers(self, value):
        if not np.all((value > 0) & np.isfinite(value)):
            raise ValueError(
                "`temperature` must be positive and finite. "
                f"Received: temperature={value}"
            )

    @property
    def takes_one_unit(self):
        """Whether logits of one unit make sense."""
        return self.over not in ONE_UNIT

    @property
    def title(self):
        """What messages call this loss."""
        return type(self).__name__

    def check_outputs(self, teacher, student, output):
        """Raises `ValueError` where the loss cannot compare these outputs.

        Args:
            teacher: The teacher's output: anything with a `shape`, or the
                sparse targets of a cache.
            student: The student's output.
            output: String, what messages call the output.
        """
        if not self.reads_sparse:
            check_same_shape(
                f"teacher's {output}", teacher, f"student's {output}", student
            )
        self._check_units(student, output)

    def _check_units(self, logits, output="`y_pred`"):
        if not self.takes_one_unit and logits.shape[-1] == 1:
            compares, is_constant = ONE_UNIT[self.over]
            raise ValueError(
                f"`{self.title}` compares {compares}, {output} has one unit, "
                f"{is_constant}. Use `kd.losses.BinaryKL` or "
                "`kd.losses.LogitsMSE`"
            )

    def call(self, y_true, y_pred):
        """Returns one value per row of `y_pred`."""
        teacher, student, temperature = self.prepare(y_true, y_pred)
        value = self.compare(teacher, student, temperature)
        if self.temperature_squared:
            value = squared(temperature, student) * value
        return value

    def prepare(self, y_true, y_pred):
        """Returns both logits, checked and in float32, and the temperature."""
        teacher = ops.stop_gradient(ops.convert_to_tensor(y_true, "float32"))
        student = ops.convert_to_tensor(y_pred, "float32")
        check_same_shape("teacher_logits", teacher, "student_logits", student)
        self._check_units(student)
        if student.shape[-1] == 2 and self.with_two_classes:
            self._warn_of_two_classes()
        temperature = self.temperature
        if callable(temperature):
            temperature = temperature(teacher, student)
        return teacher, student, temperature

    def _warn_of_two_classes(self):
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"`{self.title}` with two classes: {self.with_two_classes}. "
                "`kd.losses.ForwardKL` uses all that two logits say",
                stacklevel=3,
            )

    def compare(self, teacher_logits, student_logits, temperature):
        """Returns one value per row.

        Args:
            teacher_logits: Float32 tensor of shape `[..., classes]`, without
                a gradient.
            student_logits: Float32 tensor of shape `[..., classes]`.
            temperature: As in the constructor, but never a rule.
        """
        return self.divergence(teacher_logits, student_logits, temperature)

    def get_config(self):
        temperature = self.temperature
        if callable(temperature):
            temperature = keras.saving.serialize_keras_object(temperature)
        elif not isinstance(temperature, int | float | None):
            # A copy: a TensorFlow variable becomes an array with a warning.
            temperature = ops.convert_to_numpy(ops.copy(temperature)).tolist()
        options = {
            "temperature": temperature,
            "temperature_squared": self.temperature_squared,
        }
        given = {k: v for k, v in options.items() if v is not None}
        return {**super().get_config(), "dtype": self.dtype, **given}

    @classmethod
    def from_config(cls, config):
        temperature = config.get("temperature")
        if isinstance(temperature, dict):
            rule = keras.saving.deserialize_keras_object(temperature)
            config = {**config, "temperature": rule}
        return cls(**config)
