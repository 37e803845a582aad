"""A cell: a task, a student, a recipe, a seed. Trained once, kept as files."""

import dataclasses
import math
import pathlib

import numpy as np

from keras_distill.recipes.base import Recipe
from keras_distill.students.base import Student

CELLS, PREDICTIONS = pathlib.Path("cells"), "predictions.npz"
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

    def file(self, folder, name):
        """The path of one of its files in a run's folder."""
        return pathlib.Path(folder) / CELLS / self.name / name

    def model_file(self, folder):
        """The path of the trained student."""
        return self.file(folder, "student.keras")

    def predictions(self, folder):
        """Dict with `dev_logits` and `test_logits` of a finished cell."""
        with np.load(self.file(folder, PREDICTIONS)) as held:
            return dict(held)

    def steps(self, task):
        """Steps of an epoch, the same for all recipes of the student."""
        rows = len(task.encoded["train"])
        return math.ceil(rows / self.student.batch_size)
