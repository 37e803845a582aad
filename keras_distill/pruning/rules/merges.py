"""Layers of several inputs."""

import numpy as np
from keras import layers

from keras_distill.pruning.rules.base import NotUnderstood
from keras_distill.pruning.rules.base import Reading
from keras_distill.pruning.rules.base import rule


@rule(
    *(layers.Add, layers.Subtract, layers.Multiply, layers.Average),
    *(layers.Maximum, layers.Minimum),
    *("Add", "Subtract", "Multiply", "Maximum", "Minimum"),
)
def merge(layer, units, inputs):
    """What comes together is one unit."""
    del layer
    if len(inputs) < 2:
        raise NotUnderstood("a constant, perhaps one value for each unit")
    size = max(len(x.units) for x in inputs)
    # A number is the same for all. A single channel is repeated for all; as
    # the last of its kind it stays.
    first, *others = [x.units for x in inputs if len(x.units) == size]
    for other in others:
        units.join(first, other)
    return Reading(first)


@rule(layers.Concatenate, "Concatenate")
def concatenate(layer, units, inputs):
    """Along the last axis one after the other, along others as `merge`."""
    rank = len(inputs[0].shape)
    if layer.axis in (-1, rank - 1):
        return Reading(np.concatenate([x.units for x in inputs]))
    return merge(layer, units, inputs)


@rule("Divide", "TrueDivide")
def divide(operation, units, inputs):
    """By one number for all units: by that of another unit 0 / 0 is none."""
    del operation, units
    counts = [len(x.units) for x in inputs]
    if len(counts) != 2 or counts[0] == 0 or counts[1] > 1:
        raise NotUnderstood("what each unit is divided by")
    return Reading(inputs[0].units)
