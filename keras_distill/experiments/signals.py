"""What a teacher says of the rows that students learn from."""

import numpy as np

from keras_distill import data
from keras_distill.experiments import training
from keras_distill.tasks.base import TRANSFER

# Of so many rows the scale of all is known; states that are all one have none.
MEASURED, SMALLEST = 10_000, 1e-4


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


def _standardized(vectors):
    """Centred, with a variance of 1 in all, in place: they may be many."""
    vectors -= vectors.mean(axis=0, dtype="float64").astype(vectors.dtype)
    some = vectors[:: len(vectors) // MEASURED + 1].astype("float32")
    vectors /= np.maximum(some.std(), SMALLEST).astype(vectors.dtype)
    return vectors
