"""The base of the losses on features: masks, weights and the reduction."""

import keras
from keras import ops

from keras_distill._replicas import over_replicas
from keras_distill.losses._reduction import reduced
from keras_distill.losses._reduction import share_of_mean

NO_MAPS = (
    ". A feature map of images has no first token and no heads: use "
    "`HiddenMSE`, `HiddenCosine`, `FlowOfSolution`, `NeuronSelectivity` or "
    "`RKDDistance`, or pool it to [batch, channels]"
)


class FeatureLoss(keras.losses.Loss):
    """Base of the losses between a teacher's and a student's layer.

    `y_true` is the teacher's state, which gets no gradient, `y_pred` the
    student's; some losses take a pair of states on either side. A subclass
    implements `compare(teacher_state, student_state, mask)`, which gets float32
    tensors and a boolean mask or None, and returns values of shape `[batch]`.

    A mean over the valid tokens of a batch is spread over its rows so that the
    mean over the rows that have a valid token is that mean: a row without any
    is left out, a batch without any gives 0. A row of weight 0 counts no
    tokens. Replicas of a `tf.distribute` strategy count the tokens of all of
    them.

    Attributes:
        across_widths: Whether the two sides may differ in their last axis.
        across_lengths: Whether they may differ in their length.
        pairs: Whether each side is a pair of states, those of two layers.

    Args:
        **kwargs: `name`, `reduction`, `dtype` of `keras.losses.Loss`.
    """

    across_widths = False
    across_lengths = False
    pairs = False

    def __call__(self, y_true, y_pred, sample_weight=None, mask=None):
        """Returns the reduced loss.

        Args:
            y_true: The teacher's state, or pair of states.
            y_pred: The student's state, or pair of states.
            sample_weight: Optional tensor of shape `[batch]`.
            mask: Optional tensor of shape `[batch, length]`, true or 1 where a
                token counts.

        Returns:
            Scalar tensor; of shape `[batch]` with `reduction=None`.
        """
        counted, rows = None, None
        if mask is not None:
            counted = _as_mask(mask)
            rows = ops.any(counted, axis=-1)
        if sample_weight is not None:
            sample_weight = ops.convert_to_tensor(sample_weight, self.dtype)
            _check_weight(sample_weight)
        if mask is not None and sample_weight is not None:
            weighted = ops.reshape(ops.not_equal(sample_weight, 0), (-1, 1))
            counted = ops.logical_and(counted, weighted)
        with keras.name_scope(self.name):
            values = self.call(y_true, y_pred, mask=counted)
            value = reduced(self, values, sample_weight, rows)
            return value * share_of_mean(self, sample_weight, rows)

    def call(self, teacher_state, student_state, mask=None):
        """Returns one value per example.

        Args:
            teacher_state: Tensor, or pair of tensors.
            student_state: Tensor, or pair of tensors.
            mask: Optional tensor of shape `[batch, length]`, true or 1 where a
                token counts.

        Returns:
            Float32 tensor of shape `[batch]`; 0 for a row that counts no token.
        """
        teacher_state = keras.tree.map_structure(_float32, teacher_state)
        student_state = keras.tree.map_structure(_float32, student_state)
        teacher_state = keras.tree.map_structure(
            ops.stop_gradient, teacher_state
        )
        if mask is None:
            return self.compare(teacher_state, student_state, None)
        mask = _as_mask(mask)
        values = self.compare(teacher_state, student_state, mask)
        return ops.where(ops.any(mask, axis=-1), values, 0.0)

    def compare(self, teacher_state, student_state, mask):
        """Returns values of shape `[batch]` from float32 tensors."""
        raise NotImplementedError

    def get_config(self):
        return {**super().get_config(), "dtype": self.dtype}


def hide(state, mask):
    """Sets the states `[batch, length, hidden]` of masked tokens to 0."""
    return ops.where(mask[:, :, None], state, 0.0)


def valid_mean(values, valid):
    """Spreads the mean of the valid values over the rows.

    Args:
        values: Tensor of shape `[batch, ...]`.
        valid: Boolean tensor of the same shape.

    Returns:
        Tensor of shape `[batch]`. Its mean over the rows with a valid value is
        the mean of all valid values.
    """
    valid = ops.cast(valid, values.dtype)
    axes = tuple(range(1, len(values.shape)))
    sums = ops.sum(values * valid, axis=axes)
    counts = ops.sum(valid, axis=axes)
    rows = over_replicas(ops.sum(ops.cast(counts > 0, values.dtype)))
    total = over_replicas(ops.sum(counts))
    return sums * ops.divide_no_nan(rows, total)


def positions(state):
    """A feature map of images as `[batch, height * width, channels]`.

    Any state that has not the four axes `[batch, height, width, channels]`
    stays as it is.
    """
    if len(state.shape) != 4:
        return state
    _, height, width, channels = ops.shape(state)
    return ops.reshape(state, (-1, height * width, channels))


def resized_like(teacher, student):
    """A feature map `[batch, height, width, channels]` in another's size.

    Bilinear, and smoothed before where it shrinks, so that no position of the
    larger one is passed over.
    """
    size = tuple(student.shape[1:3])
    if tuple(teacher.shape[1:3]) == size:
        return teacher
    return ops.image.resize(
        teacher, size, antialias=True, data_format="channels_last"
    )


def check_map(state):
    """Raises `ValueError` unless a state is a feature map of images."""
    if len(state.shape) != 4:
        raise ValueError(
            "A feature map must have the axes [batch, height, width, "
            f"channels]. Received: shape={tuple(state.shape)}"
        )


def check_maps(teacher, student):
    """Raises `ValueError` if feature maps of images are not of one size."""
    if len(teacher.shape) == len(student.shape) == 4:
        advice = "resize one of them, or use `HiddenMSE(resize=True)`"
        check_axis(teacher, student, 1, f"height; {advice}")
        check_axis(teacher, student, 2, f"width of images; {advice}")


def check_axes(state, mask, axes):
    """Raises `ValueError` unless `state` has `axes` and fits `mask`."""
    shape = tuple(state.shape)
    if len(shape) != len(axes):
        raise ValueError(
            f"A state must have the axes [{', '.join(axes)}]"
            f"{NO_MAPS if len(shape) == 4 else ''}. Received: shape={shape}"
        )
    if mask is not None and _differ(mask.shape[1], shape[-2]):
        raise ValueError(
            f"`mask` must have the length of the states, {shape[-2]}. "
            f"Received: mask.shape={tuple(mask.shape)}"
        )


def check_axis(teacher, student, axis, problem):
    """Raises `ValueError` with `problem` where the sizes of `axis` differ."""
    if _differ(teacher.shape[axis], student.shape[axis]):
        raise ValueError(
            f"Teacher and student must have the same {problem}. Received: "
            f"teacher shape {tuple(teacher.shape)}, "
            f"student shape {tuple(student.shape)}"
        )


def _differ(m, n):
    return None not in (m, n) and m != n


def _float32(state):
    return ops.convert_to_tensor(state, dtype="float32")


def _as_mask(mask):
    mask = ops.cast(ops.convert_to_tensor(mask), "bool")
    if len(mask.shape) != 2:
        raise ValueError(
            "`mask` must have the axes [batch, length]. "
            f"Received: mask.shape={tuple(mask.shape)}"
        )
    return mask


def _check_weight(sample_weight):
    shape = tuple(sample_weight.shape)
    if len(shape) > 2 or (len(shape) == 2 and shape[1] != 1):
        raise ValueError(
            "`sample_weight` must have the shape [batch]; use `mask` for "
            f"tokens. Received: sample_weight.shape={shape}"
        )
