"""One update of a GKD training, on TensorFlow and on JAX.

Both split the batch into micro-batches whose gradients add up to those of the
whole batch: the numbers of tokens are counted before.
"""

import keras
from keras import ops

from keras_distill._replicas import replicas
from keras_distill.gkd.rollout import COUNTS
from keras_distill.gkd.rollout import OF_THE_BATCH


def _parts(x, size):
    """The batch as `[micro-batches, rows, ...]` arrays."""
    rows = {
        name: value for name, value in x.items() if name not in OF_THE_BATCH
    }
    if size is None:
        return {name: value[None] for name, value in rows.items()}
    return {
        name: ops.reshape(value, (-1, size, *ops.shape(value)[1:]))
        for name, value in rows.items()
    }


def _part(parts, index):
    return {name: value[index] for name, value in parts.items()}


def tensorflow_step(distiller, x):
    """Adds up the gradients of all micro-batches and applies them."""
    import tensorflow as tf

    counts = x[COUNTS]
    variables = distiller.trainable_variables
    parts = _parts(x, distiller.micro_batch_size)
    number = ops.shape(parts["token_ids"])[0]

    def add(index, gradients, terms):
        part = _part(parts, index)
        teacher_states = distiller.token_losses.teacher_states(part)
        with tf.GradientTape() as tape:
            loss, more = distiller.training_loss(
                part, teacher_states, counts, number
            )
            scaled = distiller.optimizer.scale_loss(loss)
        found = tape.gradient(scaled, variables, unconnected_gradients="zero")
        gradients = [a + b for a, b in zip(gradients, found)]
        return index + 1, gradients, terms + more

    start = (0, [tf.zeros_like(v) for v in variables], tf.zeros(3))
    if distiller.micro_batch_size is None:
        _, gradients, terms = add(*start)
    else:
        _, gradients, terms = tf.while_loop(
            lambda index, *_: index < number,
            add,
            start,
            # One at a time: that is what saves memory.
            parallel_iterations=1,
        )
    distiller.optimizer.apply_gradients(zip(gradients, variables))
    distiller.update_metrics(x, _of_all_replicas(distiller, terms), counts)
    return distiller.get_metrics_result()


def _mapping(variables, values):
    return list(zip(variables, values))


def _current(scope, variables):
    return [scope.get_current_value(variable) for variable in variables]


def _jax_gradient(distiller, counts, number, optimizer_state):
    """A function: values of variables and a part to gradients and values."""
    import jax

    optimizer = distiller.optimizer

    def forward(trainable, non_trainable, part):
        frozen = _mapping(distiller.non_trainable_variables, non_trainable)
        with keras.StatelessScope(state_mapping=frozen):
            teacher_states = distiller.token_losses.teacher_states(part)
        mapping = _mapping(distiller.trainable_variables, trainable) + frozen
        with keras.StatelessScope(mapping, collect_losses=True) as scope:
            loss, terms = distiller.training_loss(
                part, teacher_states, counts, number
            )
        updated = _current(scope, distiller.non_trainable_variables)
        with keras.StatelessScope(
            _mapping(optimizer.variables, optimizer_state)
        ):
            scaled = optimizer.scale_loss(loss)
        return scaled, (terms, updated)

    return jax.grad(forward, has_aux=True)


def jax_step(distiller, state, x):
    """The same with Keras' stateless API; the teacher enters as state."""
    import jax

    trainable, non_trainable, optimizer_state, metrics_state = state
    counts = x[COUNTS]
    size = distiller.micro_batch_size
    # The step sees the batch of all devices, of which each has its rows.
    parts = _parts(x, size and size * replicas(distiller))
    number = len(parts["token_ids"])
    gradient = _jax_gradient(distiller, counts, number, optimizer_state)

    def add(carry, part):
        gradients, terms, non_trainable = carry
        found, (more, updated) = gradient(trainable, non_trainable, part)
        gradients = [a + b for a, b in zip(gradients, found)]
        return (gradients, terms + more, updated), None

    start = [ops.zeros_like(v) for v in trainable], ops.zeros(3), non_trainable
    if distiller.micro_batch_size is None:
        end, _ = add(start, _part(parts, 0))
    else:
        end, _ = jax.lax.scan(add, start, parts)
    gradients, terms, non_trainable = end
    trainable, optimizer_state = distiller.optimizer.stateless_apply(
        optimizer_state, gradients, trainable
    )
    logs, metrics_state = _jax_logs(
        distiller, metrics_state, (x, terms, counts)
    )
    return logs, (trainable, non_trainable, optimizer_state, metrics_state)


def _jax_logs(distiller, metrics_state, arguments):
    variables = distiller.metrics_variables
    mapping = _mapping(variables, metrics_state)
    with keras.StatelessScope(mapping) as scope:
        distiller.update_metrics(*arguments)
        logs = distiller.get_metrics_result()
    return logs, _current(scope, variables)


def tensorflow_test_step(distiller, x):
    """Updates the metrics with the losses of a batch."""
    counts = x[COUNTS]
    terms = _of_all_replicas(distiller, _evaluated(distiller, x, counts))
    distiller.update_metrics(x, terms, counts)
    return distiller.get_metrics_result()


def _of_all_replicas(distiller, terms):
    """A replica's shares of the sums, for metrics that take means."""
    return terms * distiller.distribute_strategy.num_replicas_in_sync


def _evaluated(distiller, x, counts):
    teacher_states = distiller.token_losses.teacher_states(x)
    return distiller.training_loss(x, teacher_states, counts, 1, False)[1]


def jax_test_step(distiller, state, x):
    """The same with Keras' stateless API."""
    trainable, non_trainable, metrics_state = state
    mapping = _mapping(distiller.trainable_variables, trainable)
    mapping += _mapping(distiller.non_trainable_variables, non_trainable)
    counts = x[COUNTS]
    with keras.StatelessScope(mapping, collect_losses=True):
        terms = _evaluated(distiller, x, counts)
    logs, metrics_state = _jax_logs(
        distiller, metrics_state, (x, terms, counts)
    )
    return logs, (trainable, non_trainable, metrics_state)


STEPS = {"tensorflow": tensorflow_step, "jax": jax_step}
TEST_STEPS = {"tensorflow": tensorflow_test_step, "jax": jax_test_step}
