"""Arms in words, and as JSON holds them."""

import dataclasses

from keras_distill.stages import UNCHANGED

TOLD = {"temperature", "temperature_squared", "beta", "max_temperature"}


def describe(arm, epochs):
    """What an arm learns from, in words.

    Args:
        arm: `Arm`.
        epochs: Integer, how long the training lasts.
    """
    words = []
    if not arm.is_distilled:
        words.append("cross-entropy with the labels")
    elif arm.stages:
        words += _each_stage(arm, epochs)
    else:
        words.append(_weighted(arm.hard_weight, arm.soft_weight, arm.soft_loss))
    if arm.matches:
        words.append("matched hidden states")
    if arm.transfer and arm.is_distilled:
        words.append("labelled and unlabelled text")
    elif arm.transfer:
        words.append("unlabelled text with the class that the teacher predicts")
    return "; ".join(words)


def _each_stage(arm, epochs):
    hard, soft, loss = arm.hard_weight, arm.soft_weight, arm.soft_loss
    for stage in arm.stages(epochs):
        if stage.hard_weight is not None:
            hard = stage.hard_weight
        if stage.soft_weight is not None:
            soft = stage.soft_weight
        if stage.soft_loss is not UNCHANGED:
            loss = stage.soft_loss
        told = _weighted(hard, soft, loss, _temperatures(stage))
        yield f"{stage.epochs} epochs: {told}"


def _weighted(hard, soft, soft_loss, temperature=None):
    """The sum that is minimised, in words; a part of weight 0 is left out."""
    parts = [(hard, "cross-entropy with the labels")]
    config = plain(soft_loss)
    name = "soft loss"
    if isinstance(config, dict) and "class" in config:
        name = config.pop("class")
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


def plain(value):
    """`value` as JSON holds it; objects by class and configuration.

    A function is known by its name alone.
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {f.name: plain(getattr(value, f.name)) for f in fields}
    if hasattr(value, "get_config"):
        config = plain(value.get_config())
        # Keras counts the objects of a process in their default names.
        config.pop("name", None)
        return {"class": type(value).__name__, **config}
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    return repr(value)
