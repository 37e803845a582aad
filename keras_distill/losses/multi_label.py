"""Losses on labels that do not exclude each other (sigmoid outputs)."""

import keras
from keras import ops

from keras_distill import divergences
from keras_distill.losses.logits_loss import LogitsLoss


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

    over = "labels"

    def __init__(
        self,
        temperature=1.0,
        temperature_squared=True,
        name="soft_binary_cross_entropy",
        **kwargs,
    ):
        super().__init__(temperature, temperature_squared, name=name, **kwargs)

    def compare(self, teacher_logits, student_logits, temperature):
        t, s = teacher_logits, student_logits
        aligned = divergences.align_temperature(temperature, s)
        t = t / aligned
        # `-t` is no operation on the constants of a traced JAX function.
        yes, no = ops.sigmoid(t), ops.sigmoid(ops.negative(t))
        log_yes = ops.where(yes > 0, ops.log_sigmoid(s / aligned), 0.0)
        log_no = ops.where(no > 0, ops.log_sigmoid(-s / aligned), 0.0)
        return -ops.mean(yes * log_yes + no * log_no, axis=-1)
