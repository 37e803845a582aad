"""The teacher's probabilities, and where in an image it is active."""

import dataclasses
import functools

from keras_distill import losses
from keras_distill.recipes.hidden_states import match_states
from keras_distill.recipes.logits import kd


def attention(temperature=None, hard_weight=0.5, soft_weight=0.5):
    """`kd`, and the attention maps of images matched (attention transfer).

    Stages go together evenly, by `kd.uniform_layer_map`; together they weigh
    1.

    Args:
        temperature: As in `kd`.
        hard_weight: As in `kd`.
        soft_weight: As in `kd`.

    Returns:
        `Recipe`.

    Example:

    >>> attention().name
    'KD and attention maps'

    Reference:
        Zagoruyko and Komodakis, 2017, https://arxiv.org/abs/1612.03928.
    """
    return dataclasses.replace(
        kd(temperature, hard_weight, soft_weight),
        name="KD and attention maps",
        matches=functools.partial(
            match_states, loss=losses.AttentionTransfer()
        ),
        needs_states=True,
    )
