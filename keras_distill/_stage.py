"""What one stage of a training changes."""

import dataclasses

import keras

from keras_distill._checks import check_choice
from keras_distill._checks import check_integer
from keras_distill._checks import check_positive
from keras_distill._checks import check_weight

MAXIMISED = ("acc", "auc", "f1", "precision", "recall", "score")
MINIMISED = ("loss", "error", "mse", "mae", "entropy", "perplexity", "diverg")
INHERITED = ("loss", "soft_loss", "hard_weight", "soft_weight", "matches")


class _Unchanged:
    def __repr__(self):
        return "unchanged"


UNCHANGED = _Unchanged()


def direction(monitor, mode="auto"):
    """`"max"` or `"min"`: which values of the metric `monitor` are better.

    Raises:
        ValueError: if `mode` is `"auto"` and the name does not tell.
    """
    check_choice("mode", mode, ("auto", "min", "max"))
    if mode != "auto":
        return mode
    name = monitor.removeprefix("val_")
    grows = any(part in name for part in MAXIMISED)
    shrinks = any(part in name for part in MINIMISED)
    if grows == shrinks:
        raise ValueError(
            "The name of the metric does not tell whether more is better: "
            "pass mode='max' or mode='min'. "
            f"Received: restore_best={monitor!r}, mode='auto'"
        )
    return "max" if grows else "min"


def _check_number_or_schedule(name, value):
    if value is None or callable(value):
        return
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise ValueError(
            f"`{name}` must be a number, a schedule or None. "
            f"Received: {name}={value!r}"
        )
    check_positive(name, value)


def _check_several(name, value, kinds, expected):
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(item, kinds) for item in value
    ):
        raise ValueError(
            f"`{name}` must be a list or tuple of {expected}. "
            f"Received: {name}={value!r}"
        )


@dataclasses.dataclass(frozen=True)
class Stage:
    """A part of a training with its own losses, weights and frozen layers.

    What a stage leaves open (`unchanged`, or `None` for the weights and the
    matches) is as in the stage before, and in the first stage as compiled.

    Args:
        epochs: Integer, how long the stage lasts.
        name: String for messages. Defaults to `"stage 1"`, `"stage 2"`, ...
        loss: The hard loss, as `compile(loss=...)` takes it.
        soft_loss: The soft loss, as `compile(soft_loss=...)` takes it.
        hard_weight: Number, at least 0. 0 switches the hard loss off.
        soft_weight: Number, at least 0. 0 switches the soft loss off. Where
            no match is on either, the teacher is not run.
        matches: Names of the matches that are on, `()` for none.
        learning_rate: Number, set when the stage starts, or a callable over
            the stage's own optimizer steps from 0, such as a
            `keras.optimizers.schedules.LearningRateSchedule` or a schedule of
            `keras_distill.schedules`. `None` leaves it as it is.
        freeze: Layers of the student that are not trained in this stage:
            layers, names or `/`-separated paths. They are trained again
            afterwards, if they were before.
        temperature: Number, or a schedule over the stage's own epochs, for
            all soft losses. `None` leaves it as it is.
        restore_best: Name of a metric in the logs, such as `"val_accuracy"`.
            The stage starts from the previous stage's student of the epoch
            where it was best (the first of equals). `None` goes on from the
            last one.
        mode: `"max"`, `"min"`, or `"auto"`, which reads it from the name.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> stage = Stage(epochs=4, soft_weight=0.0, restore_best="val_accuracy")
    >>> stage.soft_loss
    unchanged
    """

    epochs: int
    name: str | None = None
    loss: object = UNCHANGED
    soft_loss: object = UNCHANGED
    hard_weight: float | None = None
    soft_weight: float | None = None
    matches: tuple | None = None
    learning_rate: object = None
    freeze: tuple = ()
    temperature: object = None
    restore_best: str | None = None
    mode: str = "auto"

    def __post_init__(self):
        check_integer("epochs", self.epochs, minimum=1)
        given = {"name": self.name, "restore_best": self.restore_best}
        for name, value in given.items():
            if value is not None and not (isinstance(value, str) and value):
                raise ValueError(
                    f"`{name}` must be a string or None. "
                    f"Received: {name}={value!r}"
                )
        if self.hard_weight is not None:
            check_weight("hard_weight", self.hard_weight)
        if self.soft_weight is not None:
            check_weight("soft_weight", self.soft_weight)
        if self.matches is not None:
            _check_several("matches", self.matches, str, "names of matches")
        kinds = (str, keras.layers.Layer)
        _check_several("freeze", self.freeze, kinds, "layers or their paths")
        _check_number_or_schedule("learning_rate", self.learning_rate)
        _check_number_or_schedule("temperature", self.temperature)
        self._check_mode()

    def _check_mode(self):
        if self.restore_best is not None:
            direction(self.restore_best, self.mode)
        elif self.mode != "auto":
            raise ValueError(
                "`mode` needs `restore_best`, the metric to compare. "
                f"Received: mode={self.mode!r}, restore_best=None"
            )


def inherited(stages, index):
    """What is in force in stage `index`: its own settings, or older ones.

    Returns:
        Dict from the names in `INHERITED` to the setting, without those that
        no stage up to `index` sets.
    """
    settings = {}
    for stage in stages[: index + 1]:
        for name in INHERITED:
            value = vars(stage)[name]
            if value is not None and value is not UNCHANGED:
                settings[name] = value
    return settings
