"""The Kullback-Leibler divergence, its symmetrisation and its relatives."""

from keras import ops

from keras_distill._checks import check_between
from keras_distill.divergences._distributions import kl
from keras_distill.divergences._distributions import log_mixture
from keras_distill.divergences._distributions import log_probabilities
from keras_distill.divergences._distributions import tempered


def forward_kl(teacher_logits, student_logits, temperature=1.0):
    """KL divergence `KL(teacher || student)`, which covers the modes.

    With `p = softmax(teacher_logits / T)` and `q = softmax(student_logits / T)`
    the value is `sum_c p_c (log p_c - log q_c)`. A teacher logit of `-inf`
    counts as probability 0 and contributes 0.

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
    >>> t, s = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    >>> round(float(forward_kl(t, s)[0]), 4)  # = log 2 - log 3 / 2
    0.1438

    Reference:
        Hinton et al., 2015, https://arxiv.org/abs/1503.02531, eq. 1.
    """
    log_p, log_q = log_probabilities(
        teacher_logits, student_logits, temperature
    )
    return kl(log_p, log_q)


def reverse_kl(teacher_logits, student_logits, temperature=1.0):
    """KL divergence `KL(student || teacher)`, which seeks a mode.

    With `p = softmax(teacher_logits / T)` and `q = softmax(student_logits / T)`
    the value is `sum_c q_c (log q_c - log p_c)`. It is infinite where a
    teacher logit is `-inf` and the student's is not.

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
    >>> t, s = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    >>> round(float(reverse_kl(t, s)[0]), 4)  # = 3 / 4 log 3 - log 2
    0.1308

    Reference:
        Gu et al., 2023, https://arxiv.org/abs/2306.08543, section 2.1.
    """
    log_p, log_q = log_probabilities(
        teacher_logits, student_logits, temperature
    )
    return kl(log_q, log_p)


def generalized_jsd(
    teacher_logits,
    student_logits,
    beta=0.5,
    temperature=1.0,
    normalize=False,
):
    """Generalised Jensen-Shannon divergence between teacher and student.

    With `p` and `q` the teacher's and the student's distributions and
    `m = beta p + (1 - beta) q` the value is
    `beta KL(p || m) + (1 - beta) KL(q || m)`. At the ends it is a KL
    divergence: `KL(p || q)` for `beta=0`, `KL(q || p)` for `beta=1`. Between
    them it is bounded by `log 2` and shrinks towards either end;
    `normalize=True` divides by `beta (1 - beta)`, which makes it continuous.

    Args:
        teacher_logits: Tensor of shape `[..., classes]`.
        student_logits: Tensor of shape `[..., classes]`.
        beta: Float between 0 and 1, the teacher's share of the mixture.
        temperature: `T > 0`: a number, a scalar, or a tensor of the leading
            axes. Divides both logits.
        normalize: Boolean. Whether to divide by `beta (1 - beta)` for a `beta`
            that is neither 0 nor 1.

    Returns:
        Tensor of shape `[...]`. Zero where the distributions agree.

    Raises:
        ValueError: If `beta` is not between 0 and 1, the shapes differ or
            `temperature` does not fit.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(generalized_jsd(t, s, beta=0.5)[0]), 4)
    0.0462

    Reference:
        Agarwal et al., 2024, https://arxiv.org/abs/2306.13649, section 2.
    """
    check_between("beta", beta, 0, 1)
    if beta == 0:
        return forward_kl(teacher_logits, student_logits, temperature)
    if beta == 1:
        return reverse_kl(teacher_logits, student_logits, temperature)
    log_p, log_q = log_probabilities(
        teacher_logits, student_logits, temperature
    )
    log_m = log_mixture(log_p, log_q, beta)
    value = beta * kl(log_p, log_m) + (1 - beta) * kl(log_q, log_m)
    return value / (beta * (1 - beta)) if normalize else value


def soft_cross_entropy(teacher_logits, student_logits, temperature=1.0):
    """Cross-entropy of the student under the teacher's distribution.

    With `p = softmax(teacher_logits / T)` and `q = softmax(student_logits / T)`
    the value is `-sum_c p_c log q_c`: the forward KL plus the teacher's
    entropy, hence the same gradient.

    Args:
        teacher_logits: Tensor of shape `[..., classes]`.
        student_logits: Tensor of shape `[..., classes]`.
        temperature: `T > 0`: a number, a scalar, or a tensor of the leading
            axes. Divides both logits.

    Returns:
        Tensor of shape `[...]`. The teacher's entropy where the distributions
        agree.

    Raises:
        ValueError: If the shapes differ or `temperature` does not fit.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    >>> round(float(soft_cross_entropy(t, s)[0]), 4)  # = 2 log 2 - log 3 / 2
    0.837

    Reference:
        Hinton et al., 2015, https://arxiv.org/abs/1503.02531, section 2.
    """
    log_p, log_q = log_probabilities(
        teacher_logits, student_logits, temperature
    )
    p = ops.exp(log_p)
    return -ops.sum(p * ops.where(p > 0, log_q, 0.0), axis=-1)


def binary_kl(teacher_logits, student_logits, temperature=1.0):
    """Mean over labels of `KL(teacher || student)`, each label on its own.

    With `p = sigmoid(teacher_logits / T)` and `q = sigmoid(student_logits / T)`
    a label's value is `p (log p - log q) + (1 - p) (log(1 - p) - log(1 - q))`.

    Args:
        teacher_logits: Tensor of shape `[..., labels]`.
        student_logits: Tensor of shape `[..., labels]`.
        temperature: `T > 0`: a number, a scalar, or a tensor of the leading
            axes. Divides both logits.

    Returns:
        Tensor of shape `[...]`. Zero where the distributions agree.

    Raises:
        ValueError: If the shapes differ or `temperature` does not fit.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[1.0]]), np.log([[1 / 3]])  # p = 1 / 2, q = 1 / 4
    >>> round(float(binary_kl(t, s)[0]), 4)
    0.1438

    Reference:
        Yang et al., 2023, https://arxiv.org/abs/2308.06453, whose logits loss
        is the sum over labels.
    """
    t, s = tempered(teacher_logits, student_logits, temperature)
    yes = ops.log_sigmoid(t) - ops.log_sigmoid(s)
    no = ops.log_sigmoid(-t) - ops.log_sigmoid(-s)
    return ops.mean(ops.sigmoid(t) * yes + ops.sigmoid(-t) * no, axis=-1)
