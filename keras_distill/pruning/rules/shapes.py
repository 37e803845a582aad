"""Layers that arrange places anew."""

import numpy as np
from keras import layers

from keras_distill.pruning.rules.base import NotUnderstood
from keras_distill.pruning.rules.base import Reading
from keras_distill.pruning.rules.base import counted
from keras_distill.pruning.rules.base import one_of
from keras_distill.pruning.rules.base import places_of
from keras_distill.pruning.rules.base import rule


@rule(layers.Flatten)
def flatten(layer, units, inputs):
    """The units of each place, one place after the other."""
    del units
    x = one_of(inputs)
    if None in x.shape[1:-1]:
        raise NotUnderstood("a size that is not known")
    if layer.data_format == "channels_first" and len(x.shape) > 2:
        raise NotUnderstood("channels_first, which puts places before units")
    return Reading(np.tile(x.units, places_of(x.shape)))


@rule(layers.Permute)
def permute(layer, units, inputs):
    """Places that change their order."""
    del units
    x = one_of(inputs)
    if layer.dims[-1] != len(x.shape) - 1:
        raise NotUnderstood("channels that change their axis")
    return Reading(x.units)


@rule(layers.Reshape)
def reshape(layer, units, inputs):
    """Places that are arranged anew."""
    del units
    x = one_of(inputs)
    target = layer.compute_output_shape(x.shape)
    if target[-1] != x.shape[-1]:
        raise NotUnderstood("channels that are split or put together")
    before = layer.target_shape[:-1]
    count = counted(x.units)
    return Reading(
        x.units, (), {"target_shape": lambda kept: (*before, count(kept))}
    )
