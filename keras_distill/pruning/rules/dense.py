"""Layers whose outputs read all units: dense, by an equation, embeddings."""

import math

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


@rule(layers.EinsumDense)
def einsum_dense(layer, units, inputs):
    """Each new output reads all units of the last axis."""
    x = one_of(inputs)
    check_activation(layer)
    left, outputs = layer.equation.split("->")
    names, kernel = left.split(",")
    read, new = names[-1], outputs[-1]
    if read in outputs or read not in kernel or new in names:
        raise NotUnderstood(f"the last axes of {layer.equation!r}")
    out = units.of_layer(layer, layer.kernel.shape[kernel.index(new)])
    axes = tuple({read: x.units, new: out}.get(name) for name in kernel)
    sizes = {"output_shape": _last_of(layer.partial_output_shape, out)}
    places, axis = _places(names, kernel, x.shape), kernel.index(read)
    weights = [Weight(layer.kernel, axes, places, axis)]
    if layer.bias is not None:
        none = (None,) * (layer.bias.ndim - 1)
        own = out if new in layer.bias_axes else None
        weights.append(Weight(layer.bias, (*none, own)))
    return Reading(out, tuple(weights), sizes)


def _places(names, kernel, shape):
    """At how many positions of a row a kernel is used."""
    letters = names.replace("...", "")
    sizes = dict(zip(reversed(letters), reversed(shape)))
    others = shape[1 : len(shape) - len(letters)]
    if "..." not in names:
        del sizes[letters[0]]  # Rows.
    sizes = [size for name, size in sizes.items() if name not in kernel]
    return math.prod(size or 1 for size in (*sizes, *others))


def _last_of(shape, out):
    """What `sizes` takes for the last number of a shape."""
    before = (shape,) if isinstance(shape, int) else tuple(shape)
    return lambda kept: (*before[:-1], counted(out)(kept))


@rule(layers.Embedding)
def embedding(layer, units, inputs):
    """A row of the table for each token, a column for each unit."""
    one_of(inputs)
    out = units.of_layer(layer, layer.output_dim)
    table = Weight(layer.embeddings, (None, out))
    return Reading(out, (table,), {"output_dim": counted(out)})
