"""Layers of KerasHub's encoders: the width between their two dense layers."""

import keras_hub

from keras_distill._backend import child_layers
from keras_distill.pruning.rules.base import Reading
from keras_distill.pruning.rules.base import Weight
from keras_distill.pruning.rules.base import check_activation
from keras_distill.pruning.rules.base import counted
from keras_distill.pruning.rules.base import places_of
from keras_distill.pruning.rules.base import rule


@rule(keras_hub.layers.TransformerEncoder)
def transformer_encoder(layer, units, inputs):
    """What is read and given stays: it is normalised over all units.

    So do the heads, whose size KerasHub derives from how many there are.
    """
    x = inputs[0]
    children = {child.name: child for child in child_layers(layer)}
    first = children["feedforward_intermediate_dense"]
    last = children["feedforward_output_dense"]
    check_activation(first)
    for held in inputs:
        units.freeze(held.units, f"{layer.name}: normalised over all units")
    between = units.of_layer(layer, layer.intermediate_dim, part="intermediate")
    places = places_of(x.shape)
    weights = (
        Weight(first.kernel, (None, between), places),
        Weight(first.bias, (between,)),
        Weight(last.kernel, (between, None), places, 0),
    )
    cut = {id(weight.variable) for weight in weights}
    weights += tuple(
        Weight(matrix, (None,) * len(matrix.shape), places)
        for matrix in layer.weights
        if len(matrix.shape) > 1 and id(matrix) not in cut
    )
    sizes = {"intermediate_dim": counted(between)}
    return Reading(x.units, weights, sizes)
