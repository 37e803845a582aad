"""Batches between one process and the devices that share each of them."""

import contextlib

import keras
import numpy as np


def replicas(model):
    """Into how many parts Keras splits a batch of `model`.

    Raises:
        ValueError: if some of the parts are on other machines.
    """
    if keras.backend.backend() == "jax":
        return _jax_replicas()
    import tensorflow as tf

    strategy = model.distribute_strategy
    number = strategy.num_replicas_in_sync
    if number > 1 and not isinstance(strategy, tf.distribute.MirroredStrategy):
        raise ValueError(_of_one_machine(type(strategy).__name__))
    return number


def scope(model):
    """Where a variable of `model` is made, so that each device gets its own."""
    if keras.backend.backend() == "jax":
        return contextlib.nullcontext()
    return model.distribute_strategy.scope()


def _jax_replicas():
    distribution = keras.distribution.distribution()
    if distribution is None:
        return 1
    import jax

    if jax.process_count() > 1:
        raise ValueError(_of_one_machine(f"{jax.process_count()} processes"))
    mesh = distribution.device_mesh
    return mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)]


def _of_one_machine(received):
    return (
        "A batch can be shared by the devices of one machine: use "
        "`tf.distribute.MirroredStrategy`, or `keras.distribution` with the "
        f"JAX backend and one process. Received: {received}"
    )


def number(variable):
    """The value of a scalar variable, also of one that replicas mirror."""
    return np.asarray(variable).item()


def sharing():
    """How many replicas share the batch of the step that is computed here.

    On JAX a step computes with the whole batch, whoever holds it.
    """
    if keras.backend.backend() == "jax":
        return 1
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return 1 if context is None else context.num_replicas_in_sync


def over_replicas(value):
    """The sum over the replicas of a tensor that needs no gradient."""
    if sharing() == 1:
        return value
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    return context.all_reduce(tf.distribute.ReduceOp.SUM, value)


def joined(model, data):
    """The whole batch of what TensorFlow's replicas would get."""
    if replicas(model) == 1:
        return data
    import tensorflow as tf

    def join(value):
        if not isinstance(value, tf.distribute.DistributedValues):
            return value
        parts = model.distribute_strategy.experimental_local_results(value)
        return np.concatenate([np.asarray(part) for part in parts])

    return keras.tree.map_structure(join, data)


def shared(model, batch, whole):
    """The batch as Keras' compiled step takes it, a part for each replica.

    Args:
        model: `keras.Model`.
        batch: Dict of arrays, whose rows the number of replicas divides.
        whole: Names of the entries that every replica gets as they are.
    """
    number = replicas(model)
    if number == 1:
        return batch
    if keras.backend.backend() == "jax":
        return {
            name: _on_jax_devices(value, split=name not in whole)
            for name, value in batch.items()
        }

    def part(context):
        index = context.replica_id_in_sync_group
        return {
            name: value if name in whole else np.split(value, number)[index]
            for name, value in batch.items()
        }

    strategy = model.distribute_strategy
    return strategy.experimental_distribute_values_from_function(part)


def _on_jax_devices(value, split):
    distribution = keras.distribution.distribution()
    layout = distribution.get_data_layout(value.shape)
    if not split:
        axes = [None] * len(value.shape)
        layout = keras.distribution.TensorLayout(axes, layout.device_mesh)
    return keras.distribution.distribute_tensor(value, layout)
