"""What is compared: students, and the ways to train them."""

import dataclasses
import re
from collections.abc import Callable

import keras

from keras_distill import losses
from keras_distill._checks import check_integer
from keras_distill._checks import check_positive
from keras_distill._checks import check_weight
from keras_distill.comparison.descriptions import plain


@dataclasses.dataclass(frozen=True)
class Student:
    """A student, and how long it is trained, whatever it learns from.

    Args:
        build: Callable without arguments that gives a new, built
            `keras.Model`. The global seed is set before: one seed, one set of
            initial weights for all arms.
        epochs: Integer. The training takes as many steps as this many passes
            over the train part, labelled or not; dev is scored after each.
        batch_size: Integer.
        learning_rate: Float, the peak of Adam's: it rises for a tenth of the
            steps, then falls to 0.

    Example:

    >>> import keras_distill as kd
    >>> Student(lambda: kd.students.text_cnn(2, (50, 8), filters=8)).epochs
    10
    """

    build: Callable
    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 2e-3

    def __post_init__(self):
        if not callable(self.build):
            raise ValueError(
                "`build` must be a callable without arguments that gives a "
                f"new student. Received: build={self.build!r}"
            )
        check_integer("epochs", self.epochs, minimum=1)
        check_integer("batch_size", self.batch_size, minimum=1)
        check_positive("learning_rate", self.learning_rate)

    def options(self):
        """What JSON can hold of it."""
        names = ("epochs", "batch_size", "learning_rate")
        return {name: getattr(self, name) for name in names}


@dataclasses.dataclass(frozen=True)
class Arm:
    """One way to train a student.

    Args:
        name: String, for people and, with other characters replaced, for
            files.
        soft_loss: `keras.losses.Loss` on the teacher's and the student's
            logits. None: the arm learns from hard labels alone.
        hard_weight: Float, of the cross-entropy with the labels.
        soft_weight: Float, of `soft_loss`.
        transfer: Boolean. The arm also learns from text without labels: train
            rows without one, and the task's transfer set. Without a soft
            loss, the class that the teacher predicts stands in for the label.
        matches: Callable from the teacher and the student to a list of
            `kd.Match`. The teacher runs in each step then.
        stages: Callable from the number of epochs to a list of `kd.Stage`.

    Raises:
        ValueError: A weight or a name is wrong, or there is nothing to weigh.

    Example:

    >>> Arm("KD", losses.ForwardKL(4.0), transfer=True).is_distilled
    True
    """

    name: str
    soft_loss: object = None
    hard_weight: float = 0.5
    soft_weight: float = 0.5
    transfer: bool = False
    matches: Callable | None = None
    stages: Callable | None = None

    def __post_init__(self):
        if not isinstance(self.name, str) or not slug(self.name):
            raise ValueError(
                "`name` must be a string with a letter or a digit. "
                f"Received: name={self.name!r}"
            )
        check_weight("hard_weight", self.hard_weight)
        check_weight("soft_weight", self.soft_weight)
        if self.soft_loss is not None and not self.soft_weight:
            raise ValueError(
                "`soft_weight` must be positive with a `soft_loss`. Leave "
                "`soft_loss` out for the arm of hard labels alone. "
                f"Received: name={self.name!r}, soft_weight=0"
            )
        if self.soft_loss is None and (self.matches or self.stages):
            raise ValueError(
                "`matches` and `stages` are for arms with a `soft_loss`. "
                f"Received: name={self.name!r}, soft_loss=None"
            )

    @property
    def is_distilled(self):
        """Whether it learns from more than hard labels."""
        return self.soft_loss is not None

    @property
    def is_control(self):
        """Whether it learns from the labels of the data and nothing else."""
        return not self.is_distilled and not self.transfer

    def options(self, epochs):
        """What JSON can hold of it, for a training of so many epochs."""
        return {
            "soft_loss": plain(self.soft_loss),
            "hard_weight": self.hard_weight if self.is_distilled else 1.0,
            "soft_weight": self.soft_weight if self.is_distilled else 0.0,
            "transfer": self.transfer,
            "matches": plain(self.matches),
            "stages": plain(self.stages and self.stages(epochs)),
        }


def default_arms(
    transfer, temperature=4.0, hard_weight=0.5, soft_weight=0.5, mse_scale=1.0
):
    """Hard labels, logit MSE and KD, each with and without transfer text.

    Args:
        transfer: Boolean, whether there is text without labels.
        temperature: Float, of KD.
        hard_weight: Float, of the labels in the distilled arms.
        soft_weight: Float, of the teacher in the distilled arms.
        mse_scale: Float, the temperature of the logit MSE.

    Returns:
        List of 3 or 6 `Arm`.

    Example:

    >>> [arm.name for arm in default_arms(transfer=False)]
    ['hard labels', 'logit MSE', 'KD']
    """
    kinds = {
        "hard labels": None,
        "logit MSE": losses.LogitsMSE(mse_scale),
        "KD": losses.ForwardKL(temperature),
    }
    weights = {"hard_weight": hard_weight, "soft_weight": soft_weight}
    plain_arms = [Arm(name, loss, **weights) for name, loss in kinds.items()]
    if not transfer:
        return plain_arms
    return [
        *plain_arms,
        *[with_transfer(arm) for arm in plain_arms],
    ]


def with_transfer(arm):
    """The same arm, on unlabelled text too."""
    return dataclasses.replace(
        arm, name=f"{arm.name} + transfer", transfer=True
    )


def slug(name):
    """A name for files.

    Example:

    >>> slug("KD + transfer")
    'kd-transfer'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def check_comparison(students, arms, seeds):
    """The seeds, if everything fits together.

    Args:
        students: Dict from names to `Student` or builders.
        arms: List of `Arm`.
        seeds: Integer, how many, or the seeds themselves.

    Returns:
        Tuple of integers.

    Raises:
        ValueError: Names are not different, or there is no control.
    """
    for kind, names in (
        ("students", list(students)),
        ("arms", [arm.name for arm in arms]),
    ):
        if not names or len({slug(name) for name in names}) < len(names):
            raise ValueError(
                f"`{kind}` must have different names, at least one, that "
                "differ in more than punctuation. "
                f"Received: {kind} {names}"
            )
    if "teacher" in map(slug, students):
        raise ValueError(
            "`students` must not name one of them 'teacher': the report has "
            f"a row of that name. Received: students {list(students)}"
        )
    if sum(arm.is_control for arm in arms) != 1:
        raise ValueError(
            "`arms` must hold one arm without soft loss and without transfer "
            "set, the control: without it nobody can tell whether "
            "distillation helps. Add `Arm('hard labels')`. Received: arms "
            f"{[arm.name for arm in arms]}"
        )
    if isinstance(seeds, int):
        check_integer("seeds", seeds, minimum=1)
        return tuple(range(seeds))
    seeds = tuple(seeds)
    for seed in seeds:
        check_integer("seeds", seed, minimum=0)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(
            "`seeds` must be a count, or a list of different integers. "
            f"Received: seeds={seeds}"
        )
    return seeds


def as_students(students):
    """A dict of `Student`, made from builders where need be."""
    if not isinstance(students, dict) or any(
        isinstance(value, keras.Model) for value in students.values()
    ):
        raise ValueError(
            "`students` must be a dict from names to `Student`, or to "
            "callables that give a new student each: one model cannot be "
            f"trained twice from the start. Received: students={students!r}"
        )
    return {
        name: value if isinstance(value, Student) else Student(value)
        for name, value in students.items()
    }
