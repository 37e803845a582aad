"""What is private in Keras' `fit`: the data of a step, and its logs."""

import keras

from keras_distill._replicas import first_part
from keras_distill._replicas import joined
from keras_distill._replicas import shared
from keras_distill._replicas import workers


class OfAnyStrategy(keras.Model):
    """A model whose batches `tf.distribute` shares among any devices."""

    def build_for_fit(self, batch):
        """Makes the variables of losses and metrics from a replica's batch.

        Args:
            batch: What `fit` passes to a step.
        """
        self._symbolic_build(data_batch=batch)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # Keras takes the mean of the replicas' batches, which fails for masks
        # and wherever a replica is on another machine (its issue 20585).
        if self._distribute_strategy is None:
            return
        if iterator is not None:
            data_batch = next(next(iter(iterator))[2])
        with self.distribute_strategy.scope():
            self.build_for_fit(first_part(self, data_batch))

    def make_train_function(self, force=False):
        """Keras' own, for any number of workers."""
        if self.train_function is None or force:
            super().make_train_function(force)
            self.train_function = of_all_workers(self, self.train_function)

    def make_test_function(self, force=False):
        """Keras' own, for any number of workers."""
        if self.test_function is None or force:
            super().make_test_function(force)
            self.test_function = of_all_workers(self, self.test_function)


def of_all_workers(model, function):
    """Keras' train or test `function`, whose logs are means over all workers.

    Keras takes a mean over the rows of these scalars, which have none, and
    fails (its issue 20585). It asks when the function is traced, that is
    within a call.

    Args:
        model: `keras.Model`.
        function: `model.train_function` or `model.test_function`.
    """
    if workers(model) == 1 or keras.backend.backend() == "jax":
        return function
    from keras.src.backend.tensorflow import trainer

    own = trainer.reduce_per_replica

    def means(values, strategy, reduction):
        if reduction != "auto":
            return own(values, strategy, reduction)
        return keras.tree.map_structure(
            lambda value: strategy.reduce("MEAN", value, axis=None), values
        )

    def called(iterator):
        trainer.reduce_per_replica = means
        try:
            return function(iterator)
        finally:
            trainer.reduce_per_replica = own

    return called


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

    It takes them out of the variables, and donates their memory to the step:
    they are put back, so that `prepare` can read and assign them, and taken
    out again. `jax_state_sync` is public; the state that it reads is not.
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
        data = shared(model, prepare(joined(model, data)), whole)
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
