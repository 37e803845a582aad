"""Distributions from logits: temperatures, log-probabilities, mixtures.

`temperature` is a positive number, a scalar tensor or variable, or a tensor
whose axes are the leading axes of the logits: `[batch]` or `[batch, length]`
for logits of shape `[batch, length, classes]`.
"""

import math

from keras import ops

from keras_distill._checks import check_positive
from keras_distill._checks import check_same_shape


def align_temperature(temperature, logits):
    """Gives `temperature` the rank of `logits`, aligned with its leading axes.

    Args:
        temperature: Positive number, or scalar, `[batch]` or `[batch, length]`
            tensor or variable.
        logits: Tensor of shape `[..., classes]`.

    Returns:
        Float32 tensor that broadcasts against `logits`. Its last axis has
        size 1. No gradient flows through it.

    Raises:
        ValueError: If a number is not positive, or if the axes of
            `temperature` are not the leading axes of `logits`.

    Example:

    >>> import numpy as np
    >>> align_temperature(np.ones(2), np.zeros((2, 5, 3))).shape == (2, 1, 1)
    True
    """
    if isinstance(temperature, int | float):
        check_positive("temperature", temperature)
    temperature = ops.convert_to_tensor(temperature, dtype="float32")
    shape, expected = tuple(temperature.shape), tuple(logits.shape)[:-1]
    if len(shape) > len(expected) or any(
        m != n for m, n in zip(shape, expected) if m != 1 and None not in (m, n)
    ):
        raise ValueError(
            "`temperature` must be a scalar, or have the leading axes of the "
            f"logits, {expected}. Received: temperature.shape={shape}"
        )
    ones = (1,) * (len(expected) + 1 - len(shape))
    return ops.stop_gradient(
        ops.reshape(temperature, (*ops.shape(temperature), *ones))
    )


def squared(temperature, logits):
    """Returns `T^2`, with the leading axes of `logits`.

    The gradient of a divergence of `softmax(logits / T)` shrinks with `1 /
    T^2`. Multiplied by `T^2` a soft loss keeps its weight beside the others,
    whatever `T` is (Hinton et al., 2015, section 2).
    """
    aligned = align_temperature(temperature, logits)
    return ops.square(aligned[..., 0])


def tempered(teacher_logits, student_logits, temperature):
    """Returns both logits over `temperature`, in float32."""
    teacher_logits = ops.convert_to_tensor(teacher_logits, dtype="float32")
    student_logits = ops.convert_to_tensor(student_logits, dtype="float32")
    check_same_shape(
        "teacher_logits", teacher_logits, "student_logits", student_logits
    )
    temperature = align_temperature(temperature, teacher_logits)
    return teacher_logits / temperature, student_logits / temperature


def log_probabilities(teacher_logits, student_logits, temperature):
    """Returns both log-softmaxes at `temperature`, in float32."""
    return [
        ops.log_softmax(logits, axis=-1)
        for logits in tempered(teacher_logits, student_logits, temperature)
    ]


def kl(log_p, log_q):
    """Returns `sum_c p_c (log p_c - log q_c)`, with `0 log 0 = 0`."""
    p = ops.exp(log_p)
    # Selected before the difference: the gradient of -inf - x is not a number.
    log_p = ops.where(p > 0, log_p, 0.0)
    log_q = ops.where(p > 0, log_q, 0.0)
    return ops.sum(p * (log_p - log_q), axis=-1)


def log_mixture(log_p, log_q, beta):
    """Returns `log(beta p + (1 - beta) q)`; where both are 0, any number."""
    possible = ops.maximum(log_p, log_q) > -math.inf
    terms = [
        ops.where(possible, log_p, 0.0) + math.log(beta),
        ops.where(possible, log_q, 0.0) + math.log1p(-beta),
    ]
    # Not `ops.logaddexp`, whose gradient on TensorFlow is wrong at ties.
    return ops.logsumexp(ops.stack(terms, axis=-1), axis=-1)
