"""Linear maps multiplied into the layers that read them."""

import collections

import keras
import numpy as np

from keras_distill._backend import graph_nodes
from keras_distill.pruning import graph
from keras_distill.pruning.copies import Copy

# Layers whose first weights, `[..., read, made]`, multiply what they read.
READERS = (
    keras.layers.Dense,
    keras.layers.Conv1D,
    keras.layers.Conv2D,
    keras.layers.LSTM,
    keras.layers.GRU,
    keras.layers.SimpleRNN,
)
# What does nothing to what a trained model reads.
PASSING = keras.layers.Dropout, keras.layers.SpatialDropout1D


def merge(model):
    """Multiplies narrow linear maps into the layers that read them.

    A `Dense` layer without bias and activation that widens, as it follows a
    table of low rank, is worth its weights while a model is trained. Then it
    is multiplied into the convolutions, dense and recurrent layers that read
    what it gives, which have as many inputs less: the same outputs, with fewer
    weights and multiplications. Where something else reads it, it stays.

    Args:
        model: Functional or `Sequential` `keras.Model`, at any nesting; stays
            as it is.

    Returns:
        `keras.Model` of the same inputs and outputs; `model` itself where
        there is no such layer.

    Raises:
        ValueError: The model has no graph.

    Example:

    >>> model = keras.Sequential(
    ...     [keras.Input((5, 4)), keras.layers.Dense(64, use_bias=False),
    ...      keras.layers.Conv1D(8, 3)])
    >>> model.count_params(), merge(model).count_params()
    (1800, 104)
    """
    graph.check_graph(model)
    found = _maps(model, collections.Counter())
    return _Merged(found).of(model) if found else model


def _maps(model, calls):
    """Dict from layers, by `id`, to the map that each of them reads."""
    nodes = graph_nodes(model)
    readers = collections.defaultdict(list)
    calls.update(id(node.operation) for node in nodes)
    found = {}
    for node in nodes:
        for x in node.input_tensors:
            readers[id(x)].append(node)
        if graph.is_graph(node.operation):
            found |= _maps(node.operation, calls)
    given = {id(x) for x in model.outputs}
    for node in nodes:
        if not _is_narrow_map(node.operation):
            continue
        held = _readers(node.outputs[0], readers, given)
        once = [node, *(held or [])]
        if held and all(calls[id(n.operation)] == 1 for n in once):
            found |= {id(n.operation): node.operation for n in held}
    return found


def _is_narrow_map(layer):
    return (
        type(layer) is keras.layers.Dense
        and not layer.use_bias
        and layer.activation is keras.activations.linear
        and layer.quantization_mode is None
        and not layer.lora_enabled
        and layer.kernel.shape[0] < layer.units
    )


def _readers(tensor, readers, given):
    """The nodes that multiply a tensor and do nothing else; or None."""
    found = []
    for node in readers[id(tensor)]:
        operation = node.operation
        if id(tensor) in given:
            return None
        if type(operation) in PASSING:
            behind = _readers(node.outputs[0], readers, given)
            if not behind:
                return None
            found += behind
        elif _multiplies(operation) and node.input_tensors[0] is tensor:
            found.append(node)
        else:
            return None
    return found


def _multiplies(layer):
    if isinstance(layer, keras.layers.Bidirectional):
        return _multiplies(layer.forward_layer)
    plain = not (
        getattr(layer, "quantization_mode", None)
        or getattr(layer, "lora_enabled", False)
    )
    return type(layer) in READERS and plain and _groups(layer) == 1


def _groups(layer):
    return getattr(layer, "groups", 1)


class _Merged(Copy):
    """A model without the maps that others have taken in."""

    def __init__(self, maps):
        super().__init__()
        self._maps = maps
        self._taken = {id(layer) for layer in maps.values()}
        self._left_out = set()

    def changed(self, layer, config):
        for name in ("layer", "backward_layer"):
            # What goes forth and back would be built as wide as it was.
            config.get(name, {}).pop("build_config", None)
        copy = super().changed(layer, config)
        if id(layer) in self._taken:
            self._left_out.add(id(copy))
        return copy

    def parts(self, copy):
        return [] if id(copy) in self._left_out else [copy]

    def give_weights(self, layer, copy):
        if id(layer) in self._taken:
            return
        taken = self._maps.get(id(layer))
        if taken is None:
            super().give_weights(layer, copy)
            return
        (kernel,) = np.float64(taken.get_weights())
        # The first weight that multiplies, of each direction one, is narrower.
        copy.set_weights(
            [
                value if value.shape == new.shape else kernel @ value
                for value, new in zip(layer.get_weights(), copy.weights)
            ]
        )
