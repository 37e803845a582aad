"""Losses between hidden states, of texts or of images."""

import keras
from keras import ops

from keras_distill.losses._feature_loss import NO_MAPS
from keras_distill.losses._feature_loss import FeatureLoss
from keras_distill.losses._feature_loss import check_axes
from keras_distill.losses._feature_loss import check_axis
from keras_distill.losses._feature_loss import check_map
from keras_distill.losses._feature_loss import check_maps
from keras_distill.losses._feature_loss import hide
from keras_distill.losses._feature_loss import positions
from keras_distill.losses._feature_loss import resized_like
from keras_distill.losses._feature_loss import valid_mean

AXES = ("batch", "length", "hidden")


@keras.saving.register_keras_serializable(package="keras_distill")
class HiddenMSE(FeatureLoss):
    """Mean squared error of the hidden states over tokens and width.

    `y_true` is the teacher's state, `y_pred` the student's, both of shape
    `[batch, length, hidden]`, or `[batch, height, width, channels]`, whose
    positions then are the tokens.

    Args:
        resize: Boolean. Whether a teacher's feature map of another height or
            width is brought to the student's. Defaults to `False`.
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: When called with states of different shapes.

    Example:

    >>> import numpy as np
    >>> t, s = np.zeros((1, 2, 3)), np.ones((1, 2, 3))
    >>> s[0, 1] = 5.0
    >>> float(HiddenMSE()(t, s)), float(HiddenMSE()(t, s, mask=[[1, 0]]))
    (13.0, 1.0)

    Reference:
        Jiao et al., 2020, https://arxiv.org/abs/1909.10351, section 3.1.
    """

    def __init__(self, resize=False, name="hidden_mse", **kwargs):
        super().__init__(name=name, **kwargs)
        self.resize = resize
        self.across_lengths = resize

    def compare(self, teacher_state, student_state, mask):
        if self.resize and len(student_state.shape) == 4:
            check_map(teacher_state)
            teacher_state = resized_like(teacher_state, student_state)
        teacher_state, student_state = _pairable(
            teacher_state, student_state, mask
        )
        if mask is not None:
            teacher_state = hide(teacher_state, mask)
            student_state = hide(student_state, mask)
        squares = ops.square(student_state - teacher_state)
        return _token_mean(ops.mean(squares, axis=-1), mask)

    def get_config(self):
        return {**super().get_config(), "resize": self.resize}


@keras.saving.register_keras_serializable(package="keras_distill")
class HiddenCosine(FeatureLoss):
    """Mean over tokens of `1 - cos(teacher, student)`.

    `y_true` is the teacher's state, `y_pred` the student's, both of shape
    `[batch, length, hidden]`, or `[batch, height, width, channels]`, whose
    positions then are the tokens. The cosine with a zero vector is 0.

    Args:
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: When called with states of different shapes.

    Example:

    >>> import numpy as np
    >>> t, s = np.array([[[1.0, 0.0]]]), np.array([[[0.0, 3.0]]])
    >>> float(HiddenCosine()(t, s))
    1.0

    Reference:
        Sanh et al., 2019, https://arxiv.org/abs/1910.01108, section 2.
    """

    def __init__(self, name="hidden_cosine", **kwargs):
        super().__init__(name=name, **kwargs)

    def compare(self, teacher_state, student_state, mask):
        teacher_state, student_state = _pairable(
            teacher_state, student_state, mask
        )
        if mask is not None:
            teacher_state = hide(teacher_state, mask)
            student_state = hide(student_state, mask)
        cosine = ops.sum(_unit(teacher_state) * _unit(student_state), axis=-1)
        return _token_mean(1 - cosine, mask)


@keras.saving.register_keras_serializable(package="keras_distill")
class PatientKD(FeatureLoss):
    """Squared distance of the first tokens' states on the unit sphere.

    `y_true` is the teacher's state, `y_pred` the student's, of shape
    `[batch, length, hidden]`, whose token 0 is taken, or `[batch, hidden]`.
    The lengths may differ. A mask only leaves out the rows that it masks
    entirely. A zero vector stays zero.

    Args:
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: When called with states of different widths.

    Example:

    >>> import numpy as np
    >>> t, s = np.array([[1.0, 0.0]]), np.array([[0.0, 3.0]])
    >>> float(PatientKD()(t, s))
    2.0

    Reference:
        Sun et al., 2019, https://arxiv.org/abs/1908.09355, section 3.2.
    """

    across_lengths = True

    def __init__(self, name="patient_kd", **kwargs):
        super().__init__(name=name, **kwargs)

    def compare(self, teacher_state, student_state, mask):
        del mask  # The base class leaves out the rows without a token.
        teacher, student = _first(teacher_state), _first(student_state)
        check_axis(teacher, student, -1, "width; use a projection")
        distance = ops.square(_unit(student) - _unit(teacher))
        return ops.sum(distance, axis=-1)


@keras.saving.register_keras_serializable(package="keras_distill")
class FlowOfSolution(FeatureLoss):
    """Mean squared error of the `hidden x hidden` Gram matrices of two layers.

    With `x_0` and `x_1` the two states of one model, the Gram matrix is
    `x_0^T x_1 / length`, over the valid tokens. `y_true` is the teacher's pair
    of states, `y_pred` the student's, each of shape `[batch, length, hidden]`,
    or `[batch, height, width, channels]`, whose positions then are the tokens.

    Args:
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: When called without pairs, or with states of different
            shapes.

    Example:

    >>> import numpy as np
    >>> t, s = np.ones((1, 4, 2)), np.ones((1, 4, 2))
    >>> float(FlowOfSolution()((t, t), (s, 3 * s)))
    4.0

    Reference:
        Yim et al., 2017, "A Gift from Knowledge Distillation", eq. 1 and 2.
    """

    pairs = True

    def __init__(self, name="flow_of_solution", **kwargs):
        super().__init__(name=name, **kwargs)

    def compare(self, teacher_state, student_state, mask):
        teacher = _check_two("teacher_state", teacher_state)
        student = _check_two("student_state", student_state)
        pairs = [_pairable(t, s, mask) for t, s in zip(teacher, student)]
        teacher, student = zip(*pairs)
        difference = _flow(student, mask) - _flow(teacher, mask)
        return ops.mean(ops.square(difference), axis=(1, 2))


@keras.saving.register_keras_serializable(package="keras_distill")
class NeuronSelectivity(FeatureLoss):
    """Mean squared error of the `length x length` Gram matrices of two layers.

    With `x_0` and `x_1` the two states of one model, the Gram matrix is
    `x_0 x_1^T / hidden`; a pair of tokens counts where both are valid. Teacher
    and student may differ in width. `y_true` is the teacher's pair of states,
    `y_pred` the student's, each of shape `[batch, length, hidden]`, or
    `[batch, height, width, channels]`, whose positions then are the tokens.
    This is TextBrewer's `mmd_loss` (also called `nst`).

    Args:
        name: Optional name of the loss.
        **kwargs: `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: When called without pairs, with states of different
            lengths, or with a pair of different widths.

    Example:

    >>> import numpy as np
    >>> t, s = np.ones((1, 4, 6)), np.ones((1, 4, 2))
    >>> float(NeuronSelectivity()((t, t), (s, 3 * s)))
    4.0

    Reference:
        Huang and Wang, 2017, https://arxiv.org/abs/1707.01219.
    """

    across_widths = True
    pairs = True

    def __init__(self, name="neuron_selectivity", **kwargs):
        super().__init__(name=name, **kwargs)

    def compare(self, teacher_state, student_state, mask):
        teacher = _check_two("teacher_state", teacher_state)
        student = _check_two("student_state", student_state)
        pairs = [_aligned(t, s, mask) for t, s in zip(teacher, student)]
        teacher, student = zip(*pairs)
        difference = _selectivity(student, mask) - _selectivity(teacher, mask)
        squares = ops.square(difference)
        if mask is None:
            return ops.mean(squares, axis=(1, 2))
        return valid_mean(squares, mask[:, :, None] & mask[:, None, :])


def _aligned(teacher, student, mask):
    """Both states with one axis of positions, as many on either side."""
    check_maps(teacher, student)
    teacher, student = positions(teacher), positions(student)
    check_axes(teacher, mask, AXES)
    check_axes(student, mask, AXES)
    check_axis(teacher, student, 1, "length")
    return teacher, student


def _pairable(teacher, student, mask):
    """As `_aligned`, of one width."""
    teacher, student = _aligned(teacher, student, mask)
    check_axis(teacher, student, -1, "width; use a projection")
    return teacher, student


def _check_two(name, states):
    if not isinstance(states, list | tuple) or len(states) != 2:
        count = len(states) if isinstance(states, list | tuple) else 1
        raise ValueError(
            f"`{name}` must be a pair of states, those of two layers. "
            f"Received: {count} state(s)"
        )
    return states


def _token_mean(values, mask):
    if mask is None:
        return ops.mean(values, axis=-1)
    return valid_mean(values, mask)


def _unit(state):
    """Scales the last axis to norm 1; a zero vector stays zero."""
    squares = ops.sum(ops.square(state), axis=-1, keepdims=True)
    return state * ops.rsqrt(ops.where(squares > 0, squares, 1.0))


def _first(state):
    if len(state.shape) not in (2, 3):
        raise ValueError(
            "A state must have the axes [batch, length, hidden] or "
            f"[batch, hidden]{NO_MAPS if len(state.shape) == 4 else ''}. "
            f"Received: shape={tuple(state.shape)}"
        )
    return state[:, 0] if len(state.shape) == 3 else state


def _flow(pair, mask):
    first, second = pair
    length = ops.cast(ops.shape(first)[1], "float32")
    if mask is not None:
        first, second = hide(first, mask), hide(second, mask)
        length = ops.sum(ops.cast(mask, "float32"), axis=-1)[:, None, None]
    gram = ops.matmul(ops.transpose(first, (0, 2, 1)), second)
    return ops.divide_no_nan(gram, length)


def _selectivity(pair, mask):
    first, second = pair
    check_axis(first, second, -1, "width within a pair")
    if mask is not None:
        first, second = hide(first, mask), hide(second, mask)
    gram = ops.matmul(first, ops.transpose(second, (0, 2, 1)))
    return gram / ops.cast(ops.shape(second)[2], "float32")
