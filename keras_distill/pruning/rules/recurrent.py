"""Layers that read their own outputs."""

import numpy as np
from keras import layers

from keras_distill.pruning.rules.base import NotUnderstood
from keras_distill.pruning.rules.base import Reading
from keras_distill.pruning.rules.base import Weight
from keras_distill.pruning.rules.base import counted
from keras_distill.pruning.rules.base import one_of
from keras_distill.pruning.rules.base import rule


def _recurrent(layer, units, x, gates):
    _check_recurrent(layer)
    cell = layer.cell
    out = units.of_layer(layer, layer.units)
    each = np.tile(out, gates)
    steps = x.shape[1] or 1
    weights = [
        Weight(cell.kernel, (x.units, each), steps, 0),
        Weight(cell.recurrent_kernel, (out, each), steps, 0),
    ]
    if cell.use_bias:
        none = (None,) * (cell.bias.ndim - 1)
        weights.append(Weight(cell.bias, (*none, each)))
    return Reading(out, tuple(weights), {"units": counted(out)})


def _check_recurrent(layer):
    if layer.return_state or layer.stateful:
        raise NotUnderstood("states that are handed on")


@rule(layers.SimpleRNN)
def simple_rnn(layer, units, inputs):
    """One kernel for each step."""
    return _recurrent(layer, units, one_of(inputs), 1)


@rule(layers.GRU)
def gru(layer, units, inputs):
    """Kernels of three gates, side by side."""
    return _recurrent(layer, units, one_of(inputs), 3)


@rule(layers.LSTM)
def lstm(layer, units, inputs):
    """Kernels of four gates, side by side."""
    return _recurrent(layer, units, one_of(inputs), 4)
