"""The train step on JAX, with Keras' stateless API."""

import keras

from keras_distill._backend import variables_of
from keras_distill.inputs import attach_padding_mask
from keras_distill.inputs import split


def _mapping(variables, values):
    return list(zip(variables, values))


def _current(scope, variables):
    return [scope.get_current_value(variable) for variable in variables]


def _apply(optimizer, state, gradients, trainable, frozen):
    """As `stateless_apply`, where some of its variables may be frozen."""
    if len(trainable) == len(variables_of(optimizer)):
        values = [value for _, value in trainable]
        return optimizer.stateless_apply(state, gradients, values)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError(
            "On JAX an optimizer with loss scaling cannot leave variables "
            "out. Train without `freeze`, `set_active` or mixed_float16; "
            "mixed_bfloat16 needs no loss scaling"
        )
    slots = _mapping(optimizer.variables, state)
    variables = [variable for variable, _ in trainable]
    with keras.StatelessScope(trainable + frozen + slots) as scope:
        optimizer.apply(gradients, variables)
    return _current(scope, variables), _current(scope, optimizer.variables)


def train_step(distiller, state, data):
    """One step on JAX; the teacher's values enter as state.

    As constants they would be compiled into the step, and a changed teacher
    would go unnoticed.

    Args:
        distiller: `Distiller`.
        state: Tuple of lists of values, as `keras.Model` passes them.
        data: Batch.

    Returns:
        Pair of the logs and the new state.
    """
    import jax

    trainable, non_trainable, optimizer_state, metrics_state = state
    optimizer = distiller.optimizer
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    frozen = _mapping(distiller.non_trainable_variables, non_trainable)
    with keras.StatelessScope(frozen):
        signal = distiller.teacher_signal(x)

    def forward(trainable):
        mapping = _mapping(distiller.trainable_variables, trainable) + frozen
        with keras.StatelessScope(mapping, collect_losses=True) as scope:
            loss, y_pred, terms = distiller.training_loss(
                x, y, sample_weight, signal
            )
        updated = _current(scope, distiller.non_trainable_variables)
        slots = _mapping(optimizer.variables, optimizer_state)
        with keras.StatelessScope(slots):
            scaled = optimizer.scale_loss(loss)
        return scaled, (loss, y_pred, terms, updated)

    gradient = jax.grad(forward, has_aux=True)
    gradients, (loss, y_pred, terms, non_trainable) = gradient(trainable)
    trainable, optimizer_state = _apply(
        optimizer,
        optimizer_state,
        gradients,
        _mapping(distiller.trainable_variables, trainable),
        frozen,
    )
    with keras.StatelessScope(
        _mapping(distiller.metrics_variables, metrics_state)
    ) as scope:
        # What leaves `jax.grad` has lost its Keras mask.
        attach_padding_mask(y_pred, split(x)[1])
        distiller.update_metrics(loss, terms, y_pred)
        logs = distiller.compute_metrics(x, y, y_pred, sample_weight)
    metrics_state = _current(scope, distiller.metrics_variables)
    return logs, (trainable, non_trainable, optimizer_state, metrics_state)
