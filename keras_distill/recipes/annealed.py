"""The teacher's logits, scaled up step by step, then the labels."""

import dataclasses

from keras_distill import losses
from keras_distill import stages
from keras_distill._checks import check_integer
from keras_distill.recipes.base import Recipe


def annealing(max_temperature=7):
    """Annealing-KD, three quarters of the epochs annealing.

    Args:
        max_temperature: Integer, the temperature at the start.

    Returns:
        `Recipe`.

    Example:

    >>> first, second = annealing(3).stages(8)
    >>> first.epochs, second.epochs
    (6, 2)

    Reference:
        Jafari et al., 2021, https://aclanthology.org/2021.eacl-main.212.
    """
    check_integer("max_temperature", max_temperature, 1, 1000)
    return Recipe(
        "Annealing-KD",
        losses.AnnealedMSE(max_temperature),
        stages=_Stages(max_temperature),
        fewest_epochs=max_temperature + 1,
    )


def two_stage(max_temperature=7):
    """The stages of `annealing` without its scaling: its control.

    Args:
        max_temperature: As in `annealing`; the stages are as long.

    Returns:
        `Recipe`.

    Example:

    >>> two_stage(3).stages(8)[0].temperature
    1.0
    """
    return dataclasses.replace(
        annealing(max_temperature),
        name="two stages, not annealed",
        stages=_Stages(max_temperature, scaled=False),
    )


@dataclasses.dataclass(frozen=True)
class _Stages:
    """The two stages of so many epochs."""

    max_temperature: int
    scaled: bool = True

    def __call__(self, epochs):
        hold = max(1, int(0.75 * epochs) // self.max_temperature)
        first, second = stages.annealing_kd_stages(
            max_temperature=self.max_temperature,
            epochs_per_temperature=hold,
            hard_epochs=epochs - self.max_temperature * hold,
            # What the engine logs of dev, whatever the task measures.
            monitor="val_score",
        )
        if not self.scaled:
            # Phi is 1 at temperature 1: the logits as they are.
            first = dataclasses.replace(first, temperature=1.0)
        return [first, second]
