"""Linear maps multiplied into the layers that read them."""

import collections
import contextlib

import keras
from keras import ops

from keras_distill._backend import graph_nodes
from keras_distill.pruning import graph
from keras_distill.pruning.copies import Copy
from keras_distill.recording import wrap_calls

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
    found = _maps(model, PASSING)
    return _Merged(found).of(model) if found else model


@contextlib.contextmanager
def merged(model):
    """In this context a model computes as `merge` of it would.

    From its own weights, to which all gradients go: the same training in less
    time, as the product of a map and a kernel is that of two small matrices. A
    map with dropout behind it stays: of what it gives other values would drop.

    Args:
        model: Functional or `Sequential` `keras.Model`.
    """
    found = _maps(model, ())
    if not found:
        yield
        return
    # Dropout itself stands in the copy: there a recording may wait for it.
    copy = _Merged(found, shared=PASSING)
    smaller = copy.of(model)

    def run(layer, call, inputs, training=None, mask=None):
        del layer, call, mask
        values = [(new, _product(old, by)) for new, old, by in copy.sources]
        with keras.StatelessScope(values) as scope:
            outputs = smaller(inputs, training=training)
        # What a call changes, as dropout's state, is the model's own.
        for new, old, _ in copy.sources:
            if not new.trainable:
                old.assign(scope.get_current_value(new))
        return outputs

    with wrap_calls([model], run):
        yield


def _product(variable, taken):
    """The value of a weight, with a map multiplied into it where there is one.

    Of kernels `[..., read, made]` it is the last axis but one.
    """
    if taken is None:
        return variable.value
    return ops.matmul(taken.value, variable.value)


def _maps(model, passing):
    """Dict from layers, by `id`, to the map that each of them reads.

    Args:
        model: `keras.Model`.
        passing: Tuple of kinds of layers that may stand between the two.
    """
    graphs = {}
    _collect(model, graphs)
    calls = collections.Counter(
        id(node.operation) for _, nodes in graphs.values() for node in nodes
    )
    found = {}
    for held, nodes in graphs.values():
        readers = collections.defaultdict(list)
        for node in nodes:
            for x in node.input_tensors:
                readers[id(x)].append(node)
        given = {id(x) for x in held.outputs}
        for node in nodes:
            if not _is_narrow_map(node.operation):
                continue
            behind = _readers(node.outputs[0], readers, given, passing)
            once = [node, *behind]
            if behind and all(calls[id(n.operation)] == 1 for n in once):
                found |= {id(n.operation): node.operation for n in behind}
    return found


def _collect(model, graphs):
    """Adds the nodes of a model, and of those in it, each once."""
    if id(model) in graphs:
        return
    nodes = graph_nodes(model)
    graphs[id(model)] = model, nodes
    for node in nodes:
        if graph.is_graph(node.operation):
            _collect(node.operation, graphs)


def _is_narrow_map(layer):
    return (
        type(layer) is keras.layers.Dense
        and not layer.use_bias
        and layer.activation is keras.activations.linear
        and layer.quantization_mode is None
        and not layer.lora_enabled
        and layer.kernel.shape[0] < layer.units
    )


def _readers(tensor, readers, given, passing):
    """The nodes that multiply a tensor; none where others read it, too."""
    if id(tensor) in given:
        return []
    found = []
    for node in readers[id(tensor)]:
        behind = []
        if type(node.operation) in passing:
            behind = _readers(node.outputs[0], readers, given, passing)
        elif _multiplies(node.operation) and node.input_tensors[0] is tensor:
            behind = [node]
        if not behind:
            return []
        found += behind
    return found


def _multiplies(layer):
    if isinstance(layer, keras.layers.Bidirectional):
        return _multiplies(layer.forward_layer)
    plain = not (
        getattr(layer, "quantization_mode", None)
        or getattr(layer, "lora_enabled", False)
    )
    whole = getattr(layer, "groups", 1) == 1
    # Units on another axis are no factors of the kernel; what drops some of
    # those it reads would drop others.
    last = getattr(layer, "data_format", None) != "channels_first"
    every = not getattr(layer, "dropout", 0)
    return type(layer) in READERS and plain and whole and last and every


class _Merged(Copy):
    """A model without the maps that others have taken in.

    `sources` are its variables, that which each of them comes from, and the
    kernel to multiply it by, or None. Layers of the kinds in `shared` are not
    copied.
    """

    def __init__(self, maps, shared=()):
        super().__init__()
        self.sources = []
        self._maps = maps
        self._shared = shared
        self._taken = {id(layer) for layer in maps.values()}
        self._left_out = set()

    def shares(self, layer):
        return super().shares(layer) or isinstance(layer, self._shared)

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
        if copy is layer:
            self.sources += [(held, held, None) for held in layer.variables]
            return
        taken = self._maps.get(id(layer))
        for old, new in zip(layer.variables, copy.variables, strict=True):
            # What multiplies the inputs, of each direction one, is narrower.
            by = None if old.shape == new.shape else taken.kernel
            self.sources.append((new, old, by))
            # A copy: JAX gives the buffers of a model to its next values.
            new.assign(ops.convert_to_numpy(_product(old, by)))
