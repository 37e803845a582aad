"""Divergences that compare probabilities, or powers of them, directly."""

import math

from keras import ops

from keras_distill._checks import check_finite
from keras_distill.divergences._distributions import log_probabilities

NEARLY_ZERO = 1e-3


def alpha_beta(
    teacher_logits, student_logits, alpha=0.2, beta=0.7, temperature=1.0
):
    """Alpha-beta divergence between teacher and student (ABKD).

    With `p` and `q` the teacher's and the student's distributions and
    `s = alpha + beta` the value is `sum_c (alpha / s p_c^s + beta / s q_c^s -
    p_c^alpha q_c^beta) / (alpha beta)`. A larger `alpha` attends to classes
    where the error is large, a larger `beta` to classes the student is
    confident of. Special cases:

    * `beta=0`: `sum_c (p^alpha log(p^alpha / q^alpha) - p^alpha + q^alpha) /
      alpha^2`; with `alpha=1` the forward KL
    * `alpha=0`: the same with `p` and `q` swapped; with `beta=1` the reverse
      KL
    * `alpha=-beta`: `sum_c (log(q^alpha / p^alpha) + (p / q)^alpha - 1) /
      alpha^2`, and `sum_c log(p / q)^2 / 2` if both are 0
    * `alpha + beta = 1`: the alpha divergences; `alpha=beta=0.5` is four times
      the squared Hellinger distance

    Float32 cannot tell the general formula from these close to them: numbers
    within 0.001 of 0 count as 0. With powers that are not positive, the value
    may be infinite where a logit is `-inf`.

    Args:
        teacher_logits: Tensor of shape `[..., classes]`.
        student_logits: Tensor of shape `[..., classes]`.
        alpha: Float, the power of the teacher's probabilities.
        beta: Float, the power of the student's probabilities.
        temperature: `T > 0`: a number, a scalar, or a tensor of the leading
            axes. Divides both logits.

    Returns:
        Tensor of shape `[...]`. Zero where the distributions agree.

    Raises:
        ValueError: If `alpha` or `beta` is not a finite number, the shapes
            differ or `temperature` does not fit.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(alpha_beta(t, s, alpha=0.5, beta=0.5)[0]), 4)
    0.1863

    Reference:
        Wang et al., 2025, https://arxiv.org/abs/2505.04560, section 3.
    """
    check_finite("alpha", alpha)
    check_finite("beta", beta)
    log_p, log_q = log_probabilities(
        teacher_logits, student_logits, temperature
    )
    # A class that is impossible for both contributes nothing.
    possible = ops.maximum(log_p, log_q) > -math.inf
    log_p = ops.where(possible, log_p, 0.0)
    log_q = ops.where(possible, log_q, 0.0)
    if abs(beta) < NEARLY_ZERO:
        terms = _one_power(log_p, log_q, alpha)
    elif abs(alpha) < NEARLY_ZERO:
        terms = _one_power(log_q, log_p, beta)
    elif abs(alpha + beta) < NEARLY_ZERO:
        ratio = alpha * (log_p - log_q)
        terms = (ops.expm1(ratio) - ratio) / alpha**2
    else:
        terms = _two_powers(log_p, log_q, alpha, beta)
    return ops.sum(ops.where(possible, terms, 0.0), axis=-1)


def _two_powers(log_p, log_q, alpha, beta):
    """The terms of the sum where none of the three numbers is 0."""
    both = alpha + beta
    mixed = ops.exp(alpha * log_p + beta * log_q)
    from_p = (ops.exp(both * log_p) - mixed) / (beta * both)
    from_q = (ops.exp(both * log_q) - mixed) / (alpha * both)
    return from_p + from_q


def _one_power(log_p, log_q, power):
    """The terms of the sum where the power of `q` is 0."""
    if abs(power) < NEARLY_ZERO:
        return ops.square(log_p - log_q) / 2
    powered = ops.exp(power * log_p)
    # As `0 log 0`; selected first, the gradient of -inf - x is not a number.
    ratio = power * (
        ops.where(powered > 0, log_p, 0.0) - ops.where(powered > 0, log_q, 0.0)
    )
    return (powered * (ratio - 1) + ops.exp(power * log_q)) / power**2


def total_variation(teacher_logits, student_logits, temperature=1.0):
    """Total variation distance between teacher and student.

    With `p` and `q` the teacher's and the student's distributions the value
    is `sum_c |p_c - q_c| / 2`, between 0 and 1.

    Args:
        teacher_logits: Tensor of shape `[..., classes]`.
        student_logits: Tensor of shape `[..., classes]`.
        temperature: `T > 0`: a number, a scalar, or a tensor of the leading
            axes. Divides both logits.

    Returns:
        Tensor of shape `[...]`. Zero where the distributions agree.

    Raises:
        ValueError: If the shapes differ or `temperature` does not fit.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(total_variation(t, s)[0]), 4)
    0.3

    Reference:
        Wen et al., 2023, https://arxiv.org/abs/2307.15190, section 3.
    """
    log_p, log_q = log_probabilities(
        teacher_logits, student_logits, temperature
    )
    return ops.sum(ops.abs(ops.exp(log_p) - ops.exp(log_q)), axis=-1) / 2
