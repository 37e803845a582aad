"""Keras' own weights, masks and reduction, for values computed elsewhere."""

import keras
from keras import ops

from keras_distill._backend import set_mask
from keras_distill._replicas import over_replicas
from keras_distill._replicas import sharing

WEIGHTED = "mean_with_sample_weight"
MEANS = ("sum_over_batch_size", "mean", WEIGHTED)


class _Given(keras.losses.Loss):
    """A loss whose values are its `y_pred`."""

    def call(self, y_true, y_pred):  # noqa: ARG002 - Keras' signature.
        return y_pred


def reduced(loss, values, sample_weight, mask):
    """Reduces `values` as `loss` would reduce those of its own `call`.

    `keras.losses.Loss` hands two arguments to `call`; this is for losses that
    need more of them.

    Args:
        loss: `keras.losses.Loss`, whose `reduction` and `dtype` are used.
        values: Tensor of shape `[...]`.
        sample_weight: Tensor of the leading axes of `values`, or None.
        mask: Boolean tensor of the leading axes of `values`, or None.
    """
    if mask is not None:
        set_mask(values, ops.cast(mask, "bool"))
    given = _Given(loss.name, loss.reduction, loss.dtype)
    return given(values, values, sample_weight)


def share_of_mean(loss, sample_weight, mask):
    """What turns a replica's masked mean into its share of the batch's.

    Keras divides by what counts in the replica, and by the number of replicas:
    a replica full of padding would count as much as one full of tokens.

    Args:
        loss: `keras.losses.Loss`, whose `reduction` is used.
        sample_weight: Tensor `[batch]`, or None.
        mask: Boolean tensor `[batch, ...]`, or None.

    Returns:
        Scalar tensor; the number 1.0 where there is nothing to correct.
    """
    if mask is None or sharing() == 1 or loss.reduction not in MEANS:
        return 1.0
    counted = ops.cast(mask, "float32")
    if loss.reduction == WEIGHTED and sample_weight is not None:
        axes = (1,) * (len(counted.shape) - 1)
        weight = ops.reshape(sample_weight, (-1, *axes))
        counted = counted * ops.cast(weight, "float32")
    here = ops.sum(counted)
    return ops.divide_no_nan(here, over_replicas(here)) * sharing()
