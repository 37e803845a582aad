"""Attention: whole heads go."""

import keras
from keras import layers

from keras_distill.pruning.rules.base import NotUnderstood
from keras_distill.pruning.rules.base import Reading
from keras_distill.pruning.rules.base import Weight
from keras_distill.pruning.rules.base import counted
from keras_distill.pruning.rules.base import places_of
from keras_distill.pruning.rules.base import rule


@rule(layers.MultiHeadAttention)
def multi_head_attention(layer, units, inputs):
    """Heads are units of their own; queries, keys and values are read."""
    # Of a third input the graph does not say what it is: a mask is no float.
    held = [x for x in inputs if keras.backend.is_float_dtype(x.dtype)]
    if len(held) != 2:
        raise NotUnderstood(f"{len(held)} inputs, where two are known")
    query, value = held
    heads = units.of_layer(layer, layer.num_heads, part="heads")
    size = layer.output_dense.kernel.shape[-1]
    out = units.of_layer(layer, size)
    projections = [
        (layer.query_dense, query),
        (layer.key_dense, value),
        (layer.value_dense, value),
    ]
    weights = []
    for dense, x in projections:
        axes = (x.units, heads, None)
        weights.append(Weight(dense.kernel, axes, places_of(x.shape), 0))
        if dense.bias is not None:
            weights.append(Weight(dense.bias, (heads, None)))
    last, places = layer.output_dense, places_of(query.shape)
    weights.append(Weight(last.kernel, (heads, None, out), places, 0))
    if last.bias is not None:
        weights.append(Weight(last.bias, (out,)))
    sizes = {"num_heads": counted(heads), "output_shape": counted(out)}
    return Reading(out, tuple(weights), sizes)
