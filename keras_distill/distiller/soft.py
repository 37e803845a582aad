"""The soft losses of a Distiller, one for each output that has one."""

import copy

import keras

from keras_distill import losses
from keras_distill._checks import check_same_shape

SINGLE = "soft"
SOFTMAX_LOSSES = (
    losses.ForwardKL,
    losses.ReverseKL,
    losses.GeneralizedJSD,
    losses.SoftCrossEntropy,
)


class _KerasDistillation(keras.losses.Loss):
    """A `keras.distillation` loss behind the interface of a Keras loss."""

    def __init__(self, wrapped):
        super().__init__(name=type(wrapped).__name__)
        self.wrapped = wrapped

    def __call__(self, y_true, y_pred, sample_weight=None):
        if sample_weight is not None:
            raise ValueError(
                "The losses of `keras.distillation` take no `sample_weight`. "
                "Use a loss of `kd.losses` instead of "
                f"{type(self.wrapped).__name__}"
            )
        return self.wrapped.compute_loss(y_true, y_pred)


def _as_loss(name, loss):
    if isinstance(loss, keras.losses.Loss):
        return copy.copy(loss)
    if isinstance(loss, keras.distillation.DistillationLoss):
        return _KerasDistillation(loss)
    raise ValueError(
        f"`soft_loss` of output {name!r} must be an instance of a loss, such "
        f"as `kd.losses.ForwardKL(4.0)`, or None. Received: {loss!r}"
    )


def named_losses(soft_loss):
    """Turns what `compile` takes into a dict, output key to loss.

    Args:
        soft_loss: A loss, a dict or a list of losses, or None. `None` in a
            dict or list leaves that output out.
    """
    if soft_loss is None:
        return {}
    if isinstance(soft_loss, dict):
        items = soft_loss.items()
    elif isinstance(soft_loss, (list, tuple)):
        items = enumerate(soft_loss)
    else:
        items = [(SINGLE, soft_loss)]
    return {key: _as_loss(key, loss) for key, loss in items if loss is not None}


def pick(structure, key, what):
    """The entry of `structure` that the soft loss under `key` is about."""
    nested = isinstance(structure, (dict, list, tuple))
    if key == SINGLE and not (nested and key in structure):
        if not nested:
            return structure
        leaves = keras.tree.flatten(structure)
        if len(leaves) == 1:
            return leaves[0]
        raise ValueError(
            f"{what} has {len(leaves)} outputs: `soft_loss` must be a dict or "
            "a list like them, with None for outputs without a soft loss"
        )
    present = (
        key in structure
        if isinstance(structure, dict)
        else nested and isinstance(key, int) and key < len(structure)
    )
    if not present:
        names = sorted(structure) if isinstance(structure, dict) else structure
        raise ValueError(
            f"`soft_loss` names output {key!r}, which {what} does not have. "
            f"Its outputs: {names}"
        )
    return structure[key]


def check_outputs(named, teacher_outputs, student_outputs):
    """Raises `ValueError` where a soft loss cannot compare the outputs."""
    for key, loss in named.items():
        teacher = pick(teacher_outputs, key, "the teacher")
        student = pick(student_outputs, key, "the student")
        check_same_shape(
            f"teacher's output {key!r}",
            teacher,
            f"student's output {key!r}",
            student,
        )
        if isinstance(loss, SOFTMAX_LOSSES) and student.shape[-1] == 1:
            raise ValueError(
                f"`{type(loss).__name__}` compares distributions over classes, "
                f"output {key!r} has one unit, whose softmax is constant. Use "
                "`kd.losses.BinaryKL` or `kd.losses.LogitsMSE`"
            )


def soft_value(named, teacher_outputs, student_outputs, sample_weight):
    """Sum of the soft losses over the outputs that have one."""
    total = 0.0
    for key, loss in named.items():
        weight = sample_weight
        if isinstance(weight, (dict, list, tuple)):
            weight = pick(weight, key, "`sample_weight`")
        total += loss(
            pick(teacher_outputs, key, "the teacher"),
            pick(student_outputs, key, "the student"),
            sample_weight=weight,
        )
    return total
