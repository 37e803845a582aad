"""The base of the losses on logits that also need the hard labels."""

import keras
from keras import ops

from keras_distill import divergences
from keras_distill._backend import get_mask
from keras_distill._checks import check_choice
from keras_distill.divergences._distributions import squared
from keras_distill.losses._reduction import reduced
from keras_distill.losses.logits_loss import LogitsLoss


class LabelledLoss(LogitsLoss):
    """Base of the losses on logits that treat the true class apart.

    A subclass implements `compare(teacher_logits, student_logits,
    temperature, target)`.

    Args:
        temperature: As in `LogitsLoss`.
        unlabelled: What rows without a label get: `"kl"`, plain
            `T^2 KL(teacher || student)`, or `"teacher"`, where the teacher's
            most likely class stands in for the label.
        **kwargs: `name`, `reduction`, `dtype` of `keras.losses.Loss`.
    """

    needs_labels = True

    def __init__(self, temperature, unlabelled, **kwargs):
        super().__init__(temperature, **kwargs)
        check_choice("unlabelled", unlabelled, ("kl", "teacher"))
        self.unlabelled = unlabelled

    def __call__(self, y_true, y_pred, sample_weight=None, labels=None):
        """Returns the reduced loss.

        Args:
            y_true: The teacher's logits `[..., classes]`.
            y_pred: The student's logits, of the same shape.
            sample_weight: Optional tensor of the leading axes of the logits.
            labels: Integers `[...]` or `[..., 1]`, or one-hot rows
                `[..., classes]`. An integer that is no class, such as -1, and
                a row of zeros mean that there is no label.

        Returns:
            Scalar tensor; of shape `[...]` with `reduction=None`.

        Raises:
            ValueError: If `labels` is missing or does not fit the logits.
        """
        if labels is None:
            raise ValueError(
                f"`{type(self).__name__}` needs the hard labels: pass "
                "`labels=...`, or (x, y) batches to a Distiller; -1 stands "
                "for no label. Received: labels=None"
            )
        mask = get_mask(y_pred)
        with keras.name_scope(self.name):
            values = self.call(y_true, y_pred, labels)
            return reduced(self, values, sample_weight, mask)

    def call(self, y_true, y_pred, labels):
        """Returns one value per row."""
        teacher, student, temperature = self.prepare(y_true, y_pred)
        target, labelled = find_target(labels, teacher)
        values = self.compare(teacher, student, temperature, target)
        if self.unlabelled == "teacher":
            return values
        plain = squared_kl(teacher, student, temperature)
        return ops.where(labelled, values, plain)

    def compare(self, teacher_logits, student_logits, temperature, target):
        """Returns one value per row.

        Args:
            teacher_logits: Float32 tensor of shape `[..., classes]`.
            student_logits: Float32 tensor of the same shape.
            temperature: As in the constructor, but never a rule.
            target: Boolean tensor of the shape of the logits, true at the
                label of each row.
        """
        raise NotImplementedError

    def get_config(self):
        return {**super().get_config(), "unlabelled": self.unlabelled}


def squared_kl(teacher_logits, student_logits, temperature):
    """Returns `T^2 KL(teacher || student)`."""
    kl = divergences.forward_kl(teacher_logits, student_logits, temperature)
    return squared(temperature, student_logits) * kl


def find_target(labels, logits):
    """Returns where the label of each row is, and which rows have one.

    Args:
        labels: As in `LabelledLoss.__call__`.
        logits: Tensor of shape `[..., classes]`, whose largest class stands
            in for a missing label.

    Returns:
        Boolean tensors of the shapes `[..., classes]` and `[...]`.

    Raises:
        ValueError: If `labels` do not fit.
    """
    classes = logits.shape[-1]
    labels = ops.convert_to_tensor(labels)
    given, rank = tuple(labels.shape), len(logits.shape)
    if len(given) == rank and given[-1] == classes:
        labelled = ops.any(ops.greater(labels, 0), axis=-1)
        labels = ops.argmax(labels, axis=-1)
    else:
        if len(given) == rank and given[-1] == 1:
            labels = labels[..., 0]
        labels = ops.cast(labels, "int32")
        labelled = ops.logical_and(labels >= 0, labels < classes)
    expected = tuple(logits.shape)[:-1]
    if len(labels.shape) != len(expected) or any(
        m != n for m, n in zip(labels.shape, expected) if None not in (m, n)
    ):
        raise ValueError(
            "`labels` must be integers of the leading axes of the logits, "
            f"{expected}, or one-hot rows of {classes} classes. "
            f"Received: labels.shape={given}"
        )
    labels = ops.cast(labels, "int32")
    guess = ops.cast(ops.argmax(logits, axis=-1), "int32")
    labels = ops.where(labelled, labels, guess)
    target = ops.equal(labels[..., None], ops.arange(classes, dtype="int32"))
    return target, labelled
