"""Stages of a training, and recipes made of them."""

from keras_distill import losses
from keras_distill._checks import check_integer
from keras_distill._stage import UNCHANGED as UNCHANGED
from keras_distill._stage import Stage as Stage
from keras_distill.schedules import StepDown


def annealing_kd_stages(
    max_temperature=7,
    epochs_per_temperature=2,
    hard_epochs=4,
    learning_rate=None,
    monitor="val_accuracy",
):
    """The two stages of Annealing-KD, for `kd.callbacks.StageSwitch`.

    Stage I trains on `||s - phi(T) t||^2` alone, with
    `phi(T) = 1 - (T - 1) / max_temperature`. `T` steps down from
    `max_temperature` to 1, each value for `epochs_per_temperature` epochs, so
    `phi` rises from `1 / max_temperature` to 1 and never exceeds it. Stage II
    goes on from the best student of stage I, with the compiled hard loss
    alone: the teacher is not run. Matches are off in both.

    Two controls tell what the annealing itself brings, and a result without
    them is not evidence for it:

    1. No annealing: the same stages with `phi = 1` throughout, for as many
       epochs. Replace stage I by `dataclasses.replace(stage,
       temperature=1.0)`.
    2. No stages: one training on `||s - t||^2` plus the cross-entropy,
       `compile(soft_loss=kd.losses.AnnealedMSE(max_temperature,
       temperature=1))` with both weights positive, for as many epochs.

    Args:
        max_temperature: Integer, at least 1. The first temperature.
        epochs_per_temperature: Integer, at least 1.
        hard_epochs: Integer, at least 1. The epochs of stage II.
        learning_rate: What `Stage` takes, for both stages; or a pair, one for
            each. `None` leaves the optimizer's.
        monitor: Metric by which the best student of stage I is chosen.

    Returns:
        List of two `Stage`, of `max_temperature * epochs_per_temperature`
        and of `hard_epochs` epochs.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> first, second = annealing_kd_stages(3, epochs_per_temperature=2)
    >>> [first.temperature(epoch) for epoch in range(first.epochs)]
    [3.0, 3.0, 2.0, 2.0, 1.0, 1.0]
    >>> second.restore_best
    'val_accuracy'

    Reference:
        Jafari et al., 2021, https://aclanthology.org/2021.eacl-main.212.
    """
    check_integer("max_temperature", max_temperature, minimum=1)
    check_integer("epochs_per_temperature", epochs_per_temperature, minimum=1)
    check_integer("hard_epochs", hard_epochs, minimum=1)
    if monitor is None:
        raise ValueError(
            "`monitor` must name a metric, by which the best student of stage "
            "I is chosen. Received: monitor=None"
        )
    if not isinstance(learning_rate, (list, tuple)):
        learning_rate = (learning_rate, learning_rate)
    if len(learning_rate) != 2:
        raise ValueError(
            "`learning_rate` must be one value or a pair, one for each stage. "
            f"Received: learning_rate={learning_rate!r}"
        )
    annealing = Stage(
        epochs=max_temperature * epochs_per_temperature,
        name="annealing",
        soft_loss=losses.AnnealedMSE(max_temperature),
        hard_weight=0.0,
        soft_weight=1.0,
        matches=(),
        temperature=StepDown(max_temperature, hold=epochs_per_temperature),
        learning_rate=learning_rate[0],
    )
    hard = Stage(
        epochs=hard_epochs,
        name="hard labels",
        hard_weight=1.0,
        soft_weight=0.0,
        matches=(),
        learning_rate=learning_rate[1],
        restore_best=monitor,
    )
    return [annealing, hard]
