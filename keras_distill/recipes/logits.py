"""The teacher's logits, beside the labels."""

import functools
import operator

from keras_distill import losses
from keras_distill._checks import check_between
from keras_distill.recipes.base import Recipe
from keras_distill.tasks.base import Task

# Below, the teacher's probabilities are one class; above, all are the same.
TEMPERATURES = (0.01, 1000)


def kd(temperature=None, hard_weight=0.5, soft_weight=0.5):
    """Knowledge distillation: the teacher's probabilities at a temperature.

    Those of the classes, by the Kullback-Leibler divergence; of several labels
    those of each, by binary cross-entropy. Of a score there are none: then it
    is the squared error.

    Args:
        temperature: Float, divides both models' logits; the divergence is
            multiplied by its square. None: the task's own, 1 for tags, and 4
            for all others.
        hard_weight: Float, of the loss on the labels.
        soft_weight: Float, of the divergence.

    Returns:
        `Recipe`.

    Example:

    >>> kd(temperature=2.0).name
    'KD'

    Reference:
        Hinton et al., 2015, https://arxiv.org/abs/1503.02531, section 2.
    """
    if temperature is not None:
        check_between("temperature", temperature, *TEMPERATURES)
    return Recipe(
        "KD",
        losses.ForwardKL(temperature or Task.temperature),
        hard_weight,
        soft_weight,
        loss_for=functools.partial(_divergence, temperature),
    )


def _divergence(temperature, task):
    return task.soft_loss(temperature or task.temperature)


def mse(temperature=1.0, hard_weight=0.5, soft_weight=0.5):
    """The squared error to the teacher's logits.

    Args:
        temperature: Float, divides both models' logits.
        hard_weight: As in `kd`.
        soft_weight: Float, of the squared error.

    Returns:
        `Recipe`.

    Example:

    >>> mse().name
    'logit MSE'

    Reference:
        Ba and Caruana, 2014, https://arxiv.org/abs/1312.6184, eq. 1.
    """
    check_between("temperature", temperature, *TEMPERATURES)
    return Recipe(
        "logit MSE",
        losses.LogitsMSE(temperature),
        hard_weight,
        soft_weight,
        loss_for=operator.methodcaller("logits_loss", temperature),
    )
