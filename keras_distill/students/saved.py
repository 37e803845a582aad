"""Any model in a file: a pruned teacher, an architecture of one's own."""

import dataclasses
import pathlib

from keras_distill._backend import load_model
from keras_distill.students.base import Student


@dataclasses.dataclass(frozen=True, kw_only=True)
class Saved(Student):
    """The model in a `.keras` file, from the weights that it has there.

    Args:
        student_file: Path of the file. Its inputs must be the teacher's or,
            of images, one tensor `[batch, height, width, channels]`; its output
            must be logits.

    Example:

    >>> import keras, tempfile
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/pruned.keras")
    ...     student = Saved(student_file=f"{folder}/pruned.keras")
    >>> student.learning_rate
    0.001
    """

    student_file: str | None = None
    learning_rate: float = 1e-3

    title = "saved model"

    def __post_init__(self):
        super().__post_init__()
        path = pathlib.Path(str(self.student_file))
        if path.suffix != ".keras" or not path.is_file():
            raise ValueError(
                "`student_file` must be a .keras file that exists. Received: "
                f"student_file={self.student_file and str(path)!r}"
            )
        object.__setattr__(self, "student_file", str(path))

    def build(self, task, teacher):
        del teacher
        model = task.adapted(load_model(self.student_file))
        task.check_teacher(model, "student")
        return model
