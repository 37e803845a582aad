"""Batches between one process and the devices that share each of them."""

import contextlib
import functools

import keras
import numpy as np


def replicas(model):
    """Into how many parts Keras splits a batch of `model`.

    Raises:
        ValueError: if a strategy of TensorFlow splits it in another way.
    """
    if keras.backend.backend() == "jax":
        return _jax_replicas()
    import tensorflow as tf

    strategy = model.distribute_strategy
    number = strategy.num_replicas_in_sync
    mirrored = (
        tf.distribute.MirroredStrategy,
        tf.distribute.MultiWorkerMirroredStrategy,
    )
    if number > 1 and not isinstance(strategy, mirrored):
        raise ValueError(
            "A batch can be shared by `tf.distribute.MirroredStrategy` and "
            "`MultiWorkerMirroredStrategy`, or by `keras.distribution` with "
            f"the JAX backend. Received: {type(strategy).__name__}"
        )
    return number


def workers(model):
    """How many processes train `model` together.

    On TensorFlow those of its `tf.distribute` strategy, on JAX those that
    `jax.distributed` has joined.
    """
    if keras.backend.backend() == "jax":
        import jax

        return jax.process_count()
    return max(1, len(_cluster(model)))


def worker(model):
    """Which of `workers(model)` this process is; the first writes files."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.process_index()
    resolver = model.distribute_strategy.cluster_resolver
    tasks = _cluster(model)
    return tasks.index((resolver.task_type, resolver.task_id)) if tasks else 0


def of_workers(model, number):
    """An integer of each of `workers(model)`, in their order."""
    if workers(model) == 1:
        return [number]
    if keras.backend.backend() == "jax":
        from jax.experimental import multihost_utils

        return multihost_utils.process_allgather(np.array(number)).tolist()
    return _gathered(model.distribute_strategy)([number]).numpy().tolist()


@functools.lru_cache(1)
def _gathered(strategy):
    """A function that gives integers of all workers, row by row.

    Booleans become integers: what is sent between workers has none.
    """
    import tensorflow as tf

    @tf.function(reduce_retracing=True)
    def gathered(value):
        value = strategy.run(tf.cast, args=(value, tf.int32))
        return strategy.gather(value, axis=0)

    return gathered


def _cluster(model):
    """The processes of a strategy's cluster as `(type, index)`, chief first."""
    resolver = model.distribute_strategy.cluster_resolver
    if resolver is None:
        return []
    spec = resolver.cluster_spec()
    return [
        (kind, index)
        for kind in ("chief", "worker")
        if kind in spec.jobs
        for index in spec.task_indices(kind)
    ]


def scope(model):
    """Where a variable of `model` is made, so that each device gets its own."""
    if keras.backend.backend() == "jax":
        return contextlib.nullcontext()
    return model.distribute_strategy.scope()


def _jax_replicas():
    distribution = keras.distribution.distribution()
    if distribution is None:
        return 1
    mesh = distribution.device_mesh
    return mesh.shape[mesh.axis_names.index(distribution.batch_dim_name)]


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
    """The whole batch, of all workers, of what the replicas here get.

    Args:
        model: `keras.Model`.
        data: Nested integers and booleans; they come back as int32 arrays
            where another worker has some of them.
    """
    if keras.backend.backend() == "jax":
        return _joined_on_jax(data)
    if replicas(model) == 1:
        return data
    import tensorflow as tf

    strategy = model.distribute_strategy

    def join(value):
        if workers(model) > 1:
            return _gathered(strategy)(value).numpy()
        if not isinstance(value, tf.distribute.DistributedValues):
            return value
        parts = strategy.experimental_local_results(value)
        return np.concatenate([np.asarray(part) for part in parts])

    return keras.tree.map_structure(join, data)


def _joined_on_jax(data):
    import jax

    if jax.process_count() == 1:
        return data
    from jax.experimental import multihost_utils

    return multihost_utils.process_allgather(data, tiled=True)


def first_part(model, data):
    """What one of the replicas here gets of what TensorFlow's replicas get."""
    results = model.distribute_strategy.experimental_local_results
    return keras.tree.map_structure(lambda value: results(value)[0], data)


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
