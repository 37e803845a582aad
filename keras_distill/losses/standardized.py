"""KL divergences that scale teacher and student apart from each other."""

import math

import keras
from keras import ops

from keras_distill import divergences
from keras_distill.losses.logits_loss import LogitsLoss


@keras.saving.register_keras_serializable(package="keras_distill")
class StandardizedKL(LogitsLoss):
    """`T^2 KL(teacher || student)` of logits with mean 0 and deviation 1.

    The logits `z` of either side become `(z - mean(z)) / std(z)`, row by row,
    before the temperature: the student learns the teacher's order and relative
    distances and is free in the scale. `std` divides by the number of classes
    (the authors' code divides by one less, which amounts to another `T`).
    Where all logits of a row are equal, they become 0; a logit of `-inf` stays
    so and is not counted.

    With two classes only the sign of the difference is left, and there is no
    gradient; it warns once. `y_true` are the teacher's logits, `y_pred` the
    student's, of shape `[..., classes]`.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `2.0`.
        temperature_squared: Boolean. Whether to multiply by `T^2`. Defaults
            to `True`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.array([[1.0, 2.0, 6.0]]), np.array([[5.0, 7.0, 15.0]])
    >>> round(float(StandardizedKL()(t, s)), 4)  # s = 2 t + 3
    0.0

    Reference:
        Sun et al., 2024, https://arxiv.org/abs/2403.01427, section 4.
    """

    with_two_classes = "only the sign is left, no gradient"

    def __init__(
        self,
        temperature=2.0,
        temperature_squared=True,
        name="standardized_kl",
        **kwargs,
    ):
        super().__init__(temperature, temperature_squared, name=name, **kwargs)

    def compare(self, teacher_logits, student_logits, temperature):
        return divergences.forward_kl(
            _standardize(teacher_logits),
            _standardize(student_logits),
            temperature,
        )


@keras.saving.register_keras_serializable(package="keras_distill")
class TTM(LogitsLoss):
    """Transformed teacher matching: `KL(softmax(t / T) || softmax(s))`.

    The temperature softens the teacher alone, and there is no `T^2`. It is 0
    where `student = teacher / T` up to a constant, not where the logits are
    equal. `y_true` are the teacher's logits, `y_pred` the student's, of shape
    `[..., classes]`.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. The paper's exponent is
            `1 / T`. Defaults to `4.0`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.array([[4.0, 8.0, 0.0]]), np.array([[1.0, 2.0, 0.0]])
    >>> round(float(TTM(temperature=4.0)(t, s)), 4)
    0.0

    Reference:
        Zheng and Yang, 2024, https://arxiv.org/abs/2402.11148, section 3.
    """

    def __init__(self, temperature=4.0, name="ttm", **kwargs):
        super().__init__(temperature, name=name, **kwargs)

    def compare(self, teacher_logits, student_logits, temperature):
        aligned = divergences.align_temperature(temperature, teacher_logits)
        return divergences.forward_kl(teacher_logits / aligned, student_logits)


@keras.saving.register_keras_serializable(package="keras_distill")
class WTTM(TTM):
    """`TTM` times the row's `sum_c p_c^(1 / T)`, `p = softmax(teacher)`.

    The weight is 1 for a sure teacher and grows with its uncertainty, up to
    `classes^(1 - 1 / T)`. `y_true` are the teacher's logits, `y_pred` the
    student's, of shape `[..., classes]`.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. The paper's exponent is
            `1 / T`. Defaults to `4.0`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.zeros((1, 4)), np.log([[0.7, 0.1, 0.1, 0.1]])
    >>> loss, plain = WTTM(temperature=2.0), TTM(temperature=2.0)
    >>> round(float(loss(t, s)) / float(plain(t, s)), 4)  # 4 (1 / 4)^(1 / 2)
    2.0

    Reference:
        Zheng and Yang, 2024, https://arxiv.org/abs/2402.11148, section 4.
    """

    def __init__(self, temperature=4.0, name="wttm", **kwargs):
        super().__init__(temperature, name=name, **kwargs)

    def compare(self, teacher_logits, student_logits, temperature):
        value = super().compare(teacher_logits, student_logits, temperature)
        log_p = ops.log_softmax(teacher_logits, axis=-1)
        aligned = divergences.align_temperature(temperature, log_p)
        return ops.sum(ops.exp(log_p / aligned), axis=-1) * value


def _standardize(logits):
    """Scales each row to mean 0 and deviation 1, over its finite logits."""
    finite = logits > -math.inf
    counted = ops.cast(finite, "float32")
    count = ops.sum(counted, axis=-1, keepdims=True)
    logits = ops.where(finite, logits, 0.0)
    mean = ops.sum(logits, axis=-1, keepdims=True) / count
    centred = (logits - mean) * counted
    variance = ops.sum(ops.square(centred), axis=-1, keepdims=True) / count
    scaled = centred * ops.rsqrt(ops.where(variance > 0, variance, 1.0))
    return ops.where(finite, scaled, -math.inf)
