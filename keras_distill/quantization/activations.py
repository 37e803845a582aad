"""Where a student's activations are rounded as the converter rounds them."""

import collections

import keras
from keras import layers

from keras_distill._backend import graph_nodes
from keras_distill._backend import nested_layers
from keras_distill._backend import symbolic_inputs
from keras_distill._layers import CELLS
from keras_distill.quantization.kernels import SEPARABLE
from keras_distill.quantization.kernels import TABLES

# What an integer kernel does in the same step as the layer before it.
FUSED = layers.BatchNormalization, layers.ReLU
FUSED_FUNCTIONS = keras.activations.linear, keras.activations.relu
# What has an integer kernel, and takes part where it reads rounded values.
WITHOUT_ACTIVATION = (
    *FUSED,
    *(layers.Add, layers.Average, layers.Concatenate),
    *(layers.Maximum, layers.Minimum, layers.Multiply, layers.Subtract),
    *(layers.GlobalAveragePooling1D, layers.GlobalAveragePooling2D),
)
COMPUTED = *WITHOUT_ACTIVATION, layers.Activation
# What gives values of the same range, for which its kernel has no other.
SAME_RANGE = (
    *(layers.AveragePooling1D, layers.AveragePooling2D),
    *(layers.Dropout, layers.Flatten, layers.Reshape, layers.Permute),
    *(layers.MaxPooling1D, layers.MaxPooling2D, layers.SpatialDropout1D),
    *(layers.GlobalMaxPooling1D, layers.GlobalMaxPooling2D),
    *(layers.ZeroPadding1D, layers.ZeroPadding2D, layers.SpatialDropout2D),
)
# What kernels of integers give in steps of 1/128 or 1/256, whatever is asked.
FIXED = {
    keras.activations.tanh: (-1.0, 127 / 128),
    keras.activations.sigmoid: (0.0, 255 / 256),
    keras.activations.softmax: (0.0, 255 / 256),
}


def places(model, kernels):
    """Where the activations of a model are rounded.

    Args:
        model: Built `keras.Model`.
        kernels: Its `Kernel`s.

    Returns:
        Dict from layers to tuples of `"input"`, `"inner"`, before an activation
        that is a step of its own, `"output"`, `"same"`, an output with the
        range of the input, `"shares"`, what attention gives each position, and
        `"apart"`, attention that is to have a layer for that.

    Raises:
        ValueError: The model has recurrent layers, whose loops have no ranges,
            or separable convolutions.
    """
    fused = _fused(model)
    found = {}
    for kernel in kernels:
        layer = kernel.layer
        if isinstance(layer, CELLS):
            raise ValueError(
                "`activations` must be None for a student with recurrent "
                "layers: LiteRT cannot round what is inside their loops. "
                f"Received: layer {layer.name!r}"
            )
        if isinstance(layer, SEPARABLE):
            raise ValueError(
                "`activations` must be None for a student with separable "
                "convolutions: what their two steps have between them has no "
                "range here. Make it of DepthwiseConv and Conv layers. "
                f"Received: layer {layer.name!r}"
            )
        if not isinstance(layer, TABLES):
            inner = () if has_fused_activation(layer) else ("inner",)
            found[layer] = ("input", *inner, *_output(layer, fused))
    named = {n.operation for g in _graphs(model) for n in graph_nodes(g)}
    for layer in nested_layers(model):
        places_of_it = _without_weights(layer, fused, layer in named)
        if places_of_it is not None:
            found.setdefault(layer, places_of_it)
    return found


def has_fused_activation(layer):
    """Whether its activation is no step of its own."""
    return layer.activation in FUSED_FUNCTIONS


def fixed_range(layer, place):
    """The ends of a place where they are those of a kernel, or None."""
    if place == "shares":
        return FIXED[keras.activations.softmax]
    if place != "output" or isinstance(layer, WITHOUT_ACTIVATION):
        return None
    return FIXED.get(layer.activation)


def _without_weights(layer, fused, is_named):
    """The places of a layer that has no weights to round, or None."""
    if isinstance(layer, COMPUTED):
        return _output(layer, fused)
    if isinstance(layer, SAME_RANGE):
        return ("same",)
    # Within attention, not named by a graph: beside values in integers the
    # converter rounds these floats, too, and multiplies integers.
    if isinstance(layer, layers.Softmax) and not is_named:
        return ("shares",)
    # Subclasses may give other things, as those with a cache do.
    attends = type(layer).call is layers.MultiHeadAttention.call
    return ("apart",) if attends else None


def _output(layer, fused):
    return () if layer in fused else ("output",)


def _follows(operation):
    if isinstance(operation, layers.Activation):
        return operation.activation in FUSED_FUNCTIONS
    return isinstance(operation, FUSED)


def _graphs(model):
    """The functional models in a model."""
    found = nested_layers(model)
    return [layer for layer in found if symbolic_inputs(layer) is not None]


def _fused(model):
    """The layers whose outputs go to nothing but what is done with them."""
    found = set()
    for graph in _graphs(model):
        readers, nodes = collections.defaultdict(list), graph_nodes(graph)
        for node in nodes:
            for x in node.input_tensors:
                readers[id(x)].append(node.operation)
        for x in keras.tree.flatten(graph.outputs):
            readers[id(x)].append(None)
        found.update(
            node.operation
            for node in nodes
            if all(
                readers[id(x)] and all(map(_follows, readers[id(x)]))
                for x in node.outputs
            )
        )
    return found
