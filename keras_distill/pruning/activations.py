"""What a unit is worth by how large its values are on data."""

import keras
import numpy as np
from keras import layers

from keras_distill._backend import child_layers
from keras_distill._backend import nested_layers
from keras_distill._layers import CELLS
from keras_distill.recording import wrap_calls


def mean_squares(model, found, batches):
    """The mean square of what layers read of each unit, summed over layers.

    Args:
        model: `keras.Model`.
        found: Its `Structure`.
        batches: Iterable of pairs of inputs and labels, which are not read.

    Returns:
        Float64 array `[units]`.
    """
    readers = _readers(model, found)
    total = np.zeros(len(found.units))

    def observe(layer, call, x, *args, **kwargs):
        squares = np.square(keras.ops.convert_to_numpy(x), dtype="float64")
        for units, axis in readers[layer]:
            others = tuple(np.delete(np.arange(squares.ndim), axis))
            np.add.at(
                total,
                found.units.roots(units),
                len(squares) * squares.mean(axis=others),
            )
        return call(x, *args, **kwargs)

    rows = 0
    with wrap_calls(readers, observe):
        for x, y in batches:
            model(x, training=False)
            rows += len(y)
    if not rows:
        raise ValueError(
            "Importance needs batches of data. Received: 0 batches"
        )
    return total / rows


def _readers(model, found):
    """Dict from layers to the units that they read, and along which axis."""
    reading = {id(w.variable): w for w in found.weights if w.reads is not None}
    readers = {}
    for layer in nested_layers(model):
        for variable in _kernels(layer):
            weight = reading.get(id(variable))
            if weight is not None:
                axis = _axis(layer, weight.reads)
                held = readers.setdefault(layer, [])
                held.append((weight.axes[weight.reads], axis))
    return readers


def _kernels(layer):
    if isinstance(layer, layers.RNN):
        # What it reads of itself does not leave its loop.
        return [layer.cell.kernel] if isinstance(layer.cell, CELLS) else []
    is_inner = isinstance(layer, CELLS) or list(child_layers(layer))
    return [] if is_inner else layer.weights


def _axis(layer, axis):
    """The axis of a layer's input that an axis of its kernel goes with."""
    if not isinstance(layer, layers.EinsumDense):
        return -1
    names, kernel = layer.equation.split("->")[0].split(",")
    return names.index(kernel[axis]) - len(names)
