"""DIST: correlations of the probabilities, within rows and within classes."""

import keras
from keras import ops

from keras_distill import divergences
from keras_distill._backend import get_mask
from keras_distill._checks import check_weight
from keras_distill.divergences._distributions import squared
from keras_distill.losses._reduction import reduced
from keras_distill.losses.logits_loss import LogitsLoss

SMALLEST_VARIATION = 1e-12  # Of float32's rounding, relative, squared.


@keras.saving.register_keras_serializable(package="keras_distill")
class DIST(LogitsLoss):
    """`T^2 (beta inter + gamma intra)`, distances by Pearson's correlation.

    With `p` and `q` the teacher's and the student's probabilities, a row's
    `inter` is `1 - corr(p, q)` over the classes, and `intra` is the mean over
    the classes of `1 - corr(p, q)` over the rows of the batch: the value of a
    row depends on the others. Each row's value holds the same `intra`.
    `y_true` are the teacher's logits, `y_pred` the student's, of shape
    `[..., classes]`; all leading axes together are the rows.

    A masked row counts nowhere. A sample weight multiplies a row's value, and
    is also the row's share of the means and covariances in `intra`: the weight
    0 leaves the row out, the weight 2 is two equal rows. A row or class where
    the teacher's probabilities are all equal has no correlation and counts 0.
    Each replica of a `tf.distribute` strategy correlates its own rows.

    With two classes `inter` keeps only the sign and has no gradient; it warns
    once. A batch of one row has no `intra`.

    Args:
        beta: Number, at least 0, the weight of `inter`. Defaults to `1.0`.
        gamma: Number, at least 0, the weight of `intra`. Defaults to `1.0`.
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        temperature_squared: Boolean. Whether to multiply by `T^2`, as the
            authors' code does. Defaults to `True`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If an argument is not as described.

    Example:

    >>> import numpy as np
    >>> t = np.log([[0.7, 0.2, 0.1], [0.2, 0.2, 0.6]])
    >>> s = np.log([[0.4, 0.3, 0.3], [0.3, 0.3, 0.4]])
    >>> round(float(DIST(gamma=0.0)(t, s)), 4)
    0.0061

    Reference:
        Huang et al., 2022, https://arxiv.org/abs/2205.10536, eq. 8 to 10.
    """

    relates_rows = True
    with_two_classes = "of each row only the sign is left"

    def __init__(
        self,
        beta=1.0,
        gamma=1.0,
        temperature=1.0,
        temperature_squared=True,
        name="dist",
        **kwargs,
    ):
        super().__init__(temperature, temperature_squared, name=name, **kwargs)
        check_weight("beta", beta)
        check_weight("gamma", gamma)
        self.beta = beta
        self.gamma = gamma

    def __call__(self, y_true, y_pred, sample_weight=None):
        """Returns the reduced loss.

        Args:
            y_true: The teacher's logits `[..., classes]`.
            y_pred: The student's logits, of the same shape.
            sample_weight: Optional tensor of the leading axes of the logits.

        Returns:
            Scalar tensor; of shape `[...]` with `reduction=None`.
        """
        mask = get_mask(y_pred)
        with keras.name_scope(self.name):
            student = ops.convert_to_tensor(y_pred, dtype="float32")
            rows = _row_weights(student, sample_weight, mask)
            values = self.call(y_true, student, rows)
            return reduced(self, values, sample_weight, mask)

    def call(self, y_true, y_pred, row_weights):
        """Returns one value per row; `row_weights` has the leading axes."""
        teacher, student, temperature = self.prepare(y_true, y_pred)
        classes = teacher.shape[-1]
        aligned = divergences.align_temperature(temperature, teacher)
        p = ops.softmax(teacher / aligned, axis=-1)
        q = ops.softmax(student / aligned, axis=-1)
        inter, _ = _distance(p, q, ops.ones_like(p), axis=-1)
        intra, varies = _distance(
            ops.reshape(p, (-1, classes)),
            ops.reshape(q, (-1, classes)),
            ops.reshape(row_weights, (-1, 1)),
            axis=0,
        )
        intra = ops.divide_no_nan(ops.sum(intra), ops.sum(varies))
        value = self.beta * inter + self.gamma * intra
        if not self.temperature_squared:
            return value
        return squared(temperature, student) * value

    def get_config(self):
        return {
            **super().get_config(),
            "beta": self.beta,
            "gamma": self.gamma,
        }


def _row_weights(logits, sample_weight, mask):
    """Returns what each row counts, of the leading axes of `logits`."""
    rows = ops.ones_like(logits[..., 0])
    if mask is not None:
        rows = rows * ops.cast(mask, "float32")
    if sample_weight is None:
        return rows
    weight = ops.convert_to_tensor(sample_weight, dtype="float32")
    if len(weight.shape) == len(logits.shape):
        weight = weight[..., 0]
    return rows * weight


def _distance(p, q, weights, axis):
    """Returns `1 - corr(p, q)` along `axis`, and 1.0 where `p` varies.

    Where `p` does not vary the distance is 0; where only `q` does not, 1.
    """

    def total(values):
        return ops.sum(weights * values, axis=axis, keepdims=True)

    def centre(values):
        mean = ops.divide_no_nan(total(values), total(ops.ones_like(values)))
        return values - mean

    def varies_and_scale(values, centred):
        variance = total(ops.square(centred))
        varies = variance > SMALLEST_VARIATION * total(ops.square(values))
        return varies, ops.rsqrt(ops.where(varies, variance, 1.0))

    p_centred, q_centred = centre(p), centre(q)
    varies, p_scale = varies_and_scale(p, p_centred)
    _, q_scale = varies_and_scale(q, q_centred)
    correlation = total(p_centred * q_centred) * p_scale * q_scale
    distance = ops.where(varies, 1 - correlation, 0.0)
    varies = ops.cast(varies, "float32")
    return ops.squeeze(distance, axis), ops.squeeze(varies, axis)
