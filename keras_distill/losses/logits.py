"""Losses between the distributions that two sets of logits stand for."""

import keras

from keras_distill import divergences
from keras_distill._checks import check_between
from keras_distill._checks import check_choice
from keras_distill.losses.logits_loss import LogitsLoss


@keras.saving.register_keras_serializable(package="keras_distill")
class ForwardKL(LogitsLoss):
    """`T^2 KL(teacher || student)` at temperature `T`.

    `T^2` keeps the gradient's size independent of `T`. `y_true` are the
    teacher's logits, `y_pred` the student's, of shape `[..., classes]`.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `4.0`.
        temperature_squared: Boolean. Whether to multiply by `T^2`. Defaults
            to `True`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    >>> round(float(ForwardKL(temperature=1.0)(t, s)), 4)
    0.1438

    Reference:
        Hinton et al., 2015, https://arxiv.org/abs/1503.02531, section 2.
    """

    divergence = staticmethod(divergences.forward_kl)

    def __init__(
        self,
        temperature=4.0,
        temperature_squared=True,
        name="forward_kl",
        **kwargs,
    ):
        super().__init__(temperature, temperature_squared, name=name, **kwargs)


@keras.saving.register_keras_serializable(package="keras_distill")
class ReverseKL(LogitsLoss):
    """`T^2 KL(student || teacher)` at temperature `T`.

    `y_true` are the teacher's logits, `y_pred` the student's, of shape
    `[..., classes]`.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `4.0`.
        temperature_squared: Boolean. Whether to multiply by `T^2`. Defaults
            to `True`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    >>> round(float(ReverseKL(temperature=1.0)(t, s)), 4)
    0.1308

    Reference:
        Gu et al., 2023, https://arxiv.org/abs/2306.08543, section 2.1.
    """

    divergence = staticmethod(divergences.reverse_kl)

    def __init__(
        self,
        temperature=4.0,
        temperature_squared=True,
        name="reverse_kl",
        **kwargs,
    ):
        super().__init__(temperature, temperature_squared, name=name, **kwargs)


@keras.saving.register_keras_serializable(package="keras_distill")
class SoftCrossEntropy(LogitsLoss):
    """`-T^2 sum_c softmax(teacher / T)_c log softmax(student / T)_c`.

    `y_true` are the teacher's logits, `y_pred` the student's, of shape
    `[..., classes]`. `temperature_squared=False` is TextBrewer's `kd_ce_loss`.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        temperature_squared: Boolean. Whether to multiply by `T^2`. Defaults
            to `True`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    >>> round(float(SoftCrossEntropy()(t, s)), 4)
    0.837

    Reference:
        Hinton et al., 2015, https://arxiv.org/abs/1503.02531, section 2.
    """

    divergence = staticmethod(divergences.soft_cross_entropy)

    def __init__(
        self,
        temperature=1.0,
        temperature_squared=True,
        name="soft_cross_entropy",
        **kwargs,
    ):
        super().__init__(temperature, temperature_squared, name=name, **kwargs)


@keras.saving.register_keras_serializable(package="keras_distill")
class BinaryKL(LogitsLoss):
    """`T^2 KL(teacher || student)` of each label on its own, their mean.

    For students with several labels (sigmoid outputs). `y_true` are the
    teacher's logits, `y_pred` the student's, of shape `[..., labels]`.

    Args:
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        temperature_squared: Boolean. Whether to multiply by `T^2`. Defaults
            to `True`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[1.0]]), np.log([[1 / 3]])  # 1 / 2 and 1 / 4
    >>> round(float(BinaryKL()(t, s)), 4)
    0.1438

    Reference:
        Yang et al., 2023, https://arxiv.org/abs/2308.06453, whose logits loss
        is the sum over labels.
    """

    over = "labels"
    divergence = staticmethod(divergences.binary_kl)

    def __init__(
        self,
        temperature=1.0,
        temperature_squared=True,
        name="binary_kl",
        **kwargs,
    ):
        super().__init__(temperature, temperature_squared, name=name, **kwargs)


@keras.saving.register_keras_serializable(package="keras_distill")
class GeneralizedJSD(LogitsLoss):
    """Generalised Jensen-Shannon divergence at temperature `T`, without `T^2`.

    `y_true` are the teacher's logits, `y_pred` the student's, of shape
    `[..., classes]`. `beta=0` is `KL(teacher || student)`, `beta=1` is
    `KL(student || teacher)`.

    Args:
        beta: Float between 0 and 1, the teacher's share of the mixture.
            Defaults to `0.5`.
        temperature: `T > 0`: a number, a `keras.Variable`, an array of the
            leading axes of the logits, or a rule such as
            `keras_distill.temperatures.FLSW()`. Defaults to `1.0`.
        normalize: Boolean. Whether to divide by `beta (1 - beta)`, which makes
            the value continuous in `beta`. Defaults to `False`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: If `beta` is not between 0 and 1 or `temperature` is not
            positive.

    Example:

    >>> import numpy as np
    >>> t, s = np.log([[0.7, 0.2, 0.1]]), np.log([[0.4, 0.4, 0.2]])
    >>> round(float(GeneralizedJSD(beta=0.5)(t, s)), 4)
    0.0462

    Reference:
        Agarwal et al., 2024, https://arxiv.org/abs/2306.13649, section 2.
    """

    def __init__(
        self,
        beta=0.5,
        temperature=1.0,
        normalize=False,
        name="generalized_jsd",
        **kwargs,
    ):
        super().__init__(temperature, name=name, **kwargs)
        check_between("beta", beta, 0, 1)
        check_choice("normalize", normalize, (True, False))
        self.beta = beta
        self.normalize = normalize

    def compare(self, teacher_logits, student_logits, temperature):
        return divergences.generalized_jsd(
            teacher_logits,
            student_logits,
            self.beta,
            temperature,
            self.normalize,
        )

    def get_config(self):
        return {
            **super().get_config(),
            "beta": self.beta,
            "normalize": self.normalize,
        }
