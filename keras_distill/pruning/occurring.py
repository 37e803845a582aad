"""Tables of embeddings without the rows that a training leaves as they are."""

import collections
import contextlib

import keras
import numpy as np
from keras import ops

from keras_distill._backend import graph_nodes
from keras_distill._backend import nested_layers
from keras_distill._backend import read_by
from keras_distill._backend import symbolic_inputs
from keras_distill.pruning import graph
from keras_distill.pruning.copies import KERAS_HUB
from keras_distill.pruning.copies import Copy

# So many rows at a time tell which rows of a table they read.
BATCH = 1024
# What costs next to nothing in a step, as the numbers that a table would lack.
LITTLE = 2**16


@contextlib.contextmanager
def occurring(model, *inputs):
    """In this context a model is trained without the rows that nobody reads.

    Adam moves all rows of a table in each step, those without a gradient by
    nothing if they never had one. A pretrained table has 30,522 of them or
    250,002, a data set reads a few thousand. So what is trained has tables of
    these alone, and the other layers of `model`; in the end their rows go back
    to the model's own. The same training in less time, for an optimizer
    without weight decay and without a norm over all gradients.

    Args:
        model: Functional or `Sequential` `keras.Model`.
        *inputs: Dicts of arrays `[rows, ...]` by the names of the model's
            inputs, all that is read in this context.

    Yields:
        `keras.Model` of the same inputs and outputs; `model` itself where no
        table is worth it, or where it is not known what is read.

    Example:

    >>> import keras_distill as kd
    >>> model = kd.students.text_cnn(2, (5000, 64), filters=4)
    >>> ids = np.array([[7, 9, 9, 0]])
    >>> x = {"token_ids": ids, "padding_mask": ids > 0}
    >>> with occurring(model, x) as small:
    ...     small.get_layer("token_embedding").input_dim
    3
    """
    found = _places(model, inputs)
    if not found:
        yield model
        return
    copy = _Occurring(found)
    try:
        yield copy.of(model)
    finally:
        # The other layers are the model's own, and have learnt, too.
        for old, new, rows in copy.tables:
            value = ops.convert_to_numpy(old.embeddings).copy()
            value[rows] = ops.convert_to_numpy(new.embeddings)
            old.embeddings.assign(value)


def _places(model, inputs):
    """Dict from tables, by `id`, to the rows that are read, where few are."""
    if not _is_entered(model):
        return {}
    names = {x.name for x in keras.tree.flatten(symbolic_inputs(model))}
    if not all(names.issubset(arrays) for arrays in inputs):
        return {}
    tables = {
        id(layer): (layer, np.zeros(layer.input_dim, bool))
        for layer in _tables(model)
    }
    if not tables:
        return {}
    read = _Read(model, tables)
    for arrays in inputs:
        held = keras.tree.map_structure(
            lambda x, arrays=arrays: arrays[x.name], read.structure
        )
        for start in range(0, len(keras.tree.flatten(held)[0]), BATCH):
            part = slice(start, start + BATCH)
            read(keras.tree.map_structure(lambda x, part=part: x[part], held))
    return {
        key: np.flatnonzero(seen)
        for key, (table, seen) in tables.items()
        if seen.any() and (~seen).sum() * table.output_dim > LITTLE
    }


class _Read:
    """Notes which rows of tables a model reads.

    Args:
        model: `keras.Model` whose graph is known.
        tables: Dict from tables, by `id`, to pairs of the layer and, for each
            row, whether it has been read.
    """

    def __init__(self, model, tables):
        self._inner = []
        self.structure = symbolic_inputs(model)
        tensors = []
        for node in graph_nodes(model):
            layer = node.operation
            if id(layer) in tables:
                self._inner.append(tables[id(layer)][1])
            elif _is_entered(layer):
                self._inner.append(_Read(layer, tables))
            else:
                continue
            tensors += read_by(node)
        self._model = keras.Model(self.structure, tensors) if tensors else None

    def __call__(self, inputs):
        if self._model is None:
            return
        # Of a single one Keras makes no list.
        values = iter(keras.tree.flatten(self._model(inputs)))
        for inner in self._inner:
            if isinstance(inner, _Read):
                inner(
                    keras.tree.map_structure(
                        lambda _: next(values), inner.structure
                    )
                )
            else:
                inner[ops.convert_to_numpy(next(values)).astype(int)] = True


def _tables(model):
    """The layers whose rows an optimizer moves, and nobody else reads."""
    layers = [x for x in nested_layers(model) if not graph.is_graph(x)]
    owners = collections.Counter(
        id(weight) for layer in layers for weight in layer.weights
    )
    return [
        layer
        for layer in layers
        if _is_table(layer) and owners[id(layer.embeddings)] == 1
    ]


def _is_table(layer):
    return (
        type(layer) is keras.layers.Embedding
        and layer.trainable
        and not layer.mask_zero
        and layer.embeddings_regularizer is None
        and layer.embeddings_constraint is None
        and layer.quantization_mode is None
        and not layer.lora_enabled
    )


def _is_entered(layer):
    return graph.is_graph(layer) and not isinstance(layer, KERAS_HUB)


class _Places(keras.layers.Layer):
    """Where the rows of a table are in a smaller one."""

    def __init__(self, places, **options):
        # Rows may come as floats, of which float16 has few whole numbers.
        super().__init__(autocast=False, **options)
        self.places = places

    def call(self, rows):
        return ops.take(self.places, ops.cast(rows, "int32"))

    def get_config(self):
        return super().get_config() | {"places": self.places}


class _Occurring(Copy):
    """A model of the same layers, but for tables of some of their rows.

    `tables` are triples of a table, the one in its place, and its rows.
    """

    def __init__(self, rows):
        super().__init__()
        self.tables = []
        self._rows = rows
        self._places = {}

    def enters(self, model):
        return _is_entered(model)

    def shares(self, layer):
        return id(layer) not in self._rows

    def changed(self, layer, config):
        rows = self._rows[id(layer)]
        fewer = {"input_dim": len(rows)}
        # Drawn ones would change what is drawn afterwards.
        fewer["embeddings_initializer"] = "zeros"
        copy = super().changed(layer, config | fewer)
        # What is not among them is padding, whose vectors count nothing.
        places = np.zeros(layer.input_dim, "int32")
        places[rows] = np.arange(len(rows))
        self._places[id(copy)] = _Places(places)
        self.tables.append((layer, copy, rows))
        return copy

    def parts(self, copy):
        place = self._places.get(id(copy))
        return [copy] if place is None else [place, copy]

    def give_weights(self, layer, copy):
        if copy is not layer:
            rows = self._rows[id(layer)]
            value = ops.convert_to_numpy(layer.embeddings)[rows]
            copy.embeddings.assign(value)
