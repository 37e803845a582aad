"""The few things that Keras has no public name for, in one place."""

import keras
from keras.src.backend import compute_output_spec
from keras.src.backend import get_keras_mask
from keras.src.backend import set_keras_mask
from keras.src.losses.loss import (
    reduce_weighted_values as reduce_weighted_values,
)
from keras.src.losses.loss import scale_loss_for_distribution
from keras.src.losses.loss import unscale_loss_for_distribution
from keras.src.trainers.compile_utils import CompileLoss as CompileLoss

SUPPORTED = ("tensorflow", "jax")

output_spec = compute_output_spec
get_mask = get_keras_mask
set_mask = set_keras_mask
scale_for_distribution = scale_loss_for_distribution
unscale_for_distribution = unscale_loss_for_distribution


def check_backend():
    """Raises `RuntimeError` on a Keras backend that is not supported."""
    if keras.backend.backend() not in SUPPORTED:
        raise RuntimeError(
            "keras_distill trains on the Keras backends "
            f"{' and '.join(SUPPORTED)}. Received: KERAS_BACKEND="
            f"{keras.backend.backend()}. Set it before importing keras"
        )


def can_infer(specs):
    """Whether `output_spec` works: JAX needs all sizes but the batch's."""
    return keras.backend.backend() != "jax" or all(
        None not in tuple(spec.shape)[1:] for spec in keras.tree.flatten(specs)
    )


def compile_reading(fn, variables):
    """`fn(*arrays)` compiled; reads the values of `variables` at each call.

    What `fn` assigns to them is kept on TensorFlow and dropped on JAX.
    """
    if keras.backend.backend() == "jax":
        import jax

        @jax.jit
        def pure(values, arrays):
            mapping = list(zip(variables, values))
            with keras.StatelessScope(state_mapping=mapping):
                return fn(*arrays)

        return lambda *arrays: pure([v.value for v in variables], arrays)
    import tensorflow as tf

    return tf.function(fn, autograph=False)


def producer(tensor):
    """The layer or operation whose output a symbolic tensor is."""
    return tensor._keras_history.operation
