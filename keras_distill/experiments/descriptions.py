"""What a recipe teaches, in words."""

import keras

from keras_distill.stages import UNCHANGED

TOLD = {"temperature", "temperature_squared", "beta", "max_temperature"}


def describe(recipe, epochs, labels="cross-entropy with the labels"):
    """What a student learns from, in words.

    Args:
        recipe: `Recipe`.
        epochs: Integer, how long the training lasts.
        labels: String, what is minimised on the labels (`Task.hard_words`).
    """
    if not recipe.trains:
        return "nothing: the student as it starts"
    words = []
    if not recipe.is_distilled:
        words.append(labels)
    elif recipe.stages:
        words += _each_stage(recipe, epochs, labels)
    else:
        words.append(
            _weighted(
                (recipe.hard_weight, labels),
                recipe.soft_weight,
                recipe.soft_loss,
            )
        )
    if recipe.callbacks:
        words.append("weights and temperature on a schedule")
    if recipe.matches:
        words.append(_states(recipe))
    if recipe.transfer and recipe.is_distilled:
        words.append("labelled and unlabelled text")
    elif recipe.transfer:
        words.append("unlabelled text with what the teacher predicts")
    return "; ".join(words)


def _states(recipe):
    if recipe.signals:
        return "the teacher's states, averaged over a text"
    return "matched hidden states"


def _each_stage(recipe, epochs, labels):
    hard, soft, loss = recipe.hard_weight, recipe.soft_weight, recipe.soft_loss
    for stage in recipe.stages(epochs):
        if stage.hard_weight is not None:
            hard = stage.hard_weight
        if stage.soft_weight is not None:
            soft = stage.soft_weight
        if stage.soft_loss is not UNCHANGED:
            loss = stage.soft_loss
        told = _weighted((hard, labels), soft, loss, _temperatures(stage))
        yield f"{stage.epochs} epochs: {told}"


def _weighted(hard, soft, soft_loss, temperature=None):
    """The sum that is minimised, in words; a part of weight 0 is left out."""
    parts = [hard]
    name = "soft loss"
    if isinstance(soft_loss, keras.losses.Loss):
        name, config = type(soft_loss).__name__, soft_loss.get_config()
        if temperature is not None and "temperature" in config:
            config["temperature"] = temperature
        told = ", ".join(
            f"{key} {value}"
            for key, value in config.items()
            if isinstance(value, int | float | str) and key in TOLD
        )
        name += f" ({told})" if told else ""
    parts.append((soft, name))
    return " + ".join(f"{by:g} x {what}" for by, what in parts if by)


def _temperatures(stage):
    """The temperature of a stage, or its first and last one, or None."""
    if not callable(stage.temperature):
        return stage.temperature
    ends = (float(stage.temperature(e)) for e in (0, stage.epochs - 1))
    return " to ".join(f"{value:g}" for value in ends)
