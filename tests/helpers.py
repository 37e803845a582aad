"""What tests need from the backend in use."""

import subprocess
import sys

import keras
import numpy as np


def gradients(fn, *arrays):
    """Gradients of the scalar `fn(*arrays)`; zeros where nothing flows."""
    arrays = [np.asarray(a, "float32") for a in arrays]
    if keras.backend.backend() == "jax":
        import jax

        found = jax.grad(fn, argnums=tuple(range(len(arrays))))(*arrays)
        return [np.asarray(g) for g in found]
    import tensorflow as tf

    variables = [tf.Variable(a) for a in arrays]
    with tf.GradientTape() as tape:
        value = fn(*[tf.convert_to_tensor(v) for v in variables])
    found = tape.gradient(value, variables)
    return [
        np.zeros_like(a) if g is None else g.numpy()
        for a, g in zip(arrays, found)
    ]


def cast(state, dtype):
    """A state, or a pair of them, in another precision."""
    return keras.tree.map_structure(lambda x: keras.ops.cast(x, dtype), state)


def compiled(fn):
    """`fn` as the backend compiles it, with XLA."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(fn)
    import tensorflow as tf

    return tf.function(fn, jit_compile=True)


def twin(thing):
    """`thing` after serialisation and back."""
    return keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(thing)
    )


def run_snippets(card):
    """Runs the code of a card where it lies; what it prints."""
    blocks = card.read_text().split("```python\n")[1:]
    return [
        subprocess.run(
            [sys.executable, "-c", block.split("```")[0]],
            cwd=card.parent,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for block in blocks
    ]
