"""Losses on vectors that stand for texts: their directions, and who is near."""

import keras
from keras import ops

from keras_distill import divergences
from keras_distill.losses.logits_loss import LogitsLoss

# What a row is to itself: probability zero at every temperature.
NEVER = -1e9


@keras.saving.register_keras_serializable(package="keras_distill")
class VectorCosine(LogitsLoss):
    """`1 - cos(student, teacher)` of each row.

    `y_true` are the teacher's vectors, `y_pred` the student's, of shape `[...,
    dimensions]`. Of vectors of length 1 it is half the squared distance, with
    which sentence embedders are distilled. A vector of zeros has the cosine 0
    with all others.

    Args:
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: When called on vectors of one dimension.

    Example:

    >>> import numpy as np
    >>> t, s = np.array([[1.0, 0.0]]), np.array([[3.0, 4.0]])
    >>> round(float(VectorCosine()(t, s)), 4)
    0.4

    Reference:
        Reimers and Gurevych, 2020, https://arxiv.org/abs/2004.09813, section 2.
    """

    over = "vectors"
    temperature = None

    def __init__(self, name="vector_cosine", **kwargs):
        super().__init__(None, name=name, **kwargs)

    def compare(self, teacher_logits, student_logits, temperature):
        del temperature
        return 1 - ops.sum(_unit(teacher_logits) * _unit(student_logits), -1)


@keras.saving.register_keras_serializable(package="keras_distill")
class NeighbourKL(LogitsLoss):
    """Divergence of who is near whom in the batch.

    The cosines of a row with all other rows, over `T`, go through a softmax;
    the value of the row is the Kullback-Leibler divergence of the student's
    distribution from the teacher's. What is far from everything counts little,
    and vectors may be turned together at no cost. Rows of weight 0 are still
    among the others of each row. `y_true` are the teacher's vectors, `y_pred`
    the student's, of shape `[batch, dimensions]`. Each replica of a
    `tf.distribute` strategy compares its own rows.

    Args:
        temperature: `T > 0`, as of `ForwardKL`. Defaults to `0.05`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive; when called, if the
            vectors are not of shape `[batch, dimensions]`.

    Example:

    >>> import numpy as np
    >>> t = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> float(NeighbourKL()(t, 2 * t[:, ::-1]))
    0.0

    Reference:
        Fang et al., 2021, https://arxiv.org/abs/2101.04731, section 3.2, with
        the batch in the place of the queue.
    """

    over = "vectors"
    relates_rows = True

    def __init__(self, temperature=0.05, name="neighbour_kl", **kwargs):
        super().__init__(temperature, name=name, **kwargs)

    def compare(self, teacher_logits, student_logits, temperature):
        if len(student_logits.shape) != 2:
            raise ValueError(
                "`NeighbourKL` takes vectors of shape [batch, dimensions]. "
                f"Received: shape {tuple(student_logits.shape)}"
            )
        return divergences.forward_kl(
            _near(teacher_logits), _near(student_logits), temperature
        )


def _near(vectors):
    """Cosines of all pairs of rows, `NEVER` of a row with itself."""
    unit = _unit(vectors)
    cosines = ops.matmul(unit, ops.transpose(unit))
    own = ops.eye(ops.shape(unit)[0], dtype="bool")
    return ops.where(own, NEVER, cosines)


def _unit(vectors):
    """Vectors of length 1; one of zeros stays zero, its gradient finite."""
    squares = ops.sum(ops.square(vectors), axis=-1, keepdims=True)
    return vectors * ops.rsqrt(ops.where(squares > 0, squares, 1.0))
