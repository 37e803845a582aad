"""The base of the losses on logits: a temperature that may change."""

import keras
import numpy as np
from keras import ops


class LogitsLoss(keras.losses.Loss):
    """Base of the losses on logits: holds `temperature`.

    `y_true` are the teacher's logits, which get no gradient, `y_pred` the
    student's, both of shape `[..., classes]`. A subclass implements
    `compare(teacher_logits, student_logits, temperature)`.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule
            `rule(teacher_logits, student_logits)` that returns one, such as
            `keras_distill.temperatures.FLSW()`. May be assigned later.
        **kwargs: `name`, `reduction`, `dtype` of `keras.losses.Loss`.
    """

    def __init__(self, temperature, **kwargs):
        super().__init__(**kwargs)
        self.temperature = temperature

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
        elif not (hasattr(value, "shape") or callable(value)):
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

    def call(self, y_true, y_pred):
        y_true = ops.stop_gradient(y_true)
        temperature = self.temperature
        if callable(temperature):
            temperature = temperature(y_true, y_pred)
        return self.compare(y_true, y_pred, temperature)

    def compare(self, teacher_logits, student_logits, temperature):
        """Returns one value per example; `temperature` is never a rule."""
        raise NotImplementedError

    def get_config(self):
        temperature = self.temperature
        if callable(temperature):
            temperature = keras.saving.serialize_keras_object(temperature)
        elif not isinstance(temperature, int | float):
            # A copy: a TensorFlow variable becomes an array with a warning.
            temperature = ops.convert_to_numpy(ops.copy(temperature)).tolist()
        return {
            **super().get_config(),
            "dtype": self.dtype,
            "temperature": temperature,
        }

    @classmethod
    def from_config(cls, config):
        temperature = config["temperature"]
        if isinstance(temperature, dict):
            temperature = keras.saving.deserialize_keras_object(temperature)
        return cls(**{**config, "temperature": temperature})
