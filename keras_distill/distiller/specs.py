"""Shapes and dtypes of what a batch will hold, before there is one."""

import keras
import numpy as np

from keras_distill._backend import can_infer


def specs(tensors):
    """`KerasTensor`s of the same shapes and dtypes, batch size unknown."""
    return keras.tree.map_structure(
        lambda t: keras.KerasTensor(
            (None, *tuple(t.shape)[1:]),
            keras.backend.standardize_dtype(t.dtype),
        ),
        tensors,
    )


def is_dataset(x):
    """Whether `x` is a `tf.data.Dataset`, or a distributed one."""
    # Asked of the object, so that JAX does without importing TensorFlow.
    return hasattr(x, "element_spec")


def first_batch_specs(x):
    """Specs of the inputs that `fit(x)` will see, without using any up.

    Args:
        x: `tf.data.Dataset`, `keras.utils.PyDataset`, or nested arrays.

    Returns:
        Nested `keras.KerasTensor`s, or None where they cannot be known
        beforehand: `x` can only be read once, as a generator, or is of tensors
        that have no shape.
    """
    if is_dataset(x):
        return _dataset_specs(x)
    if isinstance(x, keras.utils.PyDataset):
        return specs(x[0][0])
    arrays = all(
        isinstance(leaf, np.ndarray) or keras.ops.is_tensor(leaf)
        for leaf in keras.tree.flatten(x)
    )
    return specs(x) if arrays else None


def holds_strings(x):
    """Whether the inputs that `fit(x)` will see hold strings.

    Args:
        x: As in `first_batch_specs`. What can be read only once is not read.
    """
    if is_dataset(x):
        x = _inputs(x.element_spec)
    elif isinstance(x, keras.utils.PyDataset):
        x = x[0][0]
    return any(_is_string(leaf) for leaf in keras.tree.flatten(x))


def _is_string(leaf):
    if isinstance(leaf, (str, bytes, np.str_, np.bytes_)):
        return True
    dtype = getattr(leaf, "dtype", None)
    if isinstance(dtype, np.dtype):
        return dtype.kind in "USO"
    return getattr(dtype, "name", None) == "string"


def _dataset_specs(dataset):
    import tensorflow as tf

    inputs = _inputs(dataset.element_spec)
    for spec in tf.nest.flatten(inputs):
        if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None:
            return None
    return specs(inputs if can_infer(inputs) else _inputs(next(iter(dataset))))


def _inputs(element):
    return element[0] if isinstance(element, tuple) else element
