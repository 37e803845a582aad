"""Losses proposed for the tokens of a sequence, without `T^2`."""

import keras

from keras_distill import divergences
from keras_distill._checks import check_between
from keras_distill._checks import check_finite
from keras_distill._checks import check_fraction
from keras_distill.losses.logits_loss import LogitsLoss


@keras.saving.register_keras_serializable(package="keras_distill")
class SkewKL(LogitsLoss):
    """`KL(teacher || alpha teacher + (1 - alpha) student)` at temperature `T`.

    `y_true` are the teacher's logits, `y_pred` the student's, of shape
    `[..., classes]`.

    Args:
        alpha: Float of at least 0 and less than 1, the teacher's share of the
            mixture. Defaults to `0.1`.
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `alpha` is out of range or `temperature` not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(SkewKL()(t, s)), 4)
    0.1486

    Reference:
        Ko et al., 2024, https://arxiv.org/abs/2402.03898, section 3.1.
    """

    def __init__(self, alpha=0.1, temperature=1.0, name="skew_kl", **kwargs):
        super().__init__(temperature, name=name, **kwargs)
        check_fraction("alpha", alpha)
        self.alpha = alpha

    def compare(self, teacher_logits, student_logits, temperature):
        return divergences.skew_kl(
            teacher_logits, student_logits, self.alpha, temperature
        )

    def get_config(self):
        return {**super().get_config(), "alpha": self.alpha}


@keras.saving.register_keras_serializable(package="keras_distill")
class SkewReverseKL(LogitsLoss):
    """`KL(student || alpha student + (1 - alpha) teacher)` at temperature `T`.

    `y_true` are the teacher's logits, `y_pred` the student's, of shape
    `[..., classes]`.

    Args:
        alpha: Float of at least 0 and less than 1, the student's share of the
            mixture. Defaults to `0.1`.
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `alpha` is out of range or `temperature` not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(SkewReverseKL()(t, s)), 4)
    0.1524

    Reference:
        Ko et al., 2024, https://arxiv.org/abs/2402.03898, section 3.1.
    """

    def __init__(
        self, alpha=0.1, temperature=1.0, name="skew_reverse_kl", **kwargs
    ):
        super().__init__(temperature, name=name, **kwargs)
        check_fraction("alpha", alpha)
        self.alpha = alpha

    def compare(self, teacher_logits, student_logits, temperature):
        return divergences.skew_reverse_kl(
            teacher_logits, student_logits, self.alpha, temperature
        )

    def get_config(self):
        return {**super().get_config(), "alpha": self.alpha}


@keras.saving.register_keras_serializable(package="keras_distill")
class AdaptiveKL(LogitsLoss):
    """Forward KL for the teacher's head, reverse KL for its tail.

    The two are weighted by where teacher and student differ, see
    `keras_distill.divergences.adaptive_kl`. `y_true` are the teacher's logits,
    `y_pred` the student's, of shape `[..., classes]`.

    Args:
        mu: Float between 0 and 1, the teacher's probability in the head.
            Defaults to `0.5`.
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `mu` is out of range or `temperature` not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(AdaptiveKL()(t, s)), 4)
    0.1879

    Reference:
        Wu et al., 2024, https://arxiv.org/abs/2404.02657, section 4.
    """

    def __init__(self, mu=0.5, temperature=1.0, name="adaptive_kl", **kwargs):
        super().__init__(temperature, name=name, **kwargs)
        check_between("mu", mu, 0, 1)
        self.mu = mu

    def compare(self, teacher_logits, student_logits, temperature):
        return divergences.adaptive_kl(
            teacher_logits, student_logits, self.mu, temperature
        )

    def get_config(self):
        return {**super().get_config(), "mu": self.mu}


@keras.saving.register_keras_serializable(package="keras_distill")
class AlphaBeta(LogitsLoss):
    """Alpha-beta divergence at temperature `T`.

    See `keras_distill.divergences.alpha_beta` for the formula and its special
    cases. `y_true` are the teacher's logits, `y_pred` the student's, of shape
    `[..., classes]`.

    Args:
        alpha: Float, the power of the teacher's probabilities. Defaults to
            `0.2`.
        beta: Float, the power of the student's probabilities. Defaults to
            `0.7`.
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `alpha` or `beta` is not finite or `temperature` not
            positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(AlphaBeta(0.5, 0.5)(t, s)), 4)
    0.1863

    Reference:
        Wang et al., 2025, https://arxiv.org/abs/2505.04560, section 3.
    """

    def __init__(
        self, alpha=0.2, beta=0.7, temperature=1.0, name="alpha_beta", **kwargs
    ):
        super().__init__(temperature, name=name, **kwargs)
        check_finite("alpha", alpha)
        check_finite("beta", beta)
        self.alpha = alpha
        self.beta = beta

    def compare(self, teacher_logits, student_logits, temperature):
        return divergences.alpha_beta(
            teacher_logits, student_logits, self.alpha, self.beta, temperature
        )

    def get_config(self):
        return {
            **super().get_config(),
            "alpha": self.alpha,
            "beta": self.beta,
        }


@keras.saving.register_keras_serializable(package="keras_distill")
class TotalVariation(LogitsLoss):
    """Half the sum of the differences in probability, at temperature `T`.

    `y_true` are the teacher's logits, `y_pred` the student's, of shape
    `[..., classes]`.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(TotalVariation()(t, s)), 4)
    0.3

    Reference:
        Wen et al., 2023, https://arxiv.org/abs/2307.15190, section 3.
    """

    divergence = staticmethod(divergences.total_variation)

    def __init__(self, temperature=1.0, name="total_variation", **kwargs):
        super().__init__(temperature, name=name, **kwargs)
