"""What is inside a model: layers, KerasHub backbones, weights not plain."""

import pathlib

import keras
import keras_hub

from keras_distill import _files
from keras_distill._backend import child_layers
from keras_distill._backend import nested_layers
from keras_distill._backend.adapters import has_adapters

# Recurrent layers compute in one of these, whose kernels are known.
CELLS = (
    keras.layers.LSTMCell,
    keras.layers.GRUCell,
    keras.layers.SimpleRNNCell,
)


def sublayers(layer, prefix=""):
    """Yields `(path, layer)` for every layer below `layer`, depth first."""
    for child in child_layers(layer):
        path = f"{prefix}/{child.name}" if prefix else child.name
        yield path, child
        yield from sublayers(child, path)


def output_shape(layer):
    """The shape of a layer's one output in a functional model, or None."""
    try:
        return getattr(layer.output, "shape", None)
    except (AttributeError, ValueError):  # It is not called, or not yet built.
        return None


def backbones(model, part):
    """The KerasHub backbones that `model` is, or is built around.

    Args:
        model: `keras.Model`, or anything else, in which there is none.
        part: String, the attribute that a backbone must have:
            `"token_embedding"` or `"transformer_layers"`. KerasHub declares
            neither in its base class.

    Returns:
        List of `(path, backbone)`, each backbone once; the path of `model`
        itself is empty.
    """
    if not isinstance(model, keras.Layer):
        return []
    found = {
        id(layer): (path, layer)
        for path, layer in [("", model), *sublayers(model)]
        if isinstance(layer, keras_hub.models.Backbone) and hasattr(layer, part)
    }
    return list(found.values())


def backbone_class(preset):
    """The KerasHub class of a preset's backbone, before anything is loaded.

    Args:
        preset: String, the name of a preset, or a folder with one.

    Returns:
        Subclass of `keras_hub.models.Backbone`, or None where it is not known:
        for the folder of another library, for a preset of a task.
    """
    config = pathlib.Path(preset) / "config.json"
    if config.is_file():
        try:
            name = _files.read_json(config).get("class_name")
        except (ValueError, AttributeError):
            return None  # Who loads it says what is wrong with it.
        return getattr(keras_hub.models, str(name), None)
    kinds = [
        kind
        for name, kind in vars(keras_hub.models).items()
        if name.endswith("Backbone") and preset in kind.presets
    ]
    # A class lists the presets of its subclasses, too.
    return max(kinds, key=lambda kind: len(kind.__mro__), default=None)


def adapted_layer(model):
    """The first layer that is quantised or has LoRA weights, or None."""
    for layer in nested_layers(model):
        if layer.quantization_mode or has_adapters(layer):
            return layer
    return None


def longest_sequence_within(model):
    """The most tokens that the encoders in a model can read, None for any."""
    found = [
        backbone.get_config().get("max_sequence_length")
        for _, backbone in backbones(model, "token_embedding")
    ]
    return min(filter(None, found), default=None)


def longest_sequence(model):
    """The most tokens that a KerasHub task can read, None for any number."""
    return model.backbone.get_config().get("max_sequence_length")
