"""Which weights are stored in few bits, and what shares a scale in them."""

import dataclasses
import math

import keras
import keras_hub
from keras import layers

from keras_distill._backend import nested_layers
from keras_distill._layers import CELLS
from keras_distill._layers import adapted_layer

# A table of fewer numbers is not worth its scales.
SMALLEST_SIZE = 1024
# Numbers of a table with one scale, at least: its rows may be narrow.
TOGETHER = 256
TABLES = (
    layers.Embedding,
    layers.ReversibleEmbedding,
    keras_hub.layers.ReversibleEmbedding,
)
CONVOLUTIONS = layers.Conv1D, layers.Conv2D, layers.Conv3D
DEPTHWISE = layers.DepthwiseConv1D, layers.DepthwiseConv2D
SEPARABLE = layers.SeparableConv1D, layers.SeparableConv2D
TRANSPOSED = (
    *(layers.Conv1DTranspose, layers.Conv2DTranspose),
    layers.Conv3DTranspose,
)


def _inputs(layer, weight):
    """All axes but the last, the units that a layer gives."""
    del layer
    return tuple(range(len(weight.shape) - 1))


def _positions(layer, weight):
    """All axes of a depthwise kernel but the channels and their multiples."""
    del layer
    return tuple(range(len(weight.shape) - 2))


def _but_outputs(layer, weight):
    """All axes of a transposed kernel but the last but one, its outputs."""
    del layer
    return (*range(len(weight.shape) - 2), len(weight.shape) - 1)


def _columns(layer, weight):
    """The axis of a table along which its row is."""
    del layer, weight
    return (1,)


def _contracted(layer, weight):
    """The axes over which an einsum adds up."""
    del weight
    inputs, outputs = layer.equation.split("->")
    kernel = inputs.split(",")[1]
    return tuple(i for i, name in enumerate(kernel) if name not in outputs)


# Of each kind of layer its weights, and along which axes they share a scale:
# one scale for each unit that comes out, as LiteRT's kernels have them.
WEIGHTS = (
    (TABLES, {"embeddings": _columns}),
    (layers.EinsumDense, {"kernel": _contracted}),
    (layers.Dense, {"kernel": _inputs}),
    (SEPARABLE, {"depthwise_kernel": _positions, "pointwise_kernel": _inputs}),
    (TRANSPOSED, {"kernel": _but_outputs}),
    (CONVOLUTIONS, {"kernel": _inputs}),
    (DEPTHWISE, {"kernel": _positions}),
    (CELLS, {"kernel": _inputs, "recurrent_kernel": _inputs}),
)


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One weight of a layer, and what shares a scale in it.

    Args:
        layer: `keras.Layer`.
        variable: `keras.Variable`.
        axes: Tuple of its axes.
        rows: Integer, how many rows of a table.
    """

    layer: keras.Layer
    variable: keras.Variable
    axes: tuple
    rows: int = 1


def tables(model):
    """The layers of a model whose tables are stored in few bits."""
    return [
        layer
        for layer in nested_layers(model)
        if isinstance(layer, TABLES) and _is_large_enough(layer.embeddings)
    ]


def _is_large_enough(table):
    return math.prod(table.shape) >= SMALLEST_SIZE


def rows_together(layer):
    """How many rows of a table share a scale, 1 of everything else."""
    if not isinstance(layer, TABLES):
        return 1
    return math.ceil(TOGETHER / layer.output_dim)


def kernels(model):
    """The `Kernel`s of a model, at any depth, each variable once.

    Raises:
        ValueError: A layer is quantised already, or has LoRA weights; there is
            nothing to round.
    """
    adapted = adapted_layer(model)
    if adapted is not None:
        raise ValueError(
            "`student` must have plain weights: none that are quantised "
            "already, and LoRA weights merged. Received: layer "
            f"{adapted.name!r}"
        )
    found = {}
    for layer in nested_layers(model):
        for kinds, weights in WEIGHTS:
            if isinstance(layer, kinds):
                for name, axes in weights.items():
                    variable = getattr(layer, name)
                    if name != "embeddings" or _is_large_enough(variable):
                        found.setdefault(
                            id(variable),
                            Kernel(
                                layer,
                                variable,
                                axes(layer, variable),
                                rows_together(layer),
                            ),
                        )
                break
    if not found:
        raise ValueError(
            "`student` must have a Dense, EinsumDense, convolution or "
            f"recurrent layer, or a table of {SMALLEST_SIZE} numbers or more. "
            f"Received: {model.name!r}, without one"
        )
    return list(found.values())
