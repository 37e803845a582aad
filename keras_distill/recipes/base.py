"""What every recipe is made of."""

import dataclasses
import re
from collections.abc import Callable

from keras_distill import _kinds
from keras_distill import callbacks
from keras_distill._checks import check_between
from keras_distill._checks import check_weight

LIGHTEST, HEAVIEST = 1e-6, 1e6


@dataclasses.dataclass(frozen=True)
class Recipe:
    """One way to train a student.

    Args:
        name: String, for people and, with other characters replaced, for
            files.
        soft_loss: `keras.losses.Loss` on the teacher's and the student's
            logits. None: the student learns from hard labels alone.
        hard_weight: Float, of the task's loss on the labels; 0 without a
            soft loss is the student as it starts.
        soft_weight: Float, of `soft_loss`.
        transfer: Boolean. The student also learns from data without labels:
            train rows without one, and the task's transfer set. Without a soft
            loss, what the teacher predicts stands in for the label.
        matches: Callable from the `Student`, the teacher and the student's
            model to a list of `kd.Match`. The teacher runs in each step then,
            unless there are `signals`.
        signals: Callable from the teacher to a dict from the names of the
            matches to models of the task's inputs, each with a vector for a
            row. They run once, and their vectors go with the batches.
        stages: Callable from the number of epochs to a list of `kd.Stage`.
        callbacks: Callable from the number of epochs to a list of Keras
            callbacks, where a schedule is no list of stages.
        fewest_epochs: Integer, what the schedule needs.
        needs_states: Boolean. Only students with `hidden_states` can do it.
        loss_for: Callable from a task to the `soft_loss` that means the same
            there: probabilities are those of classes, of each label, or none.

    Raises:
        ValueError: A weight or a name is wrong, or there is nothing to weigh.

    Example:

    >>> import keras_distill as kd
    >>> Recipe("KD", kd.losses.ForwardKL(4.0), transfer=True).is_distilled
    True
    """

    name: str
    soft_loss: object = None
    hard_weight: float = 0.5
    soft_weight: float = 0.5
    transfer: bool = False
    matches: Callable | None = None
    signals: Callable | None = None
    stages: Callable | None = None
    callbacks: Callable | None = None
    fewest_epochs: int = 1
    needs_states: bool = False
    loss_for: Callable | None = None

    def __post_init__(self):
        if not isinstance(self.name, str) or not slug(self.name):
            raise ValueError(
                "`name` must be a string with a letter or a digit. "
                f"Received: name={self.name!r}"
            )
        for name in ("hard_weight", "soft_weight"):
            check_weight(name, getattr(self, name))
            check_between(name, getattr(self, name), 0, HEAVIEST)
        if self.soft_loss is not None and self.soft_weight < LIGHTEST:
            raise ValueError(
                f"`soft_weight` must be at least {LIGHTEST:g} with a "
                "`soft_loss`: nothing would be distilled. Leave `soft_loss` "
                "out for the recipe of hard labels alone. Received: "
                f"name={self.name!r}, soft_weight={self.soft_weight:g}"
            )
        if self.soft_loss is None and (
            self.matches or self.stages or self.callbacks
        ):
            raise ValueError(
                "`matches`, `stages` and `callbacks` are for recipes with a "
                f"`soft_loss`. Received: name={self.name!r}, soft_loss=None"
            )
        if self.signals and not self.matches:
            raise ValueError(
                "`signals` are the teacher's side of `matches`: pass both. "
                f"Received: name={self.name!r}, matches={self.matches}"
            )

    @property
    def is_distilled(self):
        """Whether it learns from more than hard labels."""
        return self.soft_loss is not None

    @property
    def trains(self):
        """Whether there is anything to learn from."""
        return self.is_distilled or self.hard_weight > 0

    @property
    def is_control(self):
        """Whether it learns from the labels of the data and nothing else."""
        return not self.is_distilled and not self.transfer

    def with_transfer(self):
        """The same recipe, on data without labels too."""
        return dataclasses.replace(
            self, name=f"{self.name} + transfer", transfer=True
        )

    def needs_model(self, task):
        """Whether the teacher must look at what the student sees.

        Its layers are matched, or rows are augmented: a patient teacher looks
        at the same crop as the student (Beyer et al., 2021,
        https://arxiv.org/abs/2106.05237, section 3). Otherwise its logits are
        enough.

        Args:
            task: `kd.tasks.Task`.
        """
        augments = task.encoded["train"].augment is not None
        return self.is_distilled and (self.matches_layers or augments)

    @property
    def matches_layers(self):
        """Whether the teacher's layers are read in each step."""
        return self.matches is not None and self.signals is None

    def for_task(self, task):
        """The same recipe with the loss that means the same for a task.

        Args:
            task: `kd.tasks.Task`.
        """
        if self.loss_for is None:
            return self
        loss = self.loss_for(task)
        return dataclasses.replace(self, soft_loss=loss, loss_for=None)

    def schedule(self, epochs):
        """The callbacks of a training of so many epochs.

        Raises:
            ValueError: They are too few.
        """
        self._check_epochs(epochs)
        found = self.callbacks(epochs) if self.callbacks else []
        if self.stages:
            found = [callbacks.StageSwitch(self.stages(epochs)), *found]
        return found

    def check_student(self, student):
        """Raises `ValueError` if the recipe cannot be done with a student.

        Args:
            student: `kd.students.Student`.
        """
        self._check_epochs(student.epochs)
        if self.needs_states and not student.has_hidden_states:
            raise ValueError(
                f"The recipe {self.name!r} needs a student with states to "
                "compare with the teacher's, one per token or feature maps: "
                "use `--student shrink`, `bilstm` or `conv_net`. Received: "
                f"student={student.title}"
            )

    def _check_epochs(self, epochs):
        if epochs < self.fewest_epochs:
            raise ValueError(
                f"The recipe {self.name!r} needs more epochs than that: at "
                f"least {self.fewest_epochs}, one for each temperature, and "
                f"one for the labels. Received: epochs={epochs}"
            )


def control_of(task):
    """The recipe that a task compares the others with: its labels alone."""
    return _kinds.load(_kinds.RECIPES[task.recipes[0]])()


def slug(name):
    """A name for files.

    Example:

    >>> slug("KD + transfer")
    'kd-transfer'
    """
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
