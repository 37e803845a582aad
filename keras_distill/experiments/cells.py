"""A cell: a task, a student, a recipe, a seed. Trained once, kept as files."""

import dataclasses
import math
import pathlib

import numpy as np

from keras_distill import _files
from keras_distill.experiments.descriptions import describe
from keras_distill.recipes.base import Recipe
from keras_distill.students.base import Student

CELLS, PREDICTIONS = pathlib.Path("cells"), "predictions.npz"
LOGITS = "_logits"
TRIAL = "tune."
CONTROL, ARM, REFERENCE = "control", "arm", "reference"
LARGEST_SEED = 2**32 - 1


@dataclasses.dataclass(frozen=True)
class Cell:
    """A student trained in one way with one seed.

    Args:
        name: String, of its folder and its record.
        title: String, what it is, for people.
        student_name: String. Cells of one name are compared with each other.
        student: `Student`.
        arm: String, the way of training: the same for all seeds.
        recipe: `Recipe`.
        seed: Integer. Initial weights, order of the rows, choice of labels.
        labels: Integer, how many train labels the student sees, or None.
        role: `"control"`, what others are compared with; `"arm"`; or
            `"reference"`, which is told beside them.
        label: String, a short title. Defaults to the name.
        learns_from: String, what the student learns from, in words.
    """

    name: str
    title: str
    student_name: str
    student: Student
    arm: str
    recipe: Recipe
    seed: int
    labels: int | None = None
    role: str = ARM
    label: str | None = None
    learns_from: str = ""

    def for_task(self, task):
        """The cell with the recipe as it is for a task, in words, too."""
        recipe = self.recipe.for_task(task)
        words = describe(recipe, self.student.epochs, task.hard_words())
        return dataclasses.replace(self, recipe=recipe, learns_from=words)

    def file(self, folder, name):
        """The path of one of its files in a run's folder."""
        return pathlib.Path(folder) / CELLS / self.name / name

    def model_file(self, folder):
        """The path of the trained student."""
        return self.file(folder, "student.keras")

    def predictions(self, folder):
        """Dict with the logits for dev and test of a finished cell."""
        return read_predictions(self.file(folder, PREDICTIONS))

    def steps(self, task):
        """Steps of an epoch, the same for all recipes of the student."""
        rows = len(task.encoded["train"])
        return math.ceil(rows / self.student.batch_size)


def write_predictions(path, logits):
    """Leaves logits in a file, as `<part>_logits`.

    Args:
        path: Path of the file.
        logits: Dict with an array for each part.
    """
    named = {f"{part}{LOGITS}": array for part, array in logits.items()}
    with _files.complete_file(path) as draft:
        np.savez_compressed(draft, **named)


def read_predictions(path):
    """The dict that `write_predictions` left."""
    with np.load(path) as held:
        return {name.removesuffix(LOGITS): held[name] for name in held.files}
