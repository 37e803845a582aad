"""Rules that choose a temperature for each example from its logits.

Both raise the temperature of an example whose weight is below the batch's mean
and lower it above the mean.
"""

import keras
from keras import ops

from keras_distill._checks import check_finite
from keras_distill._checks import check_positive
from keras_distill._checks import check_same_shape


def flsw_temperature(
    teacher_logits,
    student_logits,
    beta=1.0,
    gamma=1.0,
    base_temperature=8.0,
    minimum_temperature=0.1,
):
    """Focal-loss-style weighting: a lower temperature where the two disagree.

    With `c` the cosine between teacher's and student's logits and
    `w = (1 - c)^gamma` the temperature is
    `base_temperature + beta (mean(w) - w)`.

    Args:
        teacher_logits: Tensor of shape `[..., classes]`.
        student_logits: Tensor of shape `[..., classes]`.
        beta: Float, the size of the change.
        gamma: Positive float, the exponent of the weight.
        base_temperature: Positive float, the mean temperature.
        minimum_temperature: Positive float. Lower temperatures are raised to
            it.

    Returns:
        Float32 tensor of shape `[...]`, without gradient.

    Raises:
        ValueError: If the shapes differ or a number is not positive.

    Example:

    >>> import numpy as np
    >>> t = np.array([[1.0, 0.0], [1.0, 0.0]])
    >>> s = np.array([[2.0, 0.0], [0.0, 2.0]])
    >>> [round(float(x), 2) for x in flsw_temperature(t, s)]
    [8.5, 7.5]

    Reference:
        Wen et al., 2019, https://arxiv.org/abs/1911.07471.
    """
    check_positive("gamma", gamma)
    _check_numbers(beta, base_temperature, minimum_temperature)
    teacher_logits, student_logits = _float32(teacher_logits, student_logits)
    cosine = ops.sum(
        _direction(teacher_logits) * _direction(student_logits), -1
    )
    weight = ops.power(ops.maximum(1 - cosine, 0.0), gamma)
    return _around(weight, beta, base_temperature, minimum_temperature)


def cwsm_temperature(
    teacher_logits,
    student_logits,
    beta=1.0,
    base_temperature=8.0,
    minimum_temperature=0.1,
):
    """Confidence-weighting by softmax maximum: lower where it is unsure.

    With `m` the student's largest probability and `w = 1 / (m + 0.001)` the
    temperature is `base_temperature + beta (mean(w) - w)`.

    Args:
        teacher_logits: Tensor of shape `[..., classes]`. Only its shape
            matters.
        student_logits: Tensor of shape `[..., classes]`.
        beta: Float, the size of the change.
        base_temperature: Positive float, the mean temperature.
        minimum_temperature: Positive float. Lower temperatures are raised to
            it.

    Returns:
        Float32 tensor of shape `[...]`, without gradient.

    Raises:
        ValueError: If the shapes differ or a number is not positive.

    Example:

    >>> import numpy as np
    >>> s = np.array([[0.0, 0.0], [99.0, 0.0]])
    >>> [round(float(x), 2) for x in cwsm_temperature(s, s)]
    [7.5, 8.5]

    Reference:
        Wen et al., 2019, https://arxiv.org/abs/1911.07471.
    """
    _check_numbers(beta, base_temperature, minimum_temperature)
    _, student_logits = _float32(teacher_logits, student_logits)
    confidence = ops.max(ops.softmax(student_logits, axis=-1), axis=-1)
    weight = 1 / (confidence + 1e-3)
    return _around(weight, beta, base_temperature, minimum_temperature)


class _Rule:
    """A callable with the numbers of a rule, for a loss's `temperature`."""

    def __init__(self, beta, base_temperature, minimum_temperature):
        _check_numbers(beta, base_temperature, minimum_temperature)
        self.beta = beta
        self.base_temperature = base_temperature
        self.minimum_temperature = minimum_temperature

    def get_config(self):
        return {
            "beta": self.beta,
            "base_temperature": self.base_temperature,
            "minimum_temperature": self.minimum_temperature,
        }

    @classmethod
    def from_config(cls, config):
        return cls(**config)


@keras.saving.register_keras_serializable(package="keras_distill")
class FLSW(_Rule):
    """`flsw_temperature` as the `temperature` of a loss.

    Args:
        beta: Float, the size of the change. Defaults to `1.0`.
        gamma: Positive float, the exponent of the weight. Defaults to `1.0`.
        base_temperature: Positive float, the mean temperature. Defaults to
            `8.0`.
        minimum_temperature: Positive float. Lower temperatures are raised to
            it. Defaults to `0.1`.

    Raises:
        ValueError: If a number is not positive.

    Example:

    >>> import numpy as np
    >>> rule = FLSW(base_temperature=4.0)
    >>> t, s = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    >>> float(rule(t, s)[0])
    4.0
    """

    def __init__(
        self,
        beta=1.0,
        gamma=1.0,
        base_temperature=8.0,
        minimum_temperature=0.1,
    ):
        super().__init__(beta, base_temperature, minimum_temperature)
        check_positive("gamma", gamma)
        self.gamma = gamma

    def __call__(self, teacher_logits, student_logits):
        return flsw_temperature(
            teacher_logits, student_logits, **self.get_config()
        )

    def get_config(self):
        return {**super().get_config(), "gamma": self.gamma}


@keras.saving.register_keras_serializable(package="keras_distill")
class CWSM(_Rule):
    """`cwsm_temperature` as the `temperature` of a loss.

    Args:
        beta: Float, the size of the change. Defaults to `1.0`.
        base_temperature: Positive float, the mean temperature. Defaults to
            `8.0`.
        minimum_temperature: Positive float. Lower temperatures are raised to
            it. Defaults to `0.1`.

    Raises:
        ValueError: If a number is not positive.

    Example:

    >>> import numpy as np
    >>> rule = CWSM(base_temperature=4.0)
    >>> t, s = np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]])
    >>> float(rule(t, s)[0])
    4.0
    """

    def __init__(self, beta=1.0, base_temperature=8.0, minimum_temperature=0.1):
        super().__init__(beta, base_temperature, minimum_temperature)

    def __call__(self, teacher_logits, student_logits):
        return cwsm_temperature(
            teacher_logits, student_logits, **self.get_config()
        )


def _check_numbers(beta, base_temperature, minimum_temperature):
    check_finite("beta", beta)
    check_positive("base_temperature", base_temperature)
    check_positive("minimum_temperature", minimum_temperature)


def _float32(teacher_logits, student_logits):
    teacher_logits = ops.convert_to_tensor(teacher_logits, dtype="float32")
    student_logits = ops.convert_to_tensor(student_logits, dtype="float32")
    check_same_shape(
        "teacher_logits", teacher_logits, "student_logits", student_logits
    )
    return teacher_logits, student_logits


def _direction(logits):
    norm = ops.sqrt(ops.sum(ops.square(logits), axis=-1, keepdims=True))
    return logits / (norm + 1e-4)


def _around(weight, beta, base_temperature, minimum_temperature):
    temperature = base_temperature + beta * (ops.mean(weight) - weight)
    return ops.stop_gradient(ops.maximum(temperature, minimum_temperature))
