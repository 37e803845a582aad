"""The few things that Keras has no public name for, in one place."""

import warnings

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

from keras_distill._replicas import joined
from keras_distill._replicas import shared

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


def load_model(path):
    """The model in a `.keras` file, not compiled.

    KerasHub compiles its tasks as it builds them, and then warns that the state
    of the file's optimizer does not fit.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Skipping variable loading")
        return keras.models.load_model(path, compile=False)


def accelerators():
    """The names of the devices other than processors, as `"gpu:0"`."""
    devices = map(str.lower, keras.distribution.list_devices())
    return [device for device in devices if not device.startswith("cpu")]


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
    """`fn` compiled with XLA; its arguments and results are nested tensors."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(fn)
    import tensorflow as tf

    return tf.function(fn, jit_compile=True, autograph=False)


def nested_layers(model):
    """All layers of `model`, at any depth."""
    return list(model._flatten_layers())


def prepare_batches(model, function, prepare, whole=()):
    """Keras' train or test `function`, on the batches that `prepare` makes.

    Args:
        model: `keras.Model`.
        function: `model.train_function` or `model.test_function`.
        prepare: Callable: the data of a step to the data in its place, for
            all devices.
        whole: Names of the entries that each device gets as they are; of the
            others it gets its rows.
    """
    if keras.backend.backend() == "jax":
        return _prepare_on_jax(model, function, prepare, whole)

    def prepared(iterator):
        data = prepare(joined(model, next(iterator)))
        return function(iter([shared(model, data, whole)]))

    return prepared


def _prepare_on_jax(model, function, prepare, whole):
    """`prepare_batches` where `fit` passes the variables' values as state.

    It takes them out of the variables: they are put back, so that `prepare`
    can read and assign them.
    """

    def prepared(state, iterator):
        data = next(iterator)
        kinds = ["trainable", "non_trainable", "optimizer", "metrics"]
        if len(state) == 3:
            kinds.remove("optimizer")
        names = [f"{kind}_variables" for kind in kinds]
        model._jax_state = dict(zip(names, state))
        model._jax_state_synced = False
        model.jax_state_sync()
        data = shared(model, prepare(data), whole)
        state = model._get_jax_state(
            **dict.fromkeys(names, True), purge_model_variables=True
        )
        model._jax_state_synced = False
        return function(state, iter([data]))

    return prepared


def after(value, tensors):
    """`value`, known no sooner than all of `tensors` are.

    Keeps TensorFlow from starting the next round of a loop beside this one.
    """
    if keras.backend.backend() == "jax":
        return value
    import tensorflow as tf

    with tf.control_dependencies(tensors):
        return tf.identity(value)
