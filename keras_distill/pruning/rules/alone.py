"""Layers that treat each unit by itself."""

import numpy as np
from keras import layers

from keras_distill.pruning.rules.base import NotUnderstood
from keras_distill.pruning.rules.base import Reading
from keras_distill.pruning.rules.base import Weight
from keras_distill.pruning.rules.base import check_activation
from keras_distill.pruning.rules.base import one_of
from keras_distill.pruning.rules.base import rule


@rule(layers.BatchNormalization)
def batch_normalization(layer, units, inputs):
    """Each unit by its own statistics, unlike other normalisations."""
    del units
    x = one_of(inputs)
    if layer.axis not in (-1, len(x.shape) - 1):
        raise NotUnderstood("an axis that is not the last one")
    held = tuple(Weight(v, (x.units,)) for v in layer.weights if v.ndim == 1)
    return Reading(x.units, held)


@rule(layers.PReLU)
def prelu(layer, units, inputs):
    """A slope for each unit, or one for all."""
    del units
    x = one_of(inputs)
    shared = layer.alpha.shape[-1] != len(x.units)
    axes = (
        *(None for _ in layer.alpha.shape[:-1]),
        None if shared else x.units,
    )
    return Reading(x.units, (Weight(layer.alpha, axes),))


@rule(layers.Rescaling)
def rescaling(layer, units, inputs):
    """By one number for all units."""
    del units
    if np.size(layer.scale) != 1 or np.size(layer.offset) != 1:
        raise NotUnderstood("a number for each unit")
    return Reading(one_of(inputs).units)


_LAST_AXIS_STAYS = [
    *("ActivityRegularization", "AlphaDropout", "AveragePooling1D"),
    *("AveragePooling2D", "AveragePooling3D", "Cropping1D", "Cropping2D"),
    *("Cropping3D", "Dropout", "ELU", "GaussianDropout", "GaussianNoise"),
    *("GlobalAveragePooling1D", "GlobalAveragePooling2D"),
    *("GlobalAveragePooling3D", "GlobalMaxPooling1D", "GlobalMaxPooling2D"),
    *("GlobalMaxPooling3D", "Identity", "LeakyReLU", "MaxPooling1D"),
    *("MaxPooling2D", "MaxPooling3D", "ReLU", "RepeatVector"),
    *("SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D"),
    *("UpSampling1D", "UpSampling2D", "UpSampling3D", "ZeroPadding1D"),
    *("ZeroPadding2D", "ZeroPadding3D", "Activation"),
]


@rule(*(getattr(layers, name) for name in _LAST_AXIS_STAYS))
def each_unit_alone(layer, units, inputs):
    """What each unit becomes no other one changes."""
    del units
    x = one_of(inputs)
    check_activation(layer)
    if getattr(layer, "data_format", "channels_last") != "channels_last":
        raise NotUnderstood("channels that are not the last axis")
    return Reading(x.units)


@rule("Cast", "Relu", "Gelu", "Silu", "Sigmoid", "Tanh", "Square", "Absolute")
def each_value_alone(operation, units, inputs):
    """An operation on each value."""
    del operation, units
    return Reading(one_of(inputs).units)


@rule("Max", "Min", "Mean", "Sum")
def reduce(operation, units, inputs):
    """Over places, not over units."""
    del units
    x = one_of(inputs)
    if operation.axis is None:
        raise NotUnderstood("units that are put together")
    rank = len(x.shape)
    axes = {axis % rank for axis in np.atleast_1d(operation.axis)}
    if rank - 1 in axes:
        raise NotUnderstood("units that are put together")
    return Reading(x.units)


@rule("ExpandDims")
def expand_dims(operation, units, inputs):
    """A further axis before the last one."""
    del units
    x = one_of(inputs)
    rank = len(x.shape) + 1
    if operation.axis % rank == rank - 1:
        raise NotUnderstood("channels that change their axis")
    return Reading(x.units)
