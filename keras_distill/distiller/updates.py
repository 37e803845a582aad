"""Learning-rate multipliers of single variables, for any Keras optimizer."""


def scale_updates(optimizer, multipliers):
    """Makes `optimizer` scale the learning rate of some variables.

    Args:
        optimizer: `keras.optimizers.Optimizer`, also one wrapped for loss
            scaling.
        multipliers: List of pairs, a variable and a number. With `0` a
            variable is frozen: neither it nor its slots change, nor does it
            decay.
    """
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    # On TensorFlow Keras passes on the variable inside its own.
    key = optimizer._var_key
    by_key = {key(variable): number for variable, number in multipliers}
    update_step = type(optimizer).update_step
    decays = type(optimizer)._use_weight_decay

    def scaled_update_step(gradient, variable, learning_rate):
        multiplier = by_key.get(key(variable), 1.0)
        if multiplier:
            learning_rate = learning_rate * multiplier
            update_step(optimizer, gradient, variable, learning_rate)

    def decays_unless_frozen(variable):
        frozen = by_key.get(key(variable), 1.0) == 0
        return not frozen and decays(optimizer, variable)

    optimizer.update_step = scaled_update_step
    optimizer._use_weight_decay = decays_unless_frozen
