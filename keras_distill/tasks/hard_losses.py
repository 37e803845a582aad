"""Losses on labels that some rows of a batch do not have."""

import keras
from keras import ops

from keras_distill import losses


@keras.saving.register_keras_serializable("keras_distill")
class KnownLabelsLoss(keras.losses.Loss):
    """A loss on labels, over the rows of the batch that have one.

    The others hold NaN, or what `is_known` says. The mean over the batch is
    then the mean over the rows with a label, as that of Keras' cross-entropy
    with `ignore_class`.

    Args:
        name: String.
        **options: `reduction` and `dtype`, as of `keras.losses.Loss`.
    """

    def compare(self, y_true, y_pred):
        """The loss of each row.

        Args:
            y_true: Tensor `[batch, outputs]`, finite, with zeros in rows
                without a label.
            y_pred: Tensor of the same shape.

        Returns:
            Tensor `[batch]`.
        """
        raise NotImplementedError

    def call(self, y_true, y_pred):
        y_true = ops.reshape(ops.cast(y_true, y_pred.dtype), ops.shape(y_pred))
        known = ops.all(self.is_known(y_true), axis=-1)
        # Zeros before the loss, not after: 0 x NaN is NaN, in gradients, too.
        safe = ops.where(known[:, None], y_true, ops.zeros_like(y_true))
        known = ops.cast(known, y_pred.dtype)
        share = ops.maximum(ops.sum(known), 1.0) / ops.cast(
            ops.shape(known)[0], y_pred.dtype
        )
        return self.compare(safe, y_pred) * known / share

    def is_known(self, y_true):
        """Which labels are there, a boolean tensor like `y_true`."""
        return ops.logical_not(ops.isnan(y_true))


@keras.saving.register_keras_serializable("keras_distill")
class StandardizedMSE(KnownLabelsLoss):
    """The squared error in standard deviations of the scores.

    Args:
        scale: Float, their standard deviation.
        **options: As of `keras.losses.Loss`.

    Example:

    >>> loss = StandardizedMSE(scale=2.0)
    >>> float(loss(ops.array([1.0, float("nan")]), ops.array([[5.0], [0.0]])))
    4.0
    """

    def __init__(self, scale, **options):
        super().__init__(**options)
        self.scale = scale

    def compare(self, y_true, y_pred):
        return ops.mean(ops.square((y_pred - y_true) / self.scale), axis=-1)

    def get_config(self):
        return {**super().get_config(), "scale": self.scale}


@keras.saving.register_keras_serializable("keras_distill")
class LabelsCrossEntropy(KnownLabelsLoss):
    """Binary cross-entropy with logits, the mean over the labels of a row.

    Rows of -1 have no labels.

    Example:

    >>> loss = LabelsCrossEntropy()
    >>> logits = ops.array([[0.0, 0.0], [9.0, 9.0]])
    >>> round(float(loss(ops.array([[1, 0], [-1, -1]]), logits)), 4)
    0.6931
    """

    def compare(self, y_true, y_pred):
        return ops.mean(
            ops.binary_crossentropy(y_true, y_pred, from_logits=True), axis=-1
        )

    def is_known(self, y_true):
        return y_true >= 0


@keras.saving.register_keras_serializable("keras_distill")
class CosineDistance(KnownLabelsLoss):
    """One minus the cosine of the angle to the vectors.

    Example:

    >>> loss = CosineDistance()
    >>> round(float(loss(ops.array([[1.0, 0.0]]), ops.array([[3.0, 4.0]]))), 4)
    0.4
    """

    def compare(self, y_true, y_pred):
        return losses.VectorCosine().compare(y_true, y_pred, None)
