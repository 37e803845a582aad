"""Losses between feature maps of images, of whatever channels and sizes."""

import keras
from keras import ops

from keras_distill.losses._feature_loss import FeatureLoss
from keras_distill.losses._feature_loss import check_map
from keras_distill.losses._feature_loss import hide
from keras_distill.losses._feature_loss import resized_like
from keras_distill.losses.relations import RowRelation


@keras.saving.register_keras_serializable(package="keras_distill")
class AttentionTransfer(FeatureLoss):
    """Squared distance of where teacher and student are active.

    The attention map of a feature map `A` is the sum of its squares over the
    channels, `[height, width]`, and scaled to norm 1 as one vector: what is
    compared is where a network looks, not with how many channels or how
    strongly. `y_true` is the teacher's feature map, `y_pred` the student's,
    `[batch, height, width, channels]`; channels may differ, and the teacher's
    attention is resized where the sizes do.

    The authors' code takes the mean over the positions of what is summed here,
    and weighs it with 1,000: for 8x8 positions that is a weight of 16.

    Args:
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: When called with other states than feature maps.

    Example:

    >>> import numpy as np
    >>> t, s = np.zeros((1, 1, 2, 1)), np.zeros((1, 1, 2, 3))
    >>> t[0, 0, 0], s[0, 0, 1] = 1.0, 1.0
    >>> float(AttentionTransfer()(t, s)), float(AttentionTransfer()(t, 9 * t))
    (2.0, 0.0)

    Reference:
        Zagoruyko and Komodakis, 2017, https://arxiv.org/abs/1612.03928, eq. 2,
        with p = 2, squared.
    """

    across_widths = True
    across_lengths = True

    def __init__(self, name="attention_transfer", **kwargs):
        super().__init__(name=name, **kwargs)

    def compare(self, teacher_state, student_state, mask):
        del mask
        check_map(teacher_state)
        check_map(student_state)
        teacher, student = _activity(teacher_state), _activity(student_state)
        teacher = _flat_unit(resized_like(teacher, student))
        return ops.sum(ops.square(_flat_unit(student) - teacher), axis=-1)


@keras.saving.register_keras_serializable(package="keras_distill")
class SimilarityPreserving(RowRelation):
    """Squared difference of how alike the rows of a batch are.

    With the state of each row as one long vector, `G` are the dot products of
    all pairs of rows, `[batch, batch]`, each row of it scaled to norm 1; the
    loss is the squared Frobenius norm of the difference of `G` over
    `batch^2`. Nothing of teacher and student has to agree in shape but the
    batch.

    `y_true` is the teacher's state, `y_pred` the student's, of shape `[batch,
    hidden]`, `[batch, length, hidden]` or `[batch, height, width, channels]`.
    Rows masked entirely and rows of weight 0 are in no pair; any other weight
    multiplies a row of `G`. The authors weigh it with 3,000. Each replica of a
    `tf.distribute` strategy compares its own rows.

    Args:
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Example:

    >>> import numpy as np
    >>> t, s = np.eye(2), np.array([[2.0], [2.0]])
    >>> round(float(SimilarityPreserving()(t, s)), 4)  # rows of G: 1 - 2 / 2^.5
    0.2929

    Reference:
        Tung and Mori, 2019, https://arxiv.org/abs/1907.09682, eq. 1 to 4.
    """

    def __init__(self, name="similarity_preserving", **kwargs):
        super().__init__("mean", name=name, **kwargs)
        self.across_lengths = True

    def pool(self, state, mask, rows):
        if mask is not None and len(state.shape) == 3:
            # Of images the mask is that of rows alone, whatever its length.
            fits = mask.shape[1] == state.shape[1]
            state = hide(state, mask) if fits else state
        vectors = ops.reshape(state, (ops.shape(state)[0], -1))
        return ops.where(rows[:, None], vectors, 0.0)

    def relate(self, teacher, student, rows):
        difference = _alike(student) - _alike(teacher)
        count = ops.sum(ops.cast(rows, "float32"))
        squares = ops.sum(ops.square(difference), axis=-1)
        return ops.divide_no_nan(squares, count)

    def get_config(self):
        config = super().get_config()
        del config["pooling"]
        return config


def _activity(state):
    return ops.sum(ops.square(state), axis=-1, keepdims=True)


def _flat_unit(state):
    """Each row as one vector of norm 1; one of zeros stays zero."""
    flat = ops.reshape(state, (ops.shape(state)[0], -1))
    squares = ops.sum(ops.square(flat), axis=-1, keepdims=True)
    return flat * ops.rsqrt(ops.where(squares > 0, squares, 1.0))


def _alike(vectors):
    return _flat_unit(ops.matmul(vectors, ops.transpose(vectors)))
