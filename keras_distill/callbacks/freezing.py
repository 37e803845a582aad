"""Freezing layers for a while, and giving them back as they were."""

from keras_distill import taps
from keras_distill._backend import nested_layers


class Freezer:
    """Sets layers to not trainable and back.

    Args:
        student: `keras.Model`.
    """

    def __init__(self, student):
        self.student = student
        self._layers = []
        self._variables = []

    def freeze(self, references):
        """Freezes these layers, and all below them.

        Args:
            references: Layers, names or `/`-separated paths of the student.

        Raises:
            ValueError: if the student has no such layer, or several.
        """
        layers = resolve(self.student, references)
        student = self.student
        self._layers = [(x, x.trainable) for x in nested_layers(student)]
        self._variables = [(v, v.trainable) for v in student.weights]
        for layer in layers:
            layer.trainable = False

    def thaw(self):
        """Gives every layer and variable the flag it had before `freeze`."""
        while any(x.trainable != flag for x, flag in self._layers):
            for layer, flag in self._layers:
                if layer.trainable != flag:  # This sets the layers below too.
                    layer.trainable = flag
        for variable, flag in self._variables:
            variable.trainable = flag
        self._layers, self._variables = [], []


def resolve(student, references):
    """The layers that `references` name."""
    return [taps.resolve(student, reference).layer for reference in references]
