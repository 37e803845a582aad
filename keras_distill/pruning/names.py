"""What the layers of a model are called, each by a name of its own."""

import collections

from keras_distill._backend import graph_nodes
from keras_distill._backend import symbolic_inputs


def names_of_layers(model):
    """A name of each layer of a graph that no other one has.

    Models in a model may have layers of one name. Those have the names of the
    models that they are in before their own.

    Args:
        model: `keras.Model` whose graph is known.

    Returns:
        Dict from layers, by `id`, to strings.

    Example:

    >>> import keras
    >>> inner = keras.Sequential([keras.layers.Dense(4, name="a")], name="x")
    >>> model = keras.Sequential(
    ...     [keras.Input((2,)), keras.layers.Dense(3, name="a"), inner])
    >>> list(names_of_layers(model).values())
    ['a', 'x/a']
    """
    paths = {}
    for layer, path in _paths(model):
        paths.setdefault(id(layer), path)
    counts = collections.Counter(path[-1] for path in paths.values())
    return {
        key: "/".join(path if counts[path[-1]] > 1 else path[-1:])
        for key, path in paths.items()
    }


def _paths(model, within=()):
    """Yields the layers, and their names after those of the models around."""
    for node in graph_nodes(model):
        path = *within, node.operation.name
        if symbolic_inputs(node.operation) is None:
            yield node.operation, path
        else:
            yield from _paths(node.operation, path)
