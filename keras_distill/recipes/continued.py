"""From the teacher's logits to the labels, without a step."""

import functools

from keras_distill import callbacks
from keras_distill import losses
from keras_distill._checks import check_integer
from keras_distill.recipes.base import Recipe


def continuation(max_temperature=7, margin=0.1):
    """Continuation-KD: the weight moves from the teacher to the labels.

    Args:
        max_temperature: Integer, the temperature at the start.
        margin: Float, squared error that costs nothing at the end.

    Returns:
        `Recipe`.

    Example:

    >>> len(continuation(2).schedule(epochs=4))
    3

    Reference:
        Jafari et al., 2022, https://arxiv.org/abs/2212.05998, algorithm 1.
    """
    check_integer("max_temperature", max_temperature, 1, 1000)
    return Recipe(
        "Continuation-KD",
        losses.ContinuationMSE(max_temperature, margin),
        hard_weight=1.0,
        soft_weight=1.0,
        callbacks=functools.partial(
            callbacks.continuation_kd, max_temperature=max_temperature
        ),
        fewest_epochs=max_temperature,
    )
