"""Where a student's activations are rounded as the converter rounds them."""

import collections

import keras
from keras import layers

from keras_distill._backend import graph_nodes
from keras_distill._backend import nested_layers
from keras_distill._backend import symbolic_inputs
from keras_distill._layers import CELLS
from keras_distill.quantization.kernels import TABLES

# What an integer kernel does in the same step as the layer before it.
FUSED = layers.BatchNormalization, layers.ReLU
FUSED_FUNCTIONS = keras.activations.linear, keras.activations.relu
# What has an integer kernel, and takes part where it reads rounded values.
COMPUTED = (
    *FUSED,
    *(layers.Activation, layers.Add, layers.Average, layers.Concatenate),
    *(layers.Maximum, layers.Minimum, layers.Multiply, layers.Subtract),
    *(layers.GlobalAveragePooling1D, layers.GlobalAveragePooling2D),
)
# What gives values of the same range, for which its kernel has no other.
SAME_RANGE = (
    *(layers.AveragePooling1D, layers.AveragePooling2D),
    *(layers.Dropout, layers.Flatten, layers.Reshape, layers.Permute),
    *(layers.MaxPooling1D, layers.MaxPooling2D, layers.SpatialDropout1D),
    *(layers.GlobalMaxPooling1D, layers.GlobalMaxPooling2D),
    *(layers.ZeroPadding1D, layers.ZeroPadding2D, layers.SpatialDropout2D),
)


def places(model, kernels):
    """Where the activations of a model are rounded.

    Args:
        model: Built `keras.Model`.
        kernels: Its `Kernel`s.

    Returns:
        Dict from layers to tuples of `"input"`, `"inner"`, before an activation
        that is a step of its own, `"output"`, and `"same"`, an output with the
        range of the input.

    Raises:
        ValueError: The model has recurrent layers, whose loops have no ranges.
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
        if not isinstance(layer, TABLES):
            inner = () if has_fused_activation(layer) else ("inner",)
            found[layer] = ("input", *inner, *_output(layer, fused))
    for layer in nested_layers(model):
        if isinstance(layer, COMPUTED) and layer not in found:
            found[layer] = _output(layer, fused)
        elif isinstance(layer, SAME_RANGE):
            found[layer] = ("same",)
    return found


def has_fused_activation(layer):
    """Whether its activation is no step of its own."""
    return layer.activation in FUSED_FUNCTIONS


def _output(layer, fused):
    return () if layer in fused else ("output",)


def _follows(operation):
    if isinstance(operation, layers.Activation):
        return operation.activation in FUSED_FUNCTIONS
    return isinstance(operation, FUSED)


def _fused(model):
    """The layers whose outputs go to nothing but what is done with them."""
    found = set()
    for graph in nested_layers(model):
        is_model = isinstance(graph, keras.Model)
        if not is_model or symbolic_inputs(graph) is None:
            continue
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
