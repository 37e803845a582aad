"""Layers with LoRA weights, and what files hold of them."""

import contextlib
import functools

from keras_distill._backend import nested_layers


def has_adapters(layer):
    """Whether a layer itself has LoRA weights."""
    # Keras declares `lora_enabled` in the layers alone that can have it.
    return getattr(layer, "lora_enabled", False)


def adapters(model):
    """The LoRA weights in a model, at any depth."""
    return [
        variable
        for layer in nested_layers(model)
        if has_adapters(layer)
        for variable in layer._trainable_variables
        if variable.name.startswith("lora_")
    ]


def frozen_weights(model):
    """The weights that layers could train and do not, at any depth."""
    return [
        variable
        for layer in nested_layers(model)
        for variable in layer._trainable_variables
        if not variable.trainable
    ]


@contextlib.contextmanager
def as_they_are(model, without=()):
    """Within it `model` saves and loads its adapters as they are.

    Keras saves the kernel with the adapters in it, and sets both adapters to 0
    when that is loaded. Their product is right then, but the gradient of each
    is a multiple of the other: a training that goes on would never change them.

    Args:
        model: `keras.Model`.
        without: Variables that stay out of the file, and what they are.
    """
    out = set(map(id, without))
    layers = [
        layer
        for layer in nested_layers(model)
        if has_adapters(layer)
        or any(id(v) in out for v in layer._trainable_variables)
    ]
    for layer in layers:
        # Past Keras' own `__setattr__`, which would track them.
        vars(layer).update(
            save_own_variables=functools.partial(_save, layer, out),
            load_own_variables=functools.partial(_load, layer, out),
        )
    try:
        yield
    finally:
        for layer in layers:
            del vars(layer)["save_own_variables"]
            del vars(layer)["load_own_variables"]


def _kept(layer, out):
    own = [*layer._trainable_variables, *layer._non_trainable_variables]
    return [v for v in own if id(v) not in out]


def _save(layer, out, store):
    for index, variable in enumerate(_kept(layer, out)):
        store[str(index)] = variable


def _load(layer, out, store):
    for index, variable in enumerate(_kept(layer, out)):
        variable.assign(store[str(index)])
