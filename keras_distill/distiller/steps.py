"""One training step, on TensorFlow and on JAX."""

import keras

from keras_distill.distiller.inputs import attach_padding_mask
from keras_distill.distiller.inputs import split


def tensorflow_step(distiller, data):
    """Runs the teacher outside the tape and the student once inside it."""
    import tensorflow as tf

    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    signal = distiller.teacher_signal(x)
    with tf.GradientTape() as tape:
        loss, y_pred, terms = distiller.training_loss(
            x, y, sample_weight, signal
        )
        scaled = distiller.optimizer.scale_loss(loss)
    variables = distiller.trainable_weights
    gradients = tape.gradient(scaled, variables)
    distiller.optimizer.apply_gradients(zip(gradients, variables))
    distiller.update_terms(loss, terms, y_pred)
    return distiller.compute_metrics(x, y, y_pred, sample_weight)


def _mapping(variables, values):
    return list(zip(variables, values))


def _apply(distiller, gradients, trainable, frozen, optimizer_state):
    """As `stateless_apply`, where some of its variables may be frozen."""
    optimizer = distiller.optimizer
    if len(trainable) == len(optimizer._trainable_variables):
        return optimizer.stateless_apply(
            optimizer_state, gradients, [value for _, value in trainable]
        )
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError(
            "On JAX an optimizer with loss scaling cannot leave variables "
            "out. Train without `freeze`, `set_active` or mixed_float16; "
            "mixed_bfloat16 needs no loss scaling"
        )
    state = _mapping(optimizer.variables, optimizer_state)
    with keras.StatelessScope(trainable + frozen + state) as scope:
        optimizer.apply(gradients, [variable for variable, _ in trainable])
    return (
        [scope.get_current_value(variable) for variable, _ in trainable],
        [scope.get_current_value(variable) for variable, _ in state],
    )


def jax_step(distiller, state, data):
    """The same with Keras' stateless API; the teacher enters as state."""
    import jax

    trainable, non_trainable, optimizer_state, metrics_state = state
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    frozen = _mapping(distiller.non_trainable_variables, non_trainable)
    with keras.StatelessScope(state_mapping=frozen):
        signal = distiller.teacher_signal(x)

    def forward(trainable):
        mapping = _mapping(distiller.trainable_variables, trainable) + frozen
        with keras.StatelessScope(mapping, collect_losses=True) as scope:
            loss, y_pred, terms = distiller.training_loss(
                x, y, sample_weight, signal
            )
        updated = [
            scope.get_current_value(variable)
            for variable in distiller.non_trainable_variables
        ]
        optimizer = distiller.optimizer
        mapping = _mapping(optimizer.variables, optimizer_state)
        with keras.StatelessScope(mapping):
            scaled = optimizer.scale_loss(loss)
        return scaled, (loss, y_pred, terms, updated)

    gradient = jax.value_and_grad(forward, has_aux=True)
    (_, auxiliary), gradients = gradient(trainable)
    loss, y_pred, terms, non_trainable = auxiliary
    trainable, optimizer_state = _apply(
        distiller,
        gradients,
        _mapping(distiller.trainable_variables, trainable),
        frozen,
        optimizer_state,
    )
    mapping = _mapping(distiller.metrics_variables, metrics_state)
    with keras.StatelessScope(mapping) as scope:
        attach_padding_mask(y_pred, split(x)[1])
        distiller.update_terms(loss, terms, y_pred)
        logs = distiller.compute_metrics(x, y, y_pred, sample_weight)
    metrics_state = [
        scope.get_current_value(variable)
        for variable in distiller.metrics_variables
    ]
    return logs, (trainable, non_trainable, optimizer_state, metrics_state)


STEPS = {"tensorflow": tensorflow_step, "jax": jax_step}
