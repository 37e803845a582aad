"""Whether a model's outputs are logits or probabilities."""

import keras

from keras_distill._backend import nested_layers
from keras_distill._logits import last_activation
from keras_distill.taps import Tap


def head_taps(model):
    """Taps of `model` itself and of the layers that may make probabilities."""
    layers = [x for x in nested_layers(model) if last_activation(x)]
    return [Tap(layer, layer.path) for layer in [model, *layers]]


def heads(model, recording):
    """The activation of each output of `model`.

    An output is a layer's if it is the very tensor that the layer gave. So it
    is found in models of all kinds, at any depth; an activation that is no
    layer, as in `keras.ops.softmax(x)`, is not.

    Args:
        model: `keras.Model`, called once.
        recording: `Recording` of `head_taps(model)` in that call.

    Returns:
        The structure of the outputs, of the strings `"softmax"`, `"sigmoid"`
        and `""`.
    """
    made = [
        (value, last_activation(layer))
        for layer in nested_layers(model)
        if last_activation(layer)
        for value in recording.outputs(layer)
    ]
    return keras.tree.map_structure(
        lambda output: next((a for v, a in made if v is output), ""),
        recording.outputs(model)[-1],
    )
