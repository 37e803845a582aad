"""Layers of KerasHub's transformers: the width inside their dense layers."""

import keras_hub

from keras_distill._backend import child_layers
from keras_distill.pruning.rules.base import NotUnderstood
from keras_distill.pruning.rules.base import Reading
from keras_distill.pruning.rules.base import Weight
from keras_distill.pruning.rules.base import check_activation
from keras_distill.pruning.rules.base import counted
from keras_distill.pruning.rules.base import places_of
from keras_distill.pruning.rules.base import rule
from keras_distill.pruning.rules.base import with_bias

FIRST, LAST = "feedforward_intermediate_dense", "feedforward_output_dense"
# What the first one's values are multiplied with, where there is such.
GATE = "feedforward_gate_dense"


@rule(
    keras_hub.layers.TransformerEncoder,
    keras_hub.layers.TransformerDecoder,
    "keras_hub.LlamaTransformerDecoder",
    "keras_hub.MistralTransformerDecoder",
    "keras_hub.QwenTransformerDecoder",
    "keras_hub.Qwen3TransformerDecoder",
)
def transformer_layer(layer, units, inputs):
    """What is read and given stays: it is normalised over all units.

    So do the heads, whose size KerasHub derives from how many there are.
    """
    x = inputs[0]
    children = {child.name: child for child in child_layers(layer)}
    if "cross_attention" in children:
        raise NotUnderstood("attention to another sequence")
    first, last = children[FIRST], children[LAST]
    opened = [first, *(children[name] for name in (GATE,) if name in children)]
    check_activation(layer)
    for held in inputs:
        units.freeze(held.units, f"{layer.name}: normalised over all units")
    between = units.of_layer(layer, layer.intermediate_dim, part="intermediate")
    places = places_of(x.shape)
    weights = (Weight(last.kernel, (between, None), places, 0),)
    for dense in opened:
        opening = (Weight(dense.kernel, (None, between), places),)
        weights += with_bias(dense, opening, between)
    cut = {id(weight.variable) for weight in weights}
    weights += tuple(
        Weight(matrix, (None,) * len(matrix.shape), places)
        for matrix in layer.weights
        if len(matrix.shape) > 1 and id(matrix) not in cut
    )
    sizes = {"intermediate_dim": counted(between)}
    return Reading(x.units, weights, sizes)
