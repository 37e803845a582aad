"""What every task is to the students, the recipes and the reports."""

import numpy as np

from keras_distill import data
from keras_distill._files import content_hash

PARTS = ("train", "dev", "test")
TRANSFER = "transfer"


class Task:
    """What is learnt: data, the loss on labels, the metric, the inputs.

    A task is one file: a subclass says how its data are read and encoded, what
    is minimised and measured, and what an export takes in. Nothing else in the
    package knows which task it is.

    Args:
        splits: The data as they were read, with `train`, `dev` and `test`.
            Train rows without a label are transfer data.
        encoded: Dict from `"train"`, `"dev"`, `"test"` and perhaps
            `"transfer"`, further rows without labels, to the
            `data.EncodedDataset` of each.
        preprocessor: What made the model's inputs of the data, or None.
        name: String, what reports call it.
        notes: Sentences on how it was made, for reports.

    Raises:
        ValueError: Parts are missing.
    """

    # What reports call a row, and how many texts it has.
    noun, sides = "text", 1

    def __init__(
        self, splits, encoded, preprocessor=None, name="the task", notes=()
    ):
        required = set(PARTS)
        if not required <= set(encoded) <= required | {TRANSFER}:
            raise ValueError(
                f"`encoded` must hold {list(PARTS)} and perhaps "
                f"'{TRANSFER}'. Received: encoded with {sorted(encoded)}"
            )
        self.splits = splits
        self.encoded = encoded
        self.preprocessor = preprocessor
        self.name = name
        self.notes = tuple(notes)

    @property
    def num_outputs(self):
        """Integer, how many logits a model of this task gives."""
        raise NotImplementedError

    def hard_loss(self):
        """The loss on labels; rows without one count nothing."""
        raise NotImplementedError

    def metrics(self):
        """Keras metrics. The first one chooses the epoch: more is better."""
        raise NotImplementedError

    def right(self, logits, part):
        """Boolean array `[rows]`: which predictions are right."""
        raise NotImplementedError

    def score(self, logits, part):
        """Float: the metric that chooses, of predictions for a part."""
        raise NotImplementedError

    def accuracies(self, logits):
        """Dict with `dev_accuracy` and `test_accuracy`, the `score` of both.

        Args:
            logits: Dict with an array for each part.
        """
        return {
            f"{part}_accuracy": self.score(logits[part], part)
            for part in PARTS[1:]
        }

    def pseudo_labels(self, logits):
        """Labels in the place of missing ones, from a teacher's logits."""
        raise NotImplementedError

    def check_teacher(self, model):
        """Raises `ValueError` if a teacher does not answer this task."""
        raise NotImplementedError

    def for_inputs(self, student):
        """A small model that reads one text, as one for this task's rows.

        Args:
            student: `keras.Model`, not trained yet.
        """
        return student

    def linear_model(self, labels):
        """A linear model of the data, what every network has to beat.

        Args:
            labels: Integer array, the train labels that it may see.

        Returns:
            Object with `logits`, a dict with arrays for dev and test, and
            `facts`, a dict that JSON can hold: `model` and `features` for
            people, `parameters`, `size_bytes`, `latency_ms`. None: the task
            has no such model.
        """
        del labels

    def raw_examples(self, count):
        """The first inputs of dev as they were before the preprocessor."""
        raise NotImplementedError

    def examples(self, count):
        """The first inputs of dev as the model takes them, a dict."""
        return self.encoded["dev"].take(slice(count)).inputs

    def labels(self, count, seed):
        """The train labels that a student sees, `-1` where it sees none.

        Args:
            count: Integer, or None for all.
            seed: Integer, which rows keep theirs.
        """
        if count is None:
            return self.splits.train.labels
        return data.keep_labels(self.splits, count, seed).train.labels

    @property
    def labelled_train_rows(self):
        """Integer, how many train rows have a label."""
        return int((self.splits.train.labels != data.UNLABELLED).sum())

    def has_transfer(self, count=None):
        """Whether there is text without labels, `count` labels being kept."""
        return TRANSFER in self.encoded or self.has_unlabelled(count)

    def has_unlabelled(self, count=None):
        """Whether train rows are without labels, `count` being kept."""
        kept = self.labelled_train_rows if count is None else count
        return kept < len(self.encoded["train"])

    def taught(self):
        """What a teacher labels: the train part, then the transfer set."""
        train = self.encoded["train"]
        if TRANSFER not in self.encoded:
            return train
        return train.followed_by(self.encoded[TRANSFER])

    def hashes(self):
        """Dict from `texts` and `transfer` to what tells changes."""
        own = [self.encoded[part] for part in PARTS]
        further = [self.encoded[TRANSFER]] if TRANSFER in self.encoded else []
        return {"texts": _hash(own), "transfer": _hash(further)}


def _hash(parts):
    return content_hash(
        np.asarray(array)
        for rows in parts
        for array in (rows.labels, *rows.inputs.values())
    )
