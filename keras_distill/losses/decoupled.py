"""Losses that treat the true class and the other classes apart."""

import math

import keras
from keras import ops

from keras_distill import divergences
from keras_distill._checks import check_weight
from keras_distill.divergences._distributions import squared
from keras_distill.losses._labelled_loss import LabelledLoss


@keras.saving.register_keras_serializable(package="keras_distill")
class DKD(LabelledLoss):
    """Decoupled distillation: `T^2 (alpha TCKD + beta NCKD)`.

    TCKD is the KL divergence between teacher and student of "the true class
    or another"; NCKD is that of the distributions over the other classes
    alone. The plain KL is `TCKD + (1 - p) NCKD` with `p` the teacher's
    probability of the true class: DKD frees NCKD of the weight that a sure
    teacher makes small. `y_true` are the teacher's logits, `y_pred` the
    student's, of shape `[..., classes]`; `labels` come from the Distiller.

    With two classes NCKD is 0, and the loss is `alpha` times the plain KL; it
    warns once. The authors raise the weight over the first epochs:
    `kd.callbacks.AnnealWeight("soft", ...)`.

    Args:
        alpha: Number, at least 0, the weight of TCKD. Defaults to `1.0`.
        beta: Number, at least 0, the weight of NCKD. Defaults to `8.0`.
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `4.0`.
        unlabelled: `"kl"`: a row without a label gets the plain
            `T^2 KL(teacher || student)`. `"teacher"`: the teacher's most
            likely class is its label. Defaults to `"kl"`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If an argument is not as described; when called without
            `labels`.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.6, 0.3, 0.1]]), np.log([[0.5, 0.25, 0.25]])
    >>> loss = DKD(temperature=1.0)
    >>> round(float(loss(t, s, labels=[0])), 4)  # TCKD .0201, NCKD .1308
    1.0666

    Reference:
        Zhao et al., 2022, https://arxiv.org/abs/2203.08679, eq. 7.
    """

    with_two_classes = "only one other class is left, NCKD is 0"

    def __init__(
        self,
        alpha=1.0,
        beta=8.0,
        temperature=4.0,
        unlabelled="kl",
        name="dkd",
        **kwargs,
    ):
        super().__init__(temperature, unlabelled, name=name, **kwargs)
        check_weight("alpha", alpha)
        check_weight("beta", beta)
        self.alpha = alpha
        self.beta = beta

    def compare(self, teacher_logits, student_logits, temperature, target):
        aligned = divergences.align_temperature(temperature, student_logits)
        teacher, student = teacher_logits / aligned, student_logits / aligned
        tckd = divergences.forward_kl(
            _target_or_not(teacher, target), _target_or_not(student, target)
        )
        nckd = _of_others(divergences.forward_kl, teacher, student, target)
        value = self.alpha * tckd + self.beta * nckd
        return squared(temperature, student_logits) * value

    def get_config(self):
        return {
            **super().get_config(),
            "alpha": self.alpha,
            "beta": self.beta,
        }


@keras.saving.register_keras_serializable(package="keras_distill")
class NKD(LabelledLoss):
    """Normalised distillation: soft target term plus the other classes.

    With `y` the true class, `p` and `q` the teacher's and the student's
    distributions at temperature 1, and `p'`, `q'` those over the other classes
    alone at temperature `T`, the value is
    `-p_y log q_y - gamma T^2 sum_{c != y} p'_c log q'_c`. `y_true` are the
    teacher's logits, `y_pred` the student's, of shape `[..., classes]`;
    `labels` come from the Distiller.

    It is not 0 where the two agree: the second term then is the entropy of
    `p'`, its minimum, while the first goes on pulling `q_y` towards 1. With
    two classes the second term is 0; it warns once.

    Args:
        gamma: Number, at least 0, the weight of the other classes. Defaults
            to `1.5`.
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        unlabelled: `"kl"`: a row without a label gets the plain
            `T^2 KL(teacher || student)`. `"teacher"`: the teacher's most
            likely class is its label. Defaults to `"kl"`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If an argument is not as described; when called without
            `labels`.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.5, 0.25, 0.25]]), np.log([[0.25, 0.5, 0.25]])
    >>> round(float(NKD(gamma=0.0)(t, s, labels=[0])), 4)  # -log(1 / 4) / 2
    0.6931

    Reference:
        Yang et al., 2023, https://arxiv.org/abs/2303.13005, eq. 8.
    """

    with_two_classes = "only one other class is left, its term is 0"

    def __init__(
        self,
        gamma=1.5,
        temperature=1.0,
        unlabelled="kl",
        name="nkd",
        **kwargs,
    ):
        super().__init__(temperature, unlabelled, name=name, **kwargs)
        check_weight("gamma", gamma)
        self.gamma = gamma

    def compare(self, teacher_logits, student_logits, temperature, target):
        p = ops.where(target, ops.softmax(teacher_logits, axis=-1), 0.0)
        log_q = ops.log_softmax(student_logits, axis=-1)
        of_target = -ops.sum(p * ops.where(p > 0, log_q, 0.0), axis=-1)
        aligned = divergences.align_temperature(temperature, student_logits)
        of_others = _of_others(
            divergences.soft_cross_entropy,
            teacher_logits / aligned,
            student_logits / aligned,
            target,
        )
        scale = self.gamma * squared(temperature, student_logits)
        return of_target + scale * of_others

    def get_config(self):
        return {**super().get_config(), "gamma": self.gamma}


def _target_or_not(logits, target):
    """Returns the log-probabilities `[..., 2]` of the target and of not it."""
    log_p = ops.log_softmax(logits, axis=-1)
    yes = ops.sum(ops.where(target, log_p, 0.0), axis=-1)
    no = ops.logsumexp(ops.where(target, -math.inf, log_p), axis=-1)
    return ops.stack([yes, no], axis=-1)


def _of_others(divergence, teacher, student, target):
    """Returns `divergence` over the classes that are not the target.

    It is 0 where the teacher's logits rule all of them out.
    """
    teacher = ops.where(target, -math.inf, teacher)
    possible = ops.any(teacher > -math.inf, axis=-1)
    teacher = ops.where(possible[..., None], teacher, 0.0)
    student = ops.where(target, -math.inf, student)
    return ops.where(possible, divergence(teacher, student), 0.0)
