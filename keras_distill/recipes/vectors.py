"""What vectors are learnt by, and the student that learns nothing."""

import dataclasses

from keras_distill import losses
from keras_distill._checks import check_between
from keras_distill.recipes.base import Recipe
from keras_distill.recipes.logits import TEMPERATURES
from keras_distill.recipes.logits import kd


def untrained():
    """No training: the student as it starts, the control of vectors.

    Nobody has labels for vectors, so that there is nothing else that a student
    could learn without a teacher; what it starts from may be worth much.

    Returns:
        `Recipe`.

    Example:

    >>> untrained().is_control, untrained().trains
    (True, False)
    """
    return Recipe("no training", hard_weight=0.0)


def neighbours(temperature=0.05, hard_weight=0.5, soft_weight=0.5):
    """The teacher's vectors, and who is near whom in a batch.

    Args:
        temperature: Float, divides the cosines.
        hard_weight: Float, of the distance to the teacher's vectors.
        soft_weight: Float, of `kd.losses.NeighbourKL`.

    Returns:
        `Recipe`.

    Example:

    >>> neighbours().name
    'KD of neighbours'

    Reference:
        Fang et al., 2021, https://arxiv.org/abs/2101.04731, section 3.2.
    """
    check_between("temperature", temperature, *TEMPERATURES)
    return dataclasses.replace(
        kd(hard_weight=hard_weight, soft_weight=soft_weight),
        name="KD of neighbours",
        soft_loss=losses.NeighbourKL(temperature),
        loss_for=None,
    )
