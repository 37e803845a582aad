"""Divergences from distributions that are stored for a few classes only."""

import math

from keras import ops

from keras_distill._checks import check_positive

LOWEST = -1e30


def _positions(indices, rows):
    """Pairs (row, class) for `indices` of shape `[rows, k]`, flat."""
    row = ops.repeat(ops.arange(rows, dtype="int32"), indices.shape[-1])
    column = ops.reshape(ops.cast(indices, "int32"), (-1,))
    return ops.stack([row, column], axis=-1)


def log_rest(log_probabilities, indices):
    """Log of the probability that `indices` leave to the other classes.

    Args:
        log_probabilities: Float tensor `[..., classes]`.
        indices: Integer tensor `[..., k]`, no class twice in a row.

    Returns:
        Float32 tensor `[..., 1]`.
    """
    classes, k = log_probabilities.shape[-1], indices.shape[-1]
    rows = ops.reshape(ops.cast(log_probabilities, "float32"), (-1, classes))
    count = ops.shape(rows)[0]
    positions = _positions(ops.reshape(indices, (-1, k)), count)
    lowest = ops.zeros_like(positions[:, 0], dtype="float32") + LOWEST
    # Not log(1 - sum): next to 1 it has no digits left, and no gradient.
    rows = ops.scatter_update(rows, positions, lowest)
    rest = ops.logsumexp(rows, axis=-1)
    return ops.reshape(rest, (*ops.shape(log_probabilities)[:-1], 1))


def _has_tail(indices, log_probabilities):
    k, columns = indices.shape[-1], log_probabilities.shape[-1]
    if columns not in (k, k + 1):
        raise ValueError(
            "`log_probabilities` must have as many columns as `indices`, or "
            "one more for the tail. Received: indices.shape="
            f"{tuple(indices.shape)}, log_probabilities.shape="
            f"{tuple(log_probabilities.shape)}"
        )
    return columns == k + 1


def sparse_forward_kl(
    indices, log_probabilities, student_logits, temperature=1.0
):
    """KL divergence from a stored distribution to the student.

    With `p` the stored probabilities, divided by their sum, and
    `q = softmax(student_logits / T)` the value is
    `sum_i p_i (log p_i - log q_i)` over the stored classes. With a tail, the
    classes that are not stored count as one more class on either side, with
    the probability that is left.

    Which gradient it has depends on how the teacher was stored. All of them
    have the form `q - target`:

    * with a tail (`TopK`) the targets of the stored classes are right, and
      what the teacher leaves to the others is divided among them as the
      student does: a small bias.
    * without one (`TopK(tail=False)`) the stored classes get all: every
      target is too high by the factor `1 / sum(p)`, others are 0. Biased, the
      more the less they cover.
    * of `Sampled` targets the expectation is right: no bias, but noise. The
      value itself is too high, by a constant as far as the student goes.

    Args:
        indices: Integer tensor `[..., k]`, the stored classes.
        log_probabilities: Tensor `[..., k]`, or `[..., k + 1]` with the tail
            as its last column. `-inf` is a probability of 0.
        student_logits: Tensor `[..., classes]`.
        temperature: `T > 0`, a number: that at which the teacher was stored.

    Returns:
        Float32 tensor `[...]`, in nats.

    Raises:
        ValueError: if the shapes do not fit or `temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> stored = np.log([[0.5, 0.5]])  # Class 2, and the tail.
    >>> student = np.log([[0.5, 0.25, 0.25]])
    >>> round(float(sparse_forward_kl([[2]], stored, student)[0]), 4)
    0.1438

    Reference:
        Anshumann et al., 2025, https://arxiv.org/abs/2503.16870, section 3.
    """
    check_positive("temperature", temperature)
    indices = ops.convert_to_tensor(indices, dtype="int32")
    stored = ops.convert_to_tensor(log_probabilities, dtype="float32")
    tail = _has_tail(indices, stored)
    log_p = ops.log_softmax(stored, axis=-1)
    logits = ops.convert_to_tensor(student_logits, dtype="float32")
    everything = ops.log_softmax(logits / temperature, axis=-1)
    log_q = ops.take_along_axis(everything, indices, axis=-1)
    if tail:
        rest = log_rest(everything, indices)
        log_q = ops.concatenate([log_q, rest], axis=-1)
    p = ops.exp(log_p)
    # Selected before the difference: 0 * (-inf - x) is not a number.
    difference = ops.where(p > 0, log_p, 0.0) - ops.where(p > 0, log_q, 0.0)
    return ops.sum(p * difference, axis=-1)


def dense_logits(indices, log_probabilities, classes):
    """Logits over all classes, for losses that know no sparse targets.

    A tail is spread evenly over the classes that are not stored; without one
    they get `-inf`, which only losses of the teacher's probabilities take
    (`ForwardKL`, `SoftCrossEntropy`). Costs the memory that the cache saved,
    for one batch: map it over batches.

    Args:
        indices: Integer tensor `[..., k]`, the stored classes.
        log_probabilities: Tensor `[..., k]`, or `[..., k + 1]` with the tail
            as its last column.
        classes: Integer, the size of the last axis of the result.

    Returns:
        Float32 tensor `[..., classes]`: log-probabilities.

    Raises:
        ValueError: if the shapes do not fit.

    Example:

    >>> import numpy as np
    >>> stored = np.log([[0.5, 0.5]])  # Class 2, and the tail.
    >>> np.exp(dense_logits([[2]], stored, 3)).tolist()
    [[0.25, 0.25, 0.5]]
    """
    indices = ops.convert_to_tensor(indices, dtype="int32")
    stored = ops.convert_to_tensor(log_probabilities, dtype="float32")
    tail = _has_tail(indices, stored)
    k = indices.shape[-1]
    p = ops.reshape(ops.softmax(stored, axis=-1), (-1, stored.shape[-1]))
    count = ops.shape(p)[0]
    positions = _positions(ops.reshape(indices, (-1, k)), count)
    shape = (count, classes)
    # Added, not assigned: unused columns name class 0 with probability 0.
    dense = ops.scatter(positions, ops.reshape(p[:, :k], (-1,)), shape)
    if tail:
        ones = ops.ones_like(positions[:, 0], dtype="float32")
        taken = ops.scatter(positions, ones, shape) > 0
        dense = ops.where(taken, dense, p[:, k:] / (classes - k))
    log_p = ops.where(dense > 0, ops.log(dense), -math.inf)
    return ops.reshape(log_p, (*ops.shape(indices)[:-1], classes))
