"""Losses on labels that do not exclude each other (sigmoid outputs)."""

import keras
from keras import ops

from keras_distill import divergences
from keras_distill._checks import check_choice
from keras_distill._checks import check_same_shape
from keras_distill.losses._logits_loss import LogitsLoss


@keras.saving.register_keras_serializable(package="keras_distill")
class SoftBinaryCrossEntropy(LogitsLoss):
    """`T^2` times the binary cross-entropy under the teacher, mean over labels.

    With `p = sigmoid(teacher / T)` and `q = sigmoid(student / T)` a label's
    value is `-p log q - (1 - p) log(1 - q)`: `kd.losses.BinaryKL` plus the
    teacher's entropy, hence the same gradient. `y_true` are the teacher's
    logits, `y_pred` the student's, of shape `[..., labels]`.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        temperature_squared: Boolean. Whether to multiply by `T^2`. Defaults
            to `True`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[1.0]]), np.log([[1 / 3]])  # 1 / 2 and 1 / 4
    >>> round(float(SoftBinaryCrossEntropy()(t, s)), 4)
    0.837

    Reference:
        Hinton et al., 2015, https://arxiv.org/abs/1503.02531, section 2, for
        each label as two classes.
    """

    def __init__(
        self,
        temperature=1.0,
        temperature_squared=True,
        name="soft_binary_cross_entropy",
        **kwargs,
    ):
        super().__init__(temperature, name=name, **kwargs)
        check_choice("temperature_squared", temperature_squared, (True, False))
        self.temperature_squared = temperature_squared

    def compare(self, teacher_logits, student_logits, temperature):
        t = ops.convert_to_tensor(teacher_logits, dtype="float32")
        s = ops.convert_to_tensor(student_logits, dtype="float32")
        check_same_shape("teacher_logits", t, "student_logits", s)
        aligned = divergences.align_temperature(temperature, s)
        yes, no = ops.sigmoid(t / aligned), ops.sigmoid(-t / aligned)
        log_yes = ops.where(yes > 0, ops.log_sigmoid(s / aligned), 0.0)
        log_no = ops.where(no > 0, ops.log_sigmoid(-s / aligned), 0.0)
        value = -ops.mean(yes * log_yes + no * log_no, axis=-1)
        if not self.temperature_squared:
            return value
        return ops.square(aligned[..., 0]) * value

    def get_config(self):
        return {
            **super().get_config(),
            "temperature_squared": self.temperature_squared,
        }
