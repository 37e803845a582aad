"""Recurrent layers in a form that runs anywhere, while a graph is traced."""

import contextlib

import keras

from keras_distill._backend import nested_layers


def recurrent_layers(student):
    """All recurrent layers of `student`, at any depth."""
    return [
        layer
        for layer in nested_layers(student)
        if isinstance(layer, keras.layers.RNN)
    ]


@contextlib.contextmanager
def portable_recurrence(student):
    """Traces recurrent layers without cuDNN kernels.

    A graph traced on a machine with a GPU would otherwise hold operations that
    run on no other. The layers are as before afterwards.
    """
    layers = [
        layer
        for layer in recurrent_layers(student)
        if isinstance(layer, (keras.layers.LSTM, keras.layers.GRU))
    ]
    saved = [layer.use_cudnn for layer in layers]
    try:
        for layer in layers:
            layer.use_cudnn = False
        yield
    finally:
        for layer, use_cudnn in zip(layers, saved):
            layer.use_cudnn = use_cudnn
