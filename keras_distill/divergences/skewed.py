"""KL divergences to a mixture of the two distributions (DistiLLM)."""

from keras_distill._checks import check_fraction
from keras_distill.divergences._distributions import kl
from keras_distill.divergences._distributions import log_mixture
from keras_distill.divergences._distributions import log_probabilities
from keras_distill.divergences.kullback_leibler import forward_kl
from keras_distill.divergences.kullback_leibler import reverse_kl


def skew_kl(teacher_logits, student_logits, alpha=0.1, temperature=1.0):
    """Skew KL divergence `KL(teacher || mixture)`.

    With `p` and `q` the teacher's and the student's distributions the value
    is `KL(p || alpha p + (1 - alpha) q)`. The share of the teacher in the
    mixture bounds it by `-log(alpha)`, and its gradient with it.

    Args:
        teacher_logits: Tensor of shape `[..., classes]`.
        student_logits: Tensor of shape `[..., classes]`.
        alpha: Float of at least 0 and less than 1, the teacher's share of the
            mixture. `0` is the forward KL.
        temperature: `T > 0`: a number, a scalar, or a tensor of the leading
            axes. Divides both logits.

    Returns:
        Tensor of shape `[...]`. Zero where the distributions agree.

    Raises:
        ValueError: If `alpha` is out of range, the shapes differ or
            `temperature` does not fit.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(skew_kl(t, s)[0]), 4)
    0.1486

    Reference:
        Ko et al., 2024, https://arxiv.org/abs/2402.03898, section 3.1.
    """
    check_fraction("alpha", alpha)
    if alpha == 0:
        return forward_kl(teacher_logits, student_logits, temperature)
    log_p, log_q = log_probabilities(
        teacher_logits, student_logits, temperature
    )
    return kl(log_p, log_mixture(log_p, log_q, alpha))


def skew_reverse_kl(teacher_logits, student_logits, alpha=0.1, temperature=1.0):
    """Skew reverse KL divergence `KL(student || mixture)`.

    With `p` and `q` the teacher's and the student's distributions the value
    is `KL(q || alpha q + (1 - alpha) p)`. It is at most `-log(alpha)`, also
    where a teacher logit is `-inf` and the student's is not.

    Args:
        teacher_logits: Tensor of shape `[..., classes]`.
        student_logits: Tensor of shape `[..., classes]`.
        alpha: Float of at least 0 and less than 1, the student's share of the
            mixture. `0` is the reverse KL.
        temperature: `T > 0`: a number, a scalar, or a tensor of the leading
            axes. Divides both logits.

    Returns:
        Tensor of shape `[...]`. Zero where the distributions agree.

    Raises:
        ValueError: If `alpha` is out of range, the shapes differ or
            `temperature` does not fit.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(skew_reverse_kl(t, s)[0]), 4)
    0.1524

    Reference:
        Ko et al., 2024, https://arxiv.org/abs/2402.03898, section 3.1.
    """
    check_fraction("alpha", alpha)
    if alpha == 0:
        return reverse_kl(teacher_logits, student_logits, temperature)
    log_p, log_q = log_probabilities(
        teacher_logits, student_logits, temperature
    )
    return kl(log_q, log_mixture(log_q, log_p, alpha))
