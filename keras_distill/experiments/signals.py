"""What a teacher says of the rows that students learn from."""

import dataclasses
import functools
import itertools
import threading

import numpy as np
import tensorflow as tf

from keras_distill import data
from keras_distill._compiled import compile_reading
from keras_distill.experiments import training
from keras_distill.inputs import with_signal
from keras_distill.tasks.base import TRANSFER

# Of so many rows the scale of all is known; states that are all one have none.
MEASURED, SMALLEST = 10_000, 1e-4
# Logits of augmented rows that are kept at most: 256 MiB.
MOST_KEPT = 2**26


class Signals:
    """What a teacher says of a task's rows, asked once for all cells.

    Args:
        task: `Task`.
        teacher: `Teacher`.
    """

    def __init__(self, task, teacher):
        self.task = task
        self.teacher = teacher
        self._kept = {}
        self._augmented = {}

    def in_each_step(self, cell):
        """Whether the teacher runs in the steps of a cell.

        It does for its layers. What it says of augmented rows is the same in
        all cells of a seed, so that one asks for it and the others find it,
        unless that is too much to keep.

        Args:
            cell: `Cell`.
        """
        recipe, student = cell.recipe, cell.student
        if recipe.matches_layers:
            return True
        rows = cell.steps(self.task) * student.epochs * student.batch_size
        numbers = rows * self.teacher.logits["train"][0].size
        return recipe.needs_model(self.task) and numbers > MOST_KEPT

    def batches(self, cell, rows, signal):
        """Endless batches for a cell, as `training.batches` makes them.

        Args:
            cell: `Cell`.
            rows: `data.EncodedDataset`.
            signal: Dict of arrays as `rows` gives it, or None for a student on
                labels or a teacher that runs in each step.
        """
        recipe, size, seed = cell.recipe, cell.student.batch_size, cell.seed
        if signal is None or rows.augment is None:
            return training.batches(rows, size, seed, signal)
        held = {name: tf.constant(v) for name, v in rows.inputs.items()}
        rows = dataclasses.replace(rows, inputs=held)
        drawn = functools.partial(training.batches, rows, size, seed)
        key = size, seed, cell.labels, recipe.transfer
        if key not in self._augmented:
            asked = _Asked(self.teacher.model, drawn())
            self._augmented = {key: asked}
        outputs = self.teacher.logits["train"].shape[1:]
        logits = tf.data.Dataset.from_generator(
            self._augmented[key].__iter__,
            output_signature=tf.TensorSpec((None, *outputs), "float32"),
        )
        # Each iterator of a shuffled dataset has an order of its own, and Keras
        # on JAX reads a batch before it begins. A dataset that is made as it
        # is read begins with the order that the teacher saw.
        seen = tf.data.Dataset.range(1).flat_map(lambda _: drawn())
        return tf.data.Dataset.zip(seen, logits).map(
            lambda rows, logits: (
                with_signal(rows[0], {"logits": logits}),
                rows[1],
            )
        )

    def rows(self, recipe, labels):
        """What a recipe learns from: rows, and what the teacher says of them.

        Args:
            recipe: `Recipe`.
            labels: Integer array, the train labels that the student sees.

        Returns:
            Pair of a `data.EncodedDataset` and a dict of arrays, one row for
            each of its rows: the `logits`, and the signals of the recipe.
        """
        rows = self.task.encoded["train"].with_labels(labels)
        signal = {"logits": self._taught_logits(), **self._further(recipe)}
        known = data.has_label(labels)
        if not recipe.transfer:
            kept = np.flatnonzero(known)
            signal = {name: held[kept] for name, held in signal.items()}
            return rows.take(kept), signal
        if TRANSFER in self.task.encoded:
            rows = rows.followed_by(self.task.encoded[TRANSFER])
        if recipe.is_distilled:
            return rows, signal
        labels = self._labels(rows.labels, signal["logits"])
        return rows.with_labels(labels), signal

    def train_labels(self, recipe, labels):
        """The labels of the train part, also those that the teacher gives.

        Args:
            recipe: `Recipe`; one with a transfer set learns from texts without
                a label, too.
            labels: Array, the train labels that the student sees.
        """
        if not recipe.transfer:
            return labels
        return self._labels(labels, self.teacher.logits["train"])

    def _labels(self, labels, logits):
        """The teacher's labels in the place of missing ones."""
        found = self.task.pseudo_labels(logits)
        known = data.has_label(labels)
        found[known] = labels[known]
        return found

    def _taught_logits(self):
        """The teacher's logits for `task.taught()`."""
        logits = self.teacher.logits
        parts = ["train", *([TRANSFER] if TRANSFER in logits else [])]
        return np.concatenate([logits[part] for part in parts])

    def _further(self, recipe):
        """Dict of what else the teacher says of `task.taught()`."""
        signals = recipe.signals
        if signals is None:
            return {}
        if signals not in self._kept:
            self._kept[signals] = {
                name: _standardized(training.predict(model, self.task.taught()))
                for name, model in signals(self.teacher.model).items()
            }
        return self._kept[signals]


class _Asked:
    """What a model says of batches, in their order, as often as one likes.

    Args:
        model: `keras.Model`.
        batches: `tf.data.Dataset` of inputs and labels.
    """

    def __init__(self, model, batches):
        # `predict_on_batch` reads and sets each variable, in Python, on JAX.
        answers = functools.partial(model, training=False)
        self._answers = compile_reading(answers, model.variables)
        self._batches = batches.as_numpy_iterator()
        self._held = []
        self._turn = threading.Lock()

    def __iter__(self):
        for number in itertools.count():
            # A training that has ended may be reading ahead still.
            with self._turn:
                if number == len(self._held):
                    inputs, _ = next(self._batches)
                    logits = self._answers(inputs)
                    # A model may answer in half precision.
                    self._held.append(np.asarray(logits, "float32"))
            yield self._held[number]


def _standardized(vectors):
    """Centred, with a variance of 1 in all, in place: they may be many."""
    vectors -= vectors.mean(axis=0, dtype="float64").astype(vectors.dtype)
    some = vectors[:: len(vectors) // MEASURED + 1].astype("float32")
    vectors /= np.maximum(some.std(), SMALLEST).astype(vectors.dtype)
    return vectors
