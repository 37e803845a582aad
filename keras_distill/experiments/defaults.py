"""What nobody has chosen: sizes and lengths that follow from the rest."""

import dataclasses
import math

from keras_distill import taps
from keras_distill.students.base import Student

KD = "kd"
SMOKE_WIDTH = 8
# A transfer set is passed over half as often as labelled rows alone.
TRANSFER_SHARE = 0.5


def of_student(kind, preparation, recipes):
    """The fields of a student that follow from data, teacher and recipes.

    Args:
        kind: Subclass of `Student`.
        preparation: `Preparation`.
        recipes: List of `Recipe` that the student is trained with.

    Returns:
        Dict, for the keywords of `kind`.

    Example:

    >>> import keras_distill as kd
    >>> chosen = kd.experiments.Preparation(smoke=True)
    >>> of_student(kd.students.TextCNN, chosen, [kd.recipes.kd()])
    {'epochs': 1, 'width': 8}
    """
    own = {field.name: field.default for field in dataclasses.fields(kind)}
    epochs = 1 if preparation.smoke else own["epochs"]
    fewest = max(recipe.fewest_epochs for recipe in recipes)
    if fewest > epochs:
        epochs = fewest if preparation.smoke else max(fewest, Student.epochs)
    found = {"epochs": epochs}
    if not preparation.source.is_new:
        # New embeddings would have to learn from the labels what a pretrained
        # teacher knows of words. The embedded teacher's know the labels: with
        # them, the control would not be one.
        found |= kind.with_pretrained
    elif not preparation.smoke:
        found |= kind.with_embedded
    if kind.copies_layers:
        found["learning_rate"] = (
            preparation.teacher_learning_rate or preparation.usual_learning_rate
        )
    if preparation.smoke and own.get("width") is not None:
        found["width"] = SMOKE_WIDTH
    return found


def of_recipe(task, student, teacher):
    """The name of the recipe by which a student learns.

    Args:
        task: `Task`.
        student: `Student`.
        teacher: `keras.Model`, or None where only its logits are known.

    Returns:
        String, of `recipes`.

    Example:

    >>> import keras_distill as kd
    >>> of_recipe(kd.tasks.TextClassification, kd.students.TextCNN(), None)
    'kd'
    """
    has_states = teacher is not None and _is_encoder(teacher)
    return task.method if student.learns_states and has_states else KD


def _is_encoder(model):
    try:
        return bool(taps.encoder_layers(model))
    except ValueError:
        return False


def for_rows(student, rows, further=0):
    """A student that passes over few rows more often.

    An epoch is as many steps as the rows of the train part take; of a transfer
    set, which is not among these, it takes several epochs to see all.

    Args:
        student: `Student`, whose epochs nobody has chosen.
        rows: Integer, the rows of the train part.
        further: Integer, the rows of the transfer set.

    Returns:
        `Student`.

    Example:

    >>> import keras_distill as kd
    >>> for_rows(kd.students.TextCNN(), rows=4000).epochs
    24
    """
    steps = math.ceil(rows / student.batch_size)
    fewest = min(student.most_epochs, math.ceil(student.fewest_steps / steps))
    if further:
        passes = TRANSFER_SHARE * student.epochs
        fewest = max(fewest, math.ceil(passes * (rows + further) / rows))
    return dataclasses.replace(student, epochs=max(student.epochs, fewest))
