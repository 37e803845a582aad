"""A mean of the two KL divergences that follows where the student is off."""

import math

from keras import ops

from keras_distill._checks import check_between
from keras_distill.divergences._distributions import kl
from keras_distill.divergences._distributions import log_probabilities


def adaptive_kl(teacher_logits, student_logits, mu=0.5, temperature=1.0):
    """Adaptive KL: forward KL for the head, reverse KL for the tail.

    With `p` and `q` the teacher's and the student's distributions the value
    is `w KL(p || q) + (1 - w) KL(q || p)`, where `w` is the share of
    `sum_c |p_c - q_c|` that lies in the teacher's head. No gradient flows
    through `w`. The head are the most likely classes whose probabilities add
    up to at most `mu`, and the most likely one in any case, as in the authors'
    code. Classes as likely as the last one in the head belong to it.

    Args:
        teacher_logits: Tensor of shape `[..., classes]`.
        student_logits: Tensor of shape `[..., classes]`.
        mu: Float between 0 and 1, the teacher's probability in the head.
        temperature: `T > 0`: a number, a scalar, or a tensor of the leading
            axes. Divides both logits.

    Returns:
        Tensor of shape `[...]`. Zero where the distributions agree.

    Raises:
        ValueError: If `mu` is not between 0 and 1, the shapes differ or
            `temperature` does not fit.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(adaptive_kl(t, s)[0]), 4)
    0.1879

    Reference:
        Wu et al., 2024, https://arxiv.org/abs/2404.02657, section 4.
    """
    check_between("mu", mu, 0, 1)
    log_p, log_q = log_probabilities(
        teacher_logits, student_logits, temperature
    )
    head = ops.stop_gradient(_head_share(ops.exp(log_p), ops.exp(log_q), mu))
    return head * kl(log_p, log_q) + (1 - head) * kl(log_q, log_p)


def _head_share(p, q, mu):
    """Share of `sum_c |p_c - q_c|` in the head of `p`; 1/2 where they agree."""
    falling = -ops.sort(-p, axis=-1)
    within = ops.cumsum(falling, axis=-1) <= mu
    last = ops.min(ops.where(within, falling, math.inf), axis=-1, keepdims=True)
    least = ops.minimum(last, falling[..., :1])
    gap = ops.abs(p - q)
    in_head = ops.sum(ops.where(p >= least, gap, 0.0), axis=-1)
    everywhere = ops.sum(gap, axis=-1)
    agree = everywhere == 0
    return ops.where(agree, 0.5, in_head / ops.where(agree, 1.0, everywhere))
