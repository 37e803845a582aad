"""What a Distiller refuses before any training starts."""

import inspect

import keras
import keras_hub

from keras_distill.distiller.specs import holds_strings

DEFAULT_WEIGHT = 0.5


def check_models(teacher, student):
    """Raises `ValueError` unless the student can learn from the teacher."""
    if not isinstance(student, keras.Model):
        raise ValueError(
            f"`student` must be a `keras.Model`. Received: student={student!r}"
        )
    shared = {id(v) for v in student.variables}
    for model in teacher.models:
        if model is student:
            raise ValueError(
                "`teacher` and `student` are the same model: build the "
                "student separately, for example with `kd.students.shrink`"
            )
        if not model.built:
            raise ValueError(
                f"The teacher {model.name!r} has no weights yet. Train it or "
                "load its weights first"
            )
    common = [v.path for v in teacher.variables if id(v) in shared]
    if common:
        raise ValueError(
            "`teacher` and `student` share variables, which training would "
            f"change in both: {common[:3]}. Copy the layers instead"
        )


def check_encoded(x, models):
    """Raises `ValueError` if a KerasHub task would get texts as they are.

    Its own `fit` runs its preprocessor; a Distiller calls models as layers.

    Args:
        x: As `keras.Model.fit` takes it.
        models: List of `keras.Model`, teachers and student.
    """
    tasks = [m for m in models if isinstance(m, keras_hub.models.Task)]
    if tasks and holds_strings(x):
        raise ValueError(
            "A Distiller expects token ids: the preprocessor inside of "
            f"{tasks[0].name!r} runs in its own `fit` alone. Encode the texts "
            "first, `x = task.preprocessor(texts)` or "
            "`dataset.map(task.preprocessor)`, and build the tasks with "
            "`preprocessor=None`. Received: inputs x of strings"
        )


def _takes_probabilities(loss):
    """Whether a Keras loss is told by `from_logits` to take no logits."""
    if isinstance(loss, keras.losses.Loss):
        return loss.get_config().get("from_logits") is False
    parameters = inspect.signature(loss).parameters
    return "from_logits" in parameters and not parameters["from_logits"].default


def _name(loss):
    """The name of the class behind a Keras loss, also of its function."""
    if inspect.isfunction(loss):
        return loss.__name__.title().replace("_", "")
    return type(loss).__name__


def check_hard_loss(loss, heads):
    """Raises `ValueError` if logits would be taken for probabilities.

    Keras cannot tell: it would clip the logits and train on nonsense.

    Args:
        loss: As `keras.Model.compile` takes it.
        heads: List of pairs, the student's name and the activations of its
            outputs; empty where these are not known.
    """
    activations = keras.tree.flatten([found for _, found in heads])
    if not activations or any(activations):
        return
    for given in keras.tree.flatten(loss):
        found = keras.losses.get(given)
        if found is not None and _takes_probabilities(found):
            raise ValueError(
                f"The student outputs logits, the loss {_name(found)} expects "
                "probabilities. Pass `keras.losses."
                f"{_name(found)}(from_logits=True)`"
            )


def check_weights_used(loss, hard_weight, soft_loss, soft_weight):
    """Raises `ValueError` for the weight of a term that does not exist."""
    for name, weight, term in (
        ("loss", hard_weight, loss),
        ("soft_loss", soft_weight, soft_loss),
    ):
        kind = "hard" if name == "loss" else "soft"
        if term is None and weight not in (0, DEFAULT_WEIGHT):
            raise ValueError(
                f"`{kind}_weight` has nothing to weigh: expected a `{name}`. "
                f"Received: {kind}_weight={weight}, {name}=None. Pass a "
                f"`{name}`, or leave `{kind}_weight` out"
            )


def check_callbacks(callbacks):
    """Raises `ValueError` for a callback that would save the teacher too."""
    for callback in keras.tree.flatten(callbacks):
        if (
            isinstance(callback, keras.callbacks.ModelCheckpoint)
            and not callback.save_weights_only
        ):
            raise ValueError(
                "A Distiller is not saved as a whole: pass "
                "`keras.callbacks.ModelCheckpoint(..., save_weights_only="
                "True)`. `distiller.student.save` keeps the student"
            )
