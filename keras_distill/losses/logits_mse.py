"""Losses that regress the teacher's logits themselves."""

import keras
import numpy as np
from keras import ops

from keras_distill import divergences
from keras_distill.losses.logits_loss import LogitsLoss


@keras.saving.register_keras_serializable(package="keras_distill")
class LogitsMSE(LogitsLoss):
    """Mean over classes of `(student / T - teacher / T)^2`.

    `y_true` are the teacher's logits, `y_pred` the student's, of shape
    `[..., classes]`. This is TextBrewer's `kd_mse_loss`.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.array([[1.0, 3.0]]), np.array([[1.0, 1.0]])
    >>> float(LogitsMSE()(t, s))
    2.0

    Reference:
        Ba and Caruana, 2014, https://arxiv.org/abs/1312.6184, eq. 1.
    """

    over = "anything"

    def __init__(self, temperature=1.0, name="logits_mse", **kwargs):
        super().__init__(temperature, name=name, **kwargs)

    def compare(self, teacher_logits, student_logits, temperature):
        aligned = divergences.align_temperature(temperature, student_logits)
        difference = student_logits / aligned - teacher_logits / aligned
        return ops.mean(ops.square(difference), axis=-1)


@keras.saving.register_keras_serializable(package="keras_distill")
class AnnealedMSE(LogitsLoss):
    """`||student - phi(T) teacher||^2` with `phi = 1 - (T - 1) / max`.

    Stage I of Annealing-KD: `temperature` starts at `max_temperature`, where
    the target is `teacher / max_temperature`, and is lowered to 1, where it is
    the teacher. A variable outside `[1, max_temperature]` acts as the nearer
    end. `y_true` are the teacher's logits, `y_pred` the student's, of shape
    `[..., classes]`; the squares are summed over classes.

    Args:
        max_temperature: Number, at least 1. Defaults to `7`.
        temperature: Between 1 and `max_temperature`: a number, a
            `keras.Variable`, an array of the leading axes of the logits, or a
            rule. Defaults to `max_temperature`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `max_temperature` is below 1 or `temperature` is not
            between 1 and `max_temperature`.

    Example:

    >>> import numpy as np
    >>> t, s = np.array([[4.0, 8.0]]), np.array([[1.0, 1.0]])
    >>> loss = AnnealedMSE(max_temperature=4)
    >>> float(loss(t, s))  # phi = 1 / 4
    1.0
    >>> loss.temperature = 1
    >>> float(loss(t, s))  # phi = 1
    58.0

    Reference:
        Jafari et al., 2021, https://arxiv.org/abs/2104.07163, section 3.
    """

    over = "anything"

    def __init__(
        self,
        max_temperature=7,
        temperature=None,
        name="annealed_mse",
        **kwargs,
    ):
        if not 1 <= max_temperature < float("inf"):
            raise ValueError(
                "`max_temperature` must be at least 1. "
                f"Received: max_temperature={max_temperature}"
            )
        self.max_temperature = max_temperature
        super().__init__(
            max_temperature if temperature is None else temperature,
            name=name,
            **kwargs,
        )

    def _check_numbers(self, value):
        if not np.all((value >= 1) & (value <= self.max_temperature)):
            raise ValueError(
                "`temperature` must be between 1 and "
                f"max_temperature={self.max_temperature}. "
                f"Received: temperature={value}"
            )

    def compare(self, teacher_logits, student_logits, temperature):
        phi = self.phi(temperature, student_logits)
        return ops.sum(
            ops.square(student_logits - phi * teacher_logits), axis=-1
        )

    def phi(self, temperature, logits):
        """The teacher's factor, with the rank of `logits`."""
        aligned = divergences.align_temperature(temperature, logits)
        aligned = ops.clip(aligned, 1.0, float(self.max_temperature))
        return 1 - (aligned - 1) / self.max_temperature

    def get_config(self):
        return {
            **super().get_config(),
            "max_temperature": self.max_temperature,
        }
