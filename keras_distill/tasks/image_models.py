"""Models of images that others have made, as models of bytes."""

import math

import keras
import numpy as np
from keras import ops

from keras_distill._backend import symbolic_inputs

INPUT = "images"
# What images may have been brought to before a model: their own bytes first.
RANGES = ((1.0, 0.0), (1 / 255, 0.0), (1 / 127.5, -1.0))
# Of so many images of dev so much more must be right in another range, and by
# more than chance: so many standard errors of a share of one half.
ASKED, MUCH_BETTER, ERRORS = 200, 0.1, 3.0


def adapted(model, splits, preprocessor=None):
    """A model of the user's as one of the input `images`, uint8.

    Of a KerasHub task what its converter does to images comes into the model.
    Others may have been trained on images from 0 to 1, or -1 to 1, as they
    were given to it: where it knows dev much better so, it is.

    Args:
        model: `keras.Model`.
        splits: `data.ImageSplits`.
        preprocessor: The preprocessor of KerasHub that was in it, or None.

    Returns:
        `keras.Model`, the model itself or a new one around it.

    Raises:
        ValueError: It is no model of one input of known shape.
    """
    if symbolic_inputs(model) is None:
        raise ValueError(
            "A model of images must be functional or Sequential, with one "
            "input [batch, height, width, channels]. Wrap a subclassed one "
            "in `keras.Model(inputs, model(inputs))`. Received: "
            f"{type(model).__name__}"
        )
    input_shape(model)
    (tensor,) = model.inputs
    if tensor.name == INPUT and tensor.dtype == "uint8":
        # Of a tensor alone Keras would warn that batches are dicts.
        return keras.Model({INPUT: tensor}, model.outputs[0], name=model.name)
    converter = getattr(preprocessor, "image_converter", None)
    if converter is not None:
        return converted(model, splits.image_shape, converter)
    # Drawn: folders hold images class by class.
    rows = np.random.default_rng(0).permutation(len(splits.dev))[:ASKED]
    asked = splits.dev.take(rows)
    found = [_rescaled(model, splits.image_shape, *each) for each in RANGES]
    right = [_share_right(model, asked, splits.num_classes) for model in found]
    best = int(np.argmax(right))
    # Who guesses is no better in any range.
    guessed = np.bincount(asked.labels).max() / len(asked)
    better = max(MUCH_BETTER, ERRORS * math.sqrt(0.25 / len(asked)))
    is_better = right[best] > max(right[0], guessed) + better
    return found[best if is_better else 0]


def converted(model, image_shape, converter):
    """A model with what its converter does to images inside it.

    Args:
        model: `keras.Model`, whose preprocessor is taken off.
        image_shape: Tuple: height, width, channels of the task's images.
        converter: `keras_hub.layers.ImageConverter`.
    """
    images = keras.Input(image_shape, dtype="uint8", name=INPUT)
    x = ops.cast(images, keras.config.floatx())
    if image_shape[-1] == 1:
        x = ops.repeat(x, 3, axis=-1)
    if converter.image_size is not None:
        # Not the layer: it takes every call for one of a training.
        x = ops.image.resize(
            x, converter.image_size, data_format="channels_last"
        )
    scale = 1.0 if converter.scale is None else converter.scale
    offset = 0.0 if converter.offset is None else converter.offset
    x = keras.layers.Rescaling(scale, offset)(x)
    return keras.Model({INPUT: images}, model(x), name=model.name)


def input_shape(model):
    """Height, width, channels that a model takes; None where any will do.

    Raises:
        ValueError: It has not one input of images.
    """
    shapes = [tuple(tensor.shape[1:]) for tensor in model.inputs or ()]
    if len(shapes) != 1 or len(shapes[0]) != 3:
        raise ValueError(
            "A model of images must have one input [batch, height, width, "
            f"channels]. Received: inputs of shape {shapes}"
        )
    return shapes[0]


def _rescaled(model, image_shape, scale, offset):
    images = keras.Input(image_shape, dtype="uint8", name=INPUT)
    x = ops.cast(images, keras.config.floatx())
    if (scale, offset) != RANGES[0]:
        x = keras.layers.Rescaling(scale, offset)(x)
    return keras.Model({INPUT: images}, model(x), name=model.name)


def _share_right(model, rows, num_classes):
    """The share of images that it knows; 0 where its outputs are no classes."""
    logits = ops.convert_to_numpy(model({INPUT: rows.images}, training=False))
    if logits.shape != (len(rows), num_classes):
        return 0.0
    return float(np.mean(logits.argmax(axis=-1) == rows.labels))
