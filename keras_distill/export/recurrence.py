"""Recurrent layers in a form that runs anywhere, while a graph is traced."""

import contextlib

import keras


def recurrent_layers(student):
    """All recurrent layers of `student`, at any depth."""
    return [
        layer
        for layer in student._flatten_layers()
        if isinstance(layer, keras.layers.RNN)
    ]


@contextlib.contextmanager
def portable_recurrence(student, unroll=False):
    """Traces without cuDNN kernels, and with loops unrolled where asked.

    A graph traced on a machine with a GPU would otherwise hold operations that
    run on no other. The layers are as before afterwards.
    """
    settings = {"use_cudnn": False}
    if unroll:
        settings["unroll"] = True
    saved = []
    try:
        for layer in recurrent_layers(student):
            for name, value in settings.items():
                if hasattr(layer, name):
                    saved.append((layer, name, getattr(layer, name)))
                    setattr(layer, name, value)
        yield
    finally:
        for layer, name, value in saved:
            setattr(layer, name, value)
