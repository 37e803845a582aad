"""Losses on relations: between the rows of a batch, or between tokens."""

import math

import keras
from keras import ops

from keras_distill import divergences
from keras_distill._checks import check_choice
from keras_distill._checks import check_integer
from keras_distill.losses._feature_loss import FeatureLoss
from keras_distill.losses._feature_loss import check_axes
from keras_distill.losses._feature_loss import check_axis
from keras_distill.losses._feature_loss import hide
from keras_distill.losses._feature_loss import positions
from keras_distill.losses._feature_loss import valid_mean


class RowRelation(FeatureLoss):
    """Pools each row to one vector, and leaves out rows of weight 0."""

    across_widths = True

    def __init__(self, pooling, **kwargs):
        super().__init__(**kwargs)
        check_choice("pooling", pooling, ("mean", "first"))
        self.pooling = pooling
        self.across_lengths = pooling == "first"

    def __call__(self, y_true, y_pred, sample_weight=None, mask=None):
        y_true = ops.convert_to_tensor(y_true)
        y_pred = ops.convert_to_tensor(y_pred)
        if self.pooling == "mean":
            y_true, y_pred = positions(y_true), positions(y_pred)
        if sample_weight is not None and mask is None:
            # The base class then masks the rows of weight 0.
            shape = ops.shape(y_pred)
            tokens = shape[1] if len(shape) == 3 else 1
            mask = ops.ones((shape[0], tokens), "bool")
        return super().__call__(y_true, y_pred, sample_weight, mask)

    def compare(self, teacher_state, student_state, mask):
        if mask is None:
            rows = ops.ones_like(student_state[..., 0], dtype="bool")
            rows = ops.reshape(rows, (ops.shape(rows)[0], -1))[:, 0]
        else:
            rows = ops.any(mask, axis=-1)
        teacher = self.pool(teacher_state, mask, rows)
        student = self.pool(student_state, mask, rows)
        return self.relate(teacher, student, rows)

    def pool(self, state, mask, rows):
        """Returns `[batch, hidden]` vectors, 0 where `rows` is False."""
        if len(state.shape) == 2:
            pooled = state
        elif self.pooling == "first":
            check_axes(state, None, ("batch", "length", "hidden"))
            pooled = state[:, 0]
        else:
            check_axes(state, mask, ("batch", "length", "hidden"))
            if mask is None:
                return ops.mean(state, axis=1)
            counts = ops.sum(ops.cast(mask, "float32"), axis=-1)[:, None]
            pooled = ops.divide_no_nan(
                ops.sum(hide(state, mask), axis=1), counts
            )
        return ops.where(rows[:, None], pooled, 0.0)

    def relate(self, teacher, student, rows):
        """Returns `[batch]` values of vectors `[batch, hidden]`."""
        raise NotImplementedError

    def get_config(self):
        return {**super().get_config(), "pooling": self.pooling}


@keras.saving.register_keras_serializable(package="keras_distill")
class RKDDistance(RowRelation):
    """Huber loss of the distances between the rows of a batch.

    The Euclidean distances between the vectors of two different rows are
    divided by their mean over the pairs of the batch, for teacher and student
    apart; the loss is the mean over the pairs of the Huber loss (with the
    threshold 1) of the difference. Rotation, shift and scale of either side
    change nothing, and the widths may differ.

    `y_true` is the teacher's state, `y_pred` the student's, of shape
    `[batch, hidden]`, `[batch, length, hidden]` or `[batch, height, width,
    channels]`, whose positions then are the tokens. Rows masked entirely and
    rows of weight 0 are in no pair; any other weight multiplies a row's mean
    over its pairs. Takes memory of `batch^2 hidden`. The authors weigh it with
    25 and `RKDAngle` with 50. Each replica of a `tf.distribute` strategy
    compares its own rows.

    Args:
        pooling: What stands for a row with a length: `"mean"`, the mean of
            its valid tokens, or `"first"`, its first token; then the lengths
            of teacher and student may differ. Defaults to `"mean"`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `pooling` is unknown.

    Example:

    >>> import numpy as np
    >>> t, s = np.array([[0.0], [1.0], [2.0]]), np.array([[0.0], [1.0], [1.0]])
    >>> round(float(RKDDistance()(t, s)), 4)  # t 3/4 3/4 3/2, s 3/2 0 3/2
    0.1875

    Reference:
        Park et al., 2019, https://arxiv.org/abs/1904.05068, section 3.2.1.
    """

    def __init__(self, pooling="mean", name="rkd_distance", **kwargs):
        super().__init__(pooling, name=name, **kwargs)

    def relate(self, teacher, student, rows):
        pairs = _different(rows[:, None] & rows[None, :])
        difference = _relative(student, pairs) - _relative(teacher, pairs)
        sums = ops.sum(ops.where(pairs, _huber(difference), 0.0), axis=1)
        counts = ops.sum(ops.cast(pairs, "float32"), axis=1)
        return ops.divide_no_nan(sums, counts)


@keras.saving.register_keras_serializable(package="keras_distill")
class RKDAngle(RowRelation):
    """Huber loss of the cosines of the angles between rows of a batch.

    For three different rows with the vectors `a`, `b`, `c` the relation is
    the cosine of the angle at `b`; the loss is the mean over the triplets of
    the Huber loss (with the threshold 1) of the difference. Rotation, shift
    and scale of either side change nothing, and the widths may differ. Where
    two of the vectors are equal the cosine is 0.

    `y_true` is the teacher's state, `y_pred` the student's, of shape
    `[batch, hidden]`, `[batch, length, hidden]` or `[batch, height, width,
    channels]`, whose positions then are the tokens. Rows masked entirely and
    rows of weight 0 are in no triplet; any other weight multiplies the mean
    over the triplets with their angle at the row. Takes memory of
    `batch^2 hidden + batch^3`. Each replica of a `tf.distribute` strategy
    compares its own rows.

    Args:
        pooling: What stands for a row with a length: `"mean"`, the mean of
            its valid tokens, or `"first"`, its first token; then the lengths
            of teacher and student may differ. Defaults to `"mean"`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `pooling` is unknown.

    Example:

    >>> import numpy as np
    >>> t = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    >>> round(float(RKDAngle()(t, 3 * t[:, ::-1] + 5)), 4)
    0.0

    Reference:
        Park et al., 2019, https://arxiv.org/abs/1904.05068, section 3.2.2.
    """

    def __init__(self, pooling="mean", name="rkd_angle", **kwargs):
        super().__init__(pooling, name=name, **kwargs)

    def relate(self, teacher, student, rows):
        ends = _different(rows[:, None] & rows[None, :])
        triplets = ends[:, :, None] & ends[:, None, :] & ends[None, :, :]
        difference = _cosines(student) - _cosines(teacher)
        huber = ops.where(triplets, _huber(difference), 0.0)
        counts = ops.sum(ops.cast(triplets, "float32"), axis=(1, 2))
        return ops.divide_no_nan(ops.sum(huber, axis=(1, 2)), counts)


@keras.saving.register_keras_serializable(package="keras_distill")
class MiniLMRelation(FeatureLoss):
    """KL divergence between the relations of tokens, as attention has them.

    The vectors of each token are cut into `relation_heads` pieces of width
    `d`; a query's relation is `softmax(v v^T / sqrt(d))` over the keys in the
    mask. The value is `KL(teacher || student)`, the mean over the heads and
    the queries in the mask. No projection is needed: the widths and the
    numbers of attention heads may differ, if `relation_heads` divides both
    widths.

    `y_true` is the teacher's state, `y_pred` the student's, of shape
    `[batch, length, hidden]` or `[batch, length, heads, width]`, whose last
    two axes are put together (a feature map of images would be taken for
    that: reshape it to one axis of positions). MiniLMv2 matches the queries,
    the keys and the values of the student's last layer, three matches; of the
    teacher the last layer, or for a large one some layers earlier. MiniLM
    matches the values, with `relation_heads` as attention heads, and the
    attention (`kd.losses.AttentionCE` on scores).

    Args:
        relation_heads: Integer, at least 1. Defaults to `12`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `relation_heads` is not a positive integer; when called
            with different lengths or widths that it does not divide.

    Example:

    >>> import numpy as np
    >>> t, s = np.eye(3)[None], np.zeros((1, 3, 6))
    >>> round(float(MiniLMRelation(relation_heads=3)(t, s)), 4)
    0.0411

    Reference:
        Wang et al., 2021, https://arxiv.org/abs/2012.15828, eq. 6 to 9; the
        first MiniLM: https://arxiv.org/abs/2002.10957.
    """

    across_widths = True
    across_lengths = True  # Checked here: the length is another axis.

    def __init__(self, relation_heads=12, name="minilm_relation", **kwargs):
        super().__init__(name=name, **kwargs)
        check_integer("relation_heads", relation_heads, minimum=1)
        self.relation_heads = relation_heads

    def compare(self, teacher_state, student_state, mask):
        check_axis(teacher_state, student_state, 1, "length")
        values = ops.mean(
            divergences.forward_kl(
                self._scores("teacher", teacher_state, mask),
                self._scores("student", student_state, mask),
            ),
            axis=1,
        )
        if mask is None:
            return ops.mean(values, axis=-1)
        return valid_mean(values, mask)

    def _scores(self, side, state, mask):
        if len(state.shape) == 4:
            width = state.shape[2] * state.shape[3]
            state = ops.reshape(state, (*ops.shape(state)[:2], width))
        check_axes(state, mask, ("batch", "length", "hidden"))
        heads, width = self.relation_heads, state.shape[-1]
        if width % heads:
            raise ValueError(
                "`relation_heads` must divide the widths of both models. "
                f"Received: relation_heads={heads}, {side} width {width}"
            )
        if mask is not None:
            state = hide(state, mask)
        state = ops.reshape(
            state, (*ops.shape(state)[:2], heads, width // heads)
        )
        state = ops.transpose(state, (0, 2, 1, 3))
        scores = ops.matmul(state, ops.transpose(state, (0, 1, 3, 2)))
        scores = scores / math.sqrt(width // heads)
        if mask is None:
            return scores
        scores = ops.where(mask[:, None, None, :], scores, -math.inf)
        return ops.where(mask[:, None, :, None], scores, 0.0)

    def get_config(self):
        return {**super().get_config(), "relation_heads": self.relation_heads}


def _different(pairs):
    """Takes the pairs of a row with itself out of `pairs`."""
    return pairs & ~ops.cast(ops.eye(ops.shape(pairs)[0]), "bool")


def _norm(vectors):
    """Returns the norms of the last axis, without a gradient at 0."""
    squares = ops.sum(ops.square(vectors), axis=-1)
    positive = squares > 0
    return ops.where(positive, ops.sqrt(ops.where(positive, squares, 1.0)), 0.0)


def _relative(vectors, pairs):
    """Returns the distances `[batch, batch]` over their mean over `pairs`."""
    distances = _norm(vectors[:, None] - vectors[None, :])
    counted = ops.cast(pairs, "float32")
    mean = ops.divide_no_nan(ops.sum(distances * counted), ops.sum(counted))
    return ops.divide_no_nan(distances, mean)


def _cosines(vectors):
    """Returns `[b, a, c]` cosines of the angle at `b` between `a` and `c`."""
    edges = vectors[None, :] - vectors[:, None]
    edges = ops.divide_no_nan(edges, _norm(edges)[..., None])
    return ops.matmul(edges, ops.transpose(edges, (0, 2, 1)))


def _huber(difference):
    size = ops.abs(difference)
    return ops.where(size <= 1, ops.square(size) / 2, size - 0.5)
