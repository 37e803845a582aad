"""Gradients and compiled functions of tensors, on TensorFlow and on JAX."""

import keras


def vjp(function, *arguments):
    """`function(*arguments)`, and its pull-back of a gradient of that value.

    The pull-back is called once and gives one gradient for each argument.
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.vjp(function, *arguments)
    import tensorflow as tf

    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(arguments)
        value = function(*arguments)

    def pull_back(gradient):
        return tape.gradient(value, arguments, gradient, "zero")

    return value, pull_back


def compile_pure(fn):
    """`fn` compiled with XLA; its arguments and results are nested tensors.

    XLA fuses the many small operations of a decoding step, each of which
    TensorFlow would schedule by itself: that is most of a step's time.
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(fn)
    import tensorflow as tf

    return tf.function(fn, jit_compile=True, autograph=False)


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
