"""Layers whose outputs read all units: dense, embeddings."""

from keras import layers

from keras_distill.pruning.rules.base import Reading
from keras_distill.pruning.rules.base import Weight
from keras_distill.pruning.rules.base import check_activation
from keras_distill.pruning.rules.base import counted
from keras_distill.pruning.rules.base import one_of
from keras_distill.pruning.rules.base import places_of
from keras_distill.pruning.rules.base import rule
from keras_distill.pruning.rules.base import with_bias


@rule(layers.Dense)
def dense(layer, units, inputs):
    """Each output reads all units of the last axis."""
    x = one_of(inputs)
    check_activation(layer)
    out = units.of_layer(layer, layer.units)
    kernel = Weight(layer.kernel, (x.units, out), places_of(x.shape), 0)
    return Reading(
        out, with_bias(layer, (kernel,), out), {"units": counted(out)}
    )


@rule(layers.Embedding)
def embedding(layer, units, inputs):
    """A row of the table for each token, a column for each unit."""
    one_of(inputs)
    out = units.of_layer(layer, layer.output_dim)
    table = Weight(layer.embeddings, (None, out))
    return Reading(out, (table,), {"output_dim": counted(out)})
