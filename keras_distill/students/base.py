"""How a small model comes about, and how long it is trained."""

import contextlib
import dataclasses
import types
from collections.abc import Callable

import keras

from keras_distill import _kinds
from keras_distill import taps
from keras_distill._checks import check_choice
from keras_distill._checks import check_integer
from keras_distill._checks import check_learning_rate
from keras_distill.quantization import QuantizationAware

# What the tasks need that call a method.
KINDS = {
    "of_text": "it reads texts",
    "of_tokens": "it has an answer for each word of a text",
    "of_image": "it reads images",
    "of_vectors": "it makes vectors of texts",
}
# Beyond these is a slip of the keyboard, which would end in a traceback late.
MOST, WIDEST = 10**6, 2**16
THE_TEACHERS = "the teacher's"
# What is rounded to the integers of a file.
ROUNDED = {
    "int4": {"weights": "int4"},
    "int8": {"weights": "int8", "activations": "int8"},
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Student:
    """A way to make a small model for a task, and the length of its training.

    A new kind is one file and one line in `students.KINDS`: a subclass with
    its own sizes as fields, which become options of the command line, with
    `build` and, where its states can be matched, `hidden_states`.

    Args:
        epochs: Integer. The training takes as many steps as this many passes
            over the train part, labelled or not; dev is scored after each.
        batch_size: Integer.
        learning_rate: Float, the peak of Adam's: it rises for a tenth of the
            steps, then falls to 0.
        quantization: `"int4"`, trained under the rounding of weights that its
            TFLite file, the one it is exported as, has; `"int8"`, of
            activations, too; or None. See `kd.quantization`.
    """

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 2e-3
    quantization: str | None = None

    # What reports call it.
    title = "student"
    # Further forms that it can be exported in, of `experiments.exports`.
    export_forms = ()
    # Whether it starts as a part of the teacher, and is fine-tuned as that is.
    copies_layers = False
    # Whether it gains by predicting the teacher's averaged states, too.
    learns_states = False
    # Whether a linear model of its tokens stands beside it in the end.
    linear_part = False
    # Where nobody has chosen the epochs: few rows are passed over more often,
    # until there are so many steps, or so many passes.
    fewest_steps, most_epochs = 1500, 30
    # Its fields where the teacher is pretrained, and where it is not.
    with_pretrained = types.MappingProxyType({})
    with_embedded = types.MappingProxyType({})

    def __post_init__(self):
        check_integer("epochs", self.epochs, 1, MOST)
        check_integer("batch_size", self.batch_size, 1, MOST)
        check_learning_rate("learning_rate", self.learning_rate)
        check_choice("quantization", self.quantization, (None, *ROUNDED))

    def check_backbone(self, kind):
        """Raises `ValueError` if `build` cannot use such a teacher.

        Args:
            kind: KerasHub class of the teacher's backbone; None where it is
                not known before the teacher is loaded.
        """

    def made(self, task, teacher):
        """What `build` gives, under rounding if that is wanted."""
        model = self.build(task, teacher)
        if self.quantization is None:
            return model
        return QuantizationAware(model, **ROUNDED[self.quantization])

    def build(self, task, teacher):
        """A new, built `keras.Model`.

        The global seed is set before: one seed, one set of initial weights
        for all recipes.

        Args:
            task: `tasks.Task`.
            teacher: `keras.Model`, or None where only its logits are known.
        """
        return task.student_model(self, teacher)

    def in_training(self, model):
        """A context in which a model is trained: the same steps, faster.

        Args:
            model: What `made` gave.
        """
        del model
        return contextlib.nullcontext()

    def finished(self, model, task):
        """What ships of a trained model: with the same outputs, smaller.

        Args:
            model: What `build` gave, trained.
            task: `tasks.Task`.
        """
        del task
        return model

    def of_text(self, task, teacher):
        """The model for one text in each row, with the task's outputs."""
        del teacher
        raise self._refusal(task, "of_text")

    def of_tokens(self, task, teacher):
        """The model with the task's outputs for each token of a row."""
        del teacher
        raise self._refusal(task, "of_tokens")

    def of_image(self, task, teacher):
        """The model for an image in each row, with the task's outputs."""
        del teacher
        raise self._refusal(task, "of_image")

    def of_vectors(self, task, teacher):
        """The model for one text in each row, with a vector for each."""
        return self.of_text(task, teacher)

    def _refusal(self, task, method):
        """What to raise for a task whose kind of model it cannot build."""
        fit = [
            name
            for name, place in _kinds.STUDENTS.items()
            if _kinds.load(place).builds(method)
        ]
        return ValueError(
            f"The student {self.title} cannot be built for {task.name}: "
            f"{KINDS[method]}. Use `--student {' or '.join(fit)}`. Received: "
            f"student={self.title}"
        )

    @classmethod
    def builds(cls, method):
        """Whether a subclass has a method of its own, such as `of_image`."""
        return getattr(cls, method) is not getattr(Student, method)

    def own_options(self):
        """Its fields as they are typed on a command line, for messages."""
        shared = {field.name for field in dataclasses.fields(Student)}
        fields = (field.name for field in dataclasses.fields(self))
        own = sorted(name for name in fields if name not in shared)
        return " and ".join(f"`--{name.replace('_', '-')}`" for name in own)

    def starts_from(self, teacher):
        """Whose weights some of its first ones are, or are made of.

        Args:
            teacher: `keras.Model`, or None.

        Returns:
            String, for reports, or None where all of them are new.
        """
        copied = self.copies_layers and teacher is not None
        return THE_TEACHERS if copied else None

    @property
    def has_hidden_states(self):
        """Whether its states can be matched with a teacher's."""
        return self.builds("hidden_states")

    def hidden_states(self, model):
        """Places in a built model that a teacher's hidden states fit.

        Args:
            model: What `build` gave.

        Returns:
            List as `kd.hidden_states` gives it, embeddings first; one place
            for the last state alone; empty where there is none.
        """
        del model
        return []

    def teacher_states(self, teacher):
        """The places in a teacher that go with `hidden_states`.

        Args:
            teacher: `keras.Model`.
        """
        return taps.hidden_states(teacher)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Custom(Student):
    """A student that a function builds.

    Args:
        builder: Callable from the task and the teacher to a new, built
            `keras.Model`.
        title: String, for reports.

    Example:

    >>> import keras_distill as kd
    >>> def small(task, teacher):
    ...     return kd.students.text_cnn(task.num_outputs, (50, 8), filters=8)
    >>> Custom(builder=small, epochs=3).epochs
    3
    """

    builder: Callable
    title: str = "student"

    def __post_init__(self):
        super().__post_init__()
        if not callable(self.builder) or isinstance(self.builder, keras.Model):
            raise ValueError(
                "A student must be a `kd.students.Student`, or a callable from "
                "task and teacher that gives a new model each time: one model "
                "cannot be trained twice from the start. "
                f"Received: {self.builder!r}"
            )

    def build(self, task, teacher):
        model = self.builder(task, teacher)
        if isinstance(model, QuantizationAware):
            raise ValueError(
                "A student of a run is built as a plain model, and taught "
                "under rounding by `Custom(builder=..., quantization='int4')`. "
                f"Received: {type(model).__name__}"
            )
        return task.adapted(model) if isinstance(model, keras.Model) else model


def as_student(value):
    """A `Student`, made from a callable where need be."""
    return value if isinstance(value, Student) else Custom(builder=value)
