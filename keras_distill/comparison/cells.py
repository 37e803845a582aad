"""One cell: a student, an arm, a seed. Trained once, kept as files."""

import dataclasses
import hashlib
import math
import pathlib
import time

import keras
import numpy as np

from keras_distill import callbacks
from keras_distill import data
from keras_distill._files import complete_file
from keras_distill._files import read_json
from keras_distill._files import write_json
from keras_distill.comparison import statistics
from keras_distill.comparison import training
from keras_distill.comparison.arms import Arm
from keras_distill.comparison.arms import Student
from keras_distill.comparison.arms import slug
from keras_distill.comparison.provenance import environment
from keras_distill.comparison.task import TRANSFER
from keras_distill.distiller import Distiller


@dataclasses.dataclass(frozen=True)
class Cell:
    """A student trained in one way with one seed.

    Args:
        student_name: String.
        student: `Student`.
        arm: `Arm`.
        seed: Integer. Initial weights, order of the texts, choice of labels.
        labels: Integer, how many train labels the student sees, or None.
        folder: Path, where its three files lie.
    """

    student_name: str
    student: Student
    arm: Arm
    seed: int
    labels: int | None
    folder: pathlib.Path

    @property
    def name(self):
        """What it is, for people."""
        return f"{self.student_name}, {self.arm.name}, seed {self.seed}"

    def file(self, suffix):
        """The path of one of its files."""
        parts = (slug(self.student_name), slug(self.arm.name), str(self.seed))
        return self.folder / f"{'.'.join(parts)}.{suffix}"

    def made_with(self, task, initial):
        """All that its result depends on, as JSON holds it.

        Args:
            task: `Task`.
            initial: String, the hash of the student's initial weights.
        """
        taught = self.arm.is_distilled or self.arm.transfer
        return {
            "arm": self.arm.options(self.student.epochs),
            "student": self.student.options() | {"initial weights": initial},
            "seed": self.seed,
            "labels": self.labels,
            "texts": task.hashes["texts"],
            "transfer": task.hashes["transfer"] if self.arm.transfer else None,
            "teacher": task.hashes["teacher"] if taught else None,
        }

    def record(self):
        """What a finished cell left, or None."""
        path = self.file("json")
        files = [self.file("npz"), self.file("keras")]
        if not path.exists() or not all(file.exists() for file in files):
            return None
        return read_json(path)

    def predictions(self):
        """Dict with `dev_logits` and `test_logits` of a finished cell."""
        with np.load(self.file("npz")) as held:
            return dict(held)

    def steps(self, task):
        """Training steps, the same for all arms of the student."""
        rows = len(task.encoded["train"])
        return math.ceil(rows / self.student.batch_size)


def train(cell, task, made_with, keras_callbacks=()):
    """Trains a cell, scores it on test once, and writes its files.

    The JSON file comes last: a cell without it is not finished.

    Args:
        cell: `Cell`.
        task: `Task`.
        made_with: Dict, from `Cell.made_with`.
        keras_callbacks: Callbacks that watch.

    Returns:
        Dict: the record.
    """
    cell.file("json").unlink(missing_ok=True)
    keras.utils.set_random_seed(cell.seed)
    student = cell.student.build()
    labels = task.labels(cell.labels, cell.seed)
    rows, logits = _texts(cell.arm, labels, task)
    model = student
    if cell.arm.is_distilled:
        model = _distiller(cell.arm, student, task)
    if not cell.arm.is_distilled or cell.arm.matches is not None:
        logits = None
    steps = cell.steps(task)
    _compile(model, cell, steps)
    best = training.BestEpoch(student)
    watching = [*_stages(cell), best, *keras_callbacks]
    start = time.perf_counter()
    curves = training.fit(
        model,
        training.batches(rows, cell.student.batch_size, cell.seed, logits),
        (cell.student.epochs, steps),
        task.encoded["dev"],
        watching,
    )
    seconds = time.perf_counter() - start
    predicted = {
        f"{part}_logits": training.predict(student, task.encoded[part])
        for part in ("dev", "test")
    }
    training.save(student, cell.file("keras"))
    with complete_file(cell.file("npz")) as draft:
        np.savez_compressed(draft, **predicted)
    record = {
        "cell": cell.name,
        "made_with": made_with,
        "result": {
            "labels": int((labels != data.UNLABELLED).sum()),
            "texts": len(rows),
            "steps": steps * cell.student.epochs,
            "best_epoch": best.epoch,
            "parameters": student.count_params(),
            "seconds": round(seconds, 2),
            "curves": curves,
            **_scores(predicted, task),
        },
        "environment": environment(),
    }
    write_json(cell.file("json"), record)
    return record


def initial_weights(student, seed):
    """A hash of the weights that a student starts with.

    Args:
        student: `Student`.
        seed: Integer.

    Returns:
        Pair of a string and the number of parameters.
    """
    keras.utils.set_random_seed(seed)
    model = student.build()
    if not isinstance(model, keras.Model) or not model.built:
        raise ValueError(
            "A student's `build` must give a built `keras.Model`. "
            f"Received: {model!r}"
        )
    total = hashlib.sha256()
    for weight in model.get_weights():
        array = np.ascontiguousarray(weight)
        total.update(f"{array.dtype} {array.shape}".encode())
        total.update(array.tobytes())
    return total.hexdigest()


def _scores(predicted, task):
    labels = {part: task.encoded[part].labels for part in ("dev", "test")}
    test = predicted["test_logits"]
    return {
        "dev_accuracy": training.accuracy_of(
            predicted["dev_logits"], labels["dev"]
        ),
        "test_accuracy": training.accuracy_of(test, labels["test"]),
        "ece": statistics.reliability(test, labels["test"])["ece"],
        "agreement": statistics.agreement(task.logits["test"], test),
    }


def _texts(arm, labels, task):
    """What the arm learns from: rows, and the teacher's logits for them."""
    rows = training.with_labels(task.encoded["train"], labels)
    logits = task.logits["train"]
    if not arm.transfer:
        known = np.flatnonzero(labels != data.UNLABELLED)
        return training.rows(rows, known), logits[known]
    if TRANSFER in task.encoded:
        rows = training.joined(rows, task.encoded[TRANSFER])
        logits = np.concatenate([logits, task.logits[TRANSFER]])
    if arm.is_distilled:
        return rows, logits
    guessed = logits.argmax(axis=-1).astype("int32")
    known = rows.labels != data.UNLABELLED
    return training.with_labels(
        rows, np.where(known, rows.labels, guessed)
    ), logits


def _distiller(arm, student, task):
    if arm.matches is None:
        return Distiller(teacher=None, student=student)
    if task.teacher is None:
        raise ValueError(
            "An arm with `matches` needs the teacher itself: pass `teacher` "
            f"to the `Task`. Received: arm={arm.name!r}, teacher=None"
        )
    matches = arm.matches(task.teacher, student)
    return Distiller(teacher=task.teacher, student=student, matches=matches)


def _compile(model, cell, steps):
    arguments = {
        "optimizer": keras.optimizers.Adam(
            training.warm_up_and_decay(
                cell.student.learning_rate, steps * cell.student.epochs
            )
        ),
        "loss": training.hard_loss(),
        "metrics": training.metrics(),
        **training.compile_arguments(),
    }
    if isinstance(model, Distiller):
        arguments |= {
            "soft_loss": cell.arm.soft_loss,
            "hard_weight": cell.arm.hard_weight,
            "soft_weight": cell.arm.soft_weight,
        }
    model.compile(**arguments)


def _stages(cell):
    if cell.arm.stages is None:
        return []
    return [callbacks.StageSwitch(cell.arm.stages(cell.student.epochs))]
