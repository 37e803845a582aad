"""Convolutions: of all channels, of each one, and both."""

import numpy as np
from keras import layers

from keras_distill.pruning.rules.base import NotUnderstood
from keras_distill.pruning.rules.base import Reading
from keras_distill.pruning.rules.base import Weight
from keras_distill.pruning.rules.base import check_activation
from keras_distill.pruning.rules.base import counted
from keras_distill.pruning.rules.base import one_of
from keras_distill.pruning.rules.base import places_of
from keras_distill.pruning.rules.base import rule
from keras_distill.pruning.rules.base import with_bias


def _check_convolution(layer):
    check_activation(layer)
    if layer.data_format != "channels_last":
        raise NotUnderstood("channels that are not the last axis")


def _output_places(layer, x):
    return places_of(layer.compute_output_shape(x.shape))


@rule(layers.Conv1D, layers.Conv2D, layers.Conv3D)
def convolution(layer, units, inputs):
    """Each filter reads all channels."""
    x = one_of(inputs)
    _check_convolution(layer)
    if layer.groups != 1:
        raise NotUnderstood("groups of channels")
    out = units.of_layer(layer, layer.filters)
    axes = (*(None for _ in layer.kernel_size), x.units, out)
    places = _output_places(layer, x)
    kernel = Weight(layer.kernel, axes, places, len(axes) - 2)
    return Reading(
        out, with_bias(layer, (kernel,), out), {"filters": counted(out)}
    )


@rule(layers.Conv1DTranspose, layers.Conv2DTranspose, layers.Conv3DTranspose)
def transposed_convolution(layer, units, inputs):
    """As a convolution; its kernel has the filters first."""
    x = one_of(inputs)
    _check_convolution(layer)
    out = units.of_layer(layer, layer.filters)
    axes = (*(None for _ in layer.kernel_size), out, x.units)
    kernel = Weight(layer.kernel, axes, places_of(x.shape), len(axes) - 1)
    return Reading(
        out, with_bias(layer, (kernel,), out), {"filters": counted(out)}
    )


@rule(layers.DepthwiseConv1D, layers.DepthwiseConv2D)
def depthwise_convolution(layer, units, inputs):
    """Each channel alone, by as many filters as the multiplier says."""
    del units
    x = one_of(inputs)
    _check_convolution(layer)
    out = np.repeat(x.units, layer.depth_multiplier)
    axes = (*(None for _ in layer.kernel_size), x.units, None)
    kernel = Weight(layer.kernel, axes, _output_places(layer, x))
    return Reading(out, with_bias(layer, (kernel,), out))


@rule(layers.SeparableConv1D, layers.SeparableConv2D)
def separable_convolution(layer, units, inputs):
    """Each channel alone, then all of them at each place."""
    x = one_of(inputs)
    _check_convolution(layer)
    between = np.repeat(x.units, layer.depth_multiplier)
    out = units.of_layer(layer, layer.filters)
    none = tuple(None for _ in layer.kernel_size)
    places = _output_places(layer, x)
    weights = (
        Weight(layer.depthwise_kernel, (*none, x.units, None), places),
        Weight(
            layer.pointwise_kernel, (*none, between, out), places, len(none)
        ),
    )
    return Reading(
        out, with_bias(layer, weights, out), {"filters": counted(out)}
    )
