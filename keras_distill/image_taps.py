"""Taps inside models of images: the maps that end their stages."""

import keras

from keras_distill._layers import output_shape
from keras_distill._layers import sublayers
from keras_distill.taps import Tap

# Layers of images that compute nothing of their own.
NO_MAPS = (
    keras.layers.InputLayer,
    keras.layers.ZeroPadding2D,
    keras.layers.Rescaling,
    keras.layers.Normalization,
    keras.layers.Resizing,
    keras.Model,
)


def feature_maps(model):
    """Taps of a model of images, the last of each size.

    Args:
        model: A functional model of images, or one around such models.

    Returns:
        List of taps, `[batch, height, width, channels]` each, in the order
        that the model computes them: of every height and width the last
        layer's output, as a stage of a residual network ends.

    Raises:
        ValueError: if no layer has such an output, or none of a known size.

    Example:

    >>> import keras
    >>> model = keras.Sequential([
    ...     keras.Input((8, 8, 3)), keras.layers.Conv2D(4, 3, padding="same"),
    ...     keras.layers.ReLU(), keras.layers.Conv2D(8, 3, 2, "same")])
    >>> [tap.layer.output.shape[1:] for tap in feature_maps(model)]
    [(8, 8, 4), (4, 4, 8)]
    """
    found = {}
    for path, layer in sublayers(model):
        shape = output_shape(layer)
        if (
            shape is not None
            and len(shape) == 4
            and None not in shape[1:]
            # One position is no map: squeezed channels, say.
            and max(shape[1:3]) > 1
            and not isinstance(layer, NO_MAPS)
        ):
            # Put last again: a size that comes back is of a later stage.
            found.pop(shape[1:3], None)
            found[shape[1:3]] = Tap(layer, path)
    if not found:
        raise ValueError(
            "Expected a functional model with feature maps [batch, height, "
            "width, channels] of known sizes. Pass the layers themselves or "
            f"their paths to `Match`. Received: model={model.name!r}"
        )
    return list(found.values())
