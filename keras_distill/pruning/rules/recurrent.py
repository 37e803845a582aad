"""Layers that read their own outputs."""

import numpy as np
from keras import layers

from keras_distill.pruning.rules.base import NotUnderstood
from keras_distill.pruning.rules.base import Reading
from keras_distill.pruning.rules.base import Weight
from keras_distill.pruning.rules.base import counted
from keras_distill.pruning.rules.base import one_of
from keras_distill.pruning.rules.base import rule

# How many kernels of gates stand side by side.
GATES = {layers.SimpleRNN: 1, layers.GRU: 3, layers.LSTM: 4}


def _sequence(inputs):
    """What is read step by step, perhaps with a mask of the steps."""
    if len(inputs) == 2 and inputs[1].dtype == "bool":
        return inputs[0]
    return one_of(inputs)


def _check_states(layer):
    if layer.return_state or layer.stateful:
        raise NotUnderstood("states that are handed on")


def _weights(layer, x, out):
    """The weights of a layer whose outputs have the units `out`."""
    cell, each = layer.cell, np.tile(out, GATES[type(layer)])
    steps = x.shape[1] or 1
    weights = [
        Weight(cell.kernel, (x.units, each), steps, 0),
        Weight(cell.recurrent_kernel, (out, each), steps, 0),
    ]
    if cell.use_bias:
        none = (None,) * (cell.bias.ndim - 1)
        weights.append(Weight(cell.bias, (*none, each)))
    return weights


@rule(*GATES)
def recurrent(layer, units, inputs):
    """Each unit is read in the next step by all gates."""
    x = _sequence(inputs)
    _check_states(layer)
    out = units.of_layer(layer, layer.units)
    weights = tuple(_weights(layer, x, out))
    return Reading(out, weights, {"units": counted(out)})


@rule(layers.Bidirectional)
def bidirectional(layer, units, inputs):
    """Two layers side by side, whose units go in pairs.

    Keras takes the outputs of one to be as wide as those of the other.
    """
    x = _sequence(inputs)
    _check_states(layer)
    if layer.merge_mode != "concat":
        raise NotUnderstood(f"directions merged by {layer.merge_mode!r}")
    parts = {
        "layer": layer.forward_layer,
        "backward_layer": layer.backward_layer,
    }
    if not all(type(part) in GATES for part in parts.values()):
        raise NotUnderstood("directions of another kind")
    if layer.forward_layer.units != layer.backward_layer.units:
        raise NotUnderstood("directions that are not as wide")
    out = units.of_layer(layer, layer.forward_layer.units)
    weights, sizes, config = [], {}, layer.get_config()
    for key, part in parts.items():
        weights += _weights(part, x, out)
        sizes[key] = _narrower(config[key], out)
    return Reading(np.tile(out, 2), tuple(weights), sizes)


def _narrower(config, out):
    """What `sizes` takes for a layer in the config of another one."""
    # With it the layer would be built for the inputs that it had.
    plain = {key: config[key] for key in config if key != "build_config"}

    def smaller(kept):
        own = {**config["config"], "units": counted(out)(kept)}
        return {**plain, "config": own}

    return smaller
