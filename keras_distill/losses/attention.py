"""Losses between attention of shape `[batch, heads, length, length]`."""

import keras
from keras import ops

from keras_distill._checks import check_choice
from keras_distill.losses._feature_loss import NO_MAPS
from keras_distill.losses._feature_loss import FeatureLoss
from keras_distill.losses._feature_loss import check_axes
from keras_distill.losses._feature_loss import check_axis
from keras_distill.losses._feature_loss import valid_mean

AXES = ("batch", "heads", "length", "length")
PADDED = -1e-3  # Scores at or below count as padding where no mask is given.


class _AttentionLoss(FeatureLoss):
    """Holds `heads` and checks the shapes."""

    across_widths = True
    choices = ()

    def __init__(self, heads, **kwargs):
        super().__init__(**kwargs)
        check_choice("heads", heads, self.choices)
        self.heads = heads

    def _check(self, teacher, student, mask):
        for state in (teacher, student):
            check_axes(state, mask, AXES)
            if None not in state.shape[2:] and state.shape[2] != state.shape[3]:
                raise ValueError(
                    f"Attention must have the axes [{', '.join(AXES)}]"
                    f"{NO_MAPS}. Received: shape={tuple(state.shape)}"
                )
        check_axis(teacher, student, 2, "length")
        check_axis(teacher, student, 3, "length")
        if self.heads == "match":
            other = self.choices[-1]
            problem = f"number of heads; heads={other!r} works across numbers"
            check_axis(teacher, student, 1, problem)

    def get_config(self):
        return {**super().get_config(), "heads": self.heads}


@keras.saving.register_keras_serializable(package="keras_distill")
class AttentionMSE(_AttentionLoss):
    """Mean squared error of the attention maps over pairs of tokens.

    `y_true` is the teacher's attention, `y_pred` the student's, of shape
    `[batch, heads, length, length]`: maps or scores. A pair of tokens counts
    where the mask has both; without a mask every pair counts, and a score of at
    most -0.001, which stands for padding, is set to 0.

    Args:
        heads: `"match"`, the mean over heads, whose number must be the same,
            or `"sum"`, which compares the sums over heads. Defaults to
            `"match"`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `heads` is unknown; when called with different lengths
            or numbers of heads.

    Example:

    >>> import numpy as np
    >>> t, s = np.ones((1, 2, 3, 3)), np.zeros((1, 4, 3, 3))
    >>> float(AttentionMSE(heads="sum")(t, s))
    4.0

    Reference:
        Jiao et al., 2020, https://arxiv.org/abs/1909.10351, section 3.1.
    """

    choices = ("match", "sum")

    def __init__(self, heads="match", name="attention_mse", **kwargs):
        super().__init__(heads, name=name, **kwargs)

    def compare(self, teacher_state, student_state, mask):
        self._check(teacher_state, student_state, mask)
        if self.heads == "sum":
            teacher_state = ops.sum(teacher_state, axis=1, keepdims=True)
            student_state = ops.sum(student_state, axis=1, keepdims=True)
        if mask is None:
            teacher_state = _zero_padded(teacher_state, teacher_state)
            student_state = _zero_padded(student_state, student_state)
            squares = ops.square(student_state - teacher_state)
            return ops.mean(squares, axis=(1, 2, 3))
        both = mask[:, :, None] & mask[:, None, :]
        difference = ops.where(
            both[:, None], student_state - teacher_state, 0.0
        )
        return valid_mean(ops.mean(ops.square(difference), axis=1), both)


@keras.saving.register_keras_serializable(package="keras_distill")
class AttentionCE(_AttentionLoss):
    """Cross-entropy of the student's attention under the teacher's.

    Each query's value is `-sum_k softmax(teacher)_k log softmax(student)_k`
    over the keys in the mask; the mean is over the queries in the mask and over
    heads. Without a mask all of them count, except keys with a teacher's score
    of at most -0.001, which stands for padding.

    `y_true` is the teacher's attention, `y_pred` the student's, of shape
    `[batch, heads, length, length]`. Feed *scores*, as before the attention's
    softmax or as `kd.attention_maps(model, scores=True)` reads them. The
    softmax is applied here, so of attention maps (probabilities) it makes
    nearly uniform distributions.

    Args:
        heads: `"match"`, the mean over heads, whose number must be the same,
            or `"mean"`, which compares the means over heads. Defaults to
            `"match"`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `heads` is unknown; when called with different lengths
            or numbers of heads.

    Example:

    >>> import numpy as np
    >>> scores = np.zeros((1, 2, 3, 3))
    >>> round(float(AttentionCE()(scores, scores)), 4)  # log 3
    1.0986

    Reference:
        Yang et al., 2020, https://arxiv.org/abs/2002.12620, section 3.
    """

    choices = ("match", "mean")

    def __init__(self, heads="match", name="attention_ce", **kwargs):
        super().__init__(heads, name=name, **kwargs)

    def compare(self, teacher_state, student_state, mask):
        self._check(teacher_state, student_state, mask)
        if self.heads == "mean":
            teacher_state = ops.mean(teacher_state, axis=1, keepdims=True)
            student_state = ops.mean(student_state, axis=1, keepdims=True)
        if mask is not None:  # A padded query may hold anything.
            queries = mask[:, None, :, None]
            teacher_state = ops.where(queries, teacher_state, 0.0)
            student_state = ops.where(queries, student_state, 0.0)
        p = ops.softmax(teacher_state, axis=-1)
        if mask is None:
            p = _zero_padded(teacher_state, p)
        else:
            p = ops.where(mask[:, None, None, :], p, 0.0)
        log_q = ops.log_softmax(student_state, axis=-1)
        log_q = ops.where(p > 0, log_q, 0.0)
        values = ops.mean(-ops.sum(p * log_q, axis=-1), axis=1)
        if mask is None:
            return ops.mean(values, axis=-1)
        return valid_mean(values, mask)


def _zero_padded(scores, values):
    """Returns `values` with 0 where `scores` stand for padding."""
    return ops.where(scores <= PADDED, 0.0, values)
