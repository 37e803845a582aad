"""The loss of Continuation-KD: `AnnealedMSE` with a margin."""

import keras
from keras import ops

from keras_distill._checks import check_weight
from keras_distill.losses.logits_mse import AnnealedMSE


@keras.saving.register_keras_serializable(package="keras_distill")
class ContinuationMSE(AnnealedMSE):
    """`max(0, ||student - phi(T) teacher||^2 - margin phi(T))`.

    As in `AnnealedMSE`, `phi(T) = 1 - (T - 1) / max_temperature`, and
    `temperature` is lowered from `max_temperature` to 1. A row within the
    margin, which grows with `phi`, costs nothing and has no gradient, so that
    the student need not follow the teacher's noise. `margin=0` is
    `AnnealedMSE`. `y_true` are the teacher's logits, `y_pred` the student's,
    of shape `[..., classes]`; the squares are summed over classes.

    `kd.callbacks.continuation_kd` moves the temperature and the weights.

    Args:
        max_temperature: Number, at least 1. Defaults to `7`.
        margin: Number, at least 0, in squared logits. The paper names no
            value; the squared distance of two trainings of the teacher is a
            measure of the noise. Defaults to `0.1`.
        temperature: Between 1 and `max_temperature`: a number, a
            `keras.Variable`, an array of the leading axes of the logits, or a
            rule. Defaults to `max_temperature`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `margin` is negative, `max_temperature` is below 1 or
            `temperature` is not between 1 and `max_temperature`.

    Example:

    >>> import numpy as np
    >>> t, s = np.array([[4.0, 8.0]]), np.array([[1.0, 1.0]])
    >>> loss = ContinuationMSE(max_temperature=4, margin=2.0)
    >>> float(loss(t, s))  # phi = 1 / 4: 0 + 1 - 2 / 4
    0.5

    Reference:
        Jafari et al., 2022, https://arxiv.org/abs/2212.05998, eq. 4.
    """

    def __init__(
        self,
        max_temperature=7,
        margin=0.1,
        temperature=None,
        name="continuation_mse",
        **kwargs,
    ):
        super().__init__(max_temperature, temperature, name=name, **kwargs)
        check_weight("margin", margin)
        self.margin = margin

    def compare(self, teacher_logits, student_logits, temperature):
        square = super().compare(teacher_logits, student_logits, temperature)
        phi = self.phi(temperature, student_logits)[..., 0]
        return ops.maximum(square - self.margin * phi, 0.0)

    def get_config(self):
        return {**super().get_config(), "margin": self.margin}
