"""Losses that weigh each row's soft labels by how hard its label is."""

import keras
from keras import ops

from keras_distill.losses._labelled_loss import LabelledLoss
from keras_distill.losses._labelled_loss import squared_kl

SMALLEST_CROSS_ENTROPY = 1e-7


@keras.saving.register_keras_serializable(package="keras_distill")
class WSLD(LabelledLoss):
    """Weighted soft labels: `(1 - exp(-CE_s / CE_t)) T^2 KL(t || s)`.

    `CE_s` and `CE_t` are the student's and the teacher's cross-entropies with
    the hard label, at temperature 1. A row where the student does better than
    the teacher counts little. No gradient flows through the weight, so the
    KL has the gradient of the cross-entropy that the authors' code uses, and
    is 0 where the two agree. `y_true` are the teacher's logits, `y_pred` the
    student's, of shape `[..., classes]`; `labels` come from the Distiller.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `2.0`.
        unlabelled: `"kl"`: a row without a label has the weight 1.
            `"teacher"`: the teacher's most likely class is its label.
            Defaults to `"kl"`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If an argument is not as described; when called without
            `labels`.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    >>> round(float(WSLD(temperature=1.0)(t, s, labels=[0])), 4)
    0.1244

    Reference:
        Zhou et al., 2021, https://arxiv.org/abs/2102.00650, eq. 9.
    """

    def __init__(self, temperature=2.0, unlabelled="kl", name="wsld", **kwargs):
        super().__init__(temperature, unlabelled, name=name, **kwargs)

    def compare(self, teacher_logits, student_logits, temperature, target):
        of_student = _cross_entropy(student_logits, target)
        of_teacher = _cross_entropy(teacher_logits, target)
        ratio = of_student / (of_teacher + SMALLEST_CROSS_ENTROPY)
        weight = ops.stop_gradient(1 - ops.exp(-ratio))
        return weight * squared_kl(teacher_logits, student_logits, temperature)


def _cross_entropy(logits, target):
    log_p = ops.log_softmax(logits, axis=-1)
    return -ops.sum(ops.where(target, log_p, 0.0), axis=-1)
