"""What can be known to be wrong with stages before training starts."""

import keras

from keras_distill._checks import check_choice
from keras_distill._checks import check_positive
from keras_distill._replicas import number
from keras_distill._stage import inherited
from keras_distill.callbacks.freezing import resolve
from keras_distill.losses import LogitsLoss


def check_stages(stages, distiller, epochs):
    """Raises `ValueError` if these stages cannot run.

    Args:
        stages: List of `Stage`.
        distiller: `Distiller`, compiled.
        epochs: Integer, `fit(epochs=...)`.
    """
    total = sum(stage.epochs for stage in stages)
    if epochs < total:
        raise ValueError(
            "`fit` must be at least as long as the stages together. "
            f"Expected: epochs={total} or more. Received: epochs={epochs}"
        )
    for index, stage in enumerate(stages):
        label = stage.name or f"stage {index + 1}"
        try:
            _check_terms(inherited(stages, index), distiller)
            _check_frozen(stage.freeze, distiller)
            _check_temperature(stages, index, distiller)
            _check_learning_rate(stage, distiller.optimizer)
        except ValueError as error:
            raise ValueError(f"In {label}: {error}") from error


def _check_terms(settings, distiller):
    names = [match.name for match in distiller.matches]
    for name in settings.get("matches", ()):
        check_choice("matches", name, names)
    weights = distiller.schedules.weights_by_term
    on = [
        settings.get(f"{term}_weight", number(weights[term])) > 0
        for term in ("hard", "soft")
    ]
    if not any(on) and not settings.get("matches", names):
        raise ValueError(
            "nothing is left to learn from: `hard_weight` and `soft_weight` "
            "are 0 and no match is on"
        )


def _check_frozen(references, distiller):
    if not references:
        return
    if not distiller.built:
        raise ValueError(
            "`freeze` needs a student with weights. Call "
            "`distiller.prepare(inputs)` with one batch of inputs first"
        )
    frozen = {
        id(variable)
        for layer in resolve(distiller.student, references)
        for variable in layer.weights
    }
    if all(id(v) in frozen for v in distiller.trainable_variables):
        raise ValueError(
            f"`freeze` leaves nothing to train. Received: freeze={references}"
        )


def _check_temperature(stages, index, distiller):
    stage = stages[index]
    if stage.temperature is None:
        return
    replaced = inherited(stages, index).get("soft_loss")
    if replaced is None:
        bound = distiller.bound_temperatures
    else:
        bound = [
            loss
            for loss in keras.tree.flatten(replaced)
            if isinstance(loss, LogitsLoss)
            and isinstance(loss.temperature, (int, float))
        ]
    if not bound:
        raise ValueError(
            "`temperature` needs a soft loss with a temperature that is a "
            "number, such as `kd.losses.ForwardKL(4.0)`. Received: "
            f"temperature={stage.temperature!r}"
        )
    if callable(stage.temperature):
        for epoch in range(stage.epochs):
            check_positive("temperature", float(stage.temperature(epoch)))


def _check_learning_rate(stage, optimizer):
    variable = isinstance(optimizer.learning_rate, keras.Variable)
    if stage.learning_rate is not None and not variable:
        raise ValueError(
            "`learning_rate` needs an optimizer whose learning rate is a "
            "number. The optimizer was made with a schedule: make it with a "
            "number, and pass the schedule to the stage"
        )
