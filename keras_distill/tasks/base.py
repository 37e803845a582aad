"""What every task is to the students, the recipes and the reports."""

import types

import keras
import numpy as np

from keras_distill import data
from keras_distill import losses
from keras_distill._files import content_hash
from keras_distill.tasks.in_exports import InExports
from keras_distill.tasks.in_models import InModels
from keras_distill.tasks.in_runs import PARTS as PARTS
from keras_distill.tasks.in_runs import InRuns

TRANSFER = "transfer"


class Task(InRuns, InModels, InExports):
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

    # What reports call a row; what is measured, a share of 1; and, beside it,
    # further scores: of each the title of its column, shown in percent where
    # that ends so, and its meaning.
    noun, sides, measure = "text", 1, "accuracy"
    further = types.MappingProxyType({})
    # Whether something, such as a threshold, is chosen on dev for each model.
    chooses_on_dev = False
    # The recipes that differ here, by their names; the first is the control.
    recipes = ("hard", "mse", "kd")
    # Whether copied layers read the two texts of a row in one, "cross", or each
    # by itself, "bi", where nobody has chosen it.
    pair_encoder = "cross"
    # What `recipes.kd` divides logits by where nobody has chosen it.
    temperature = 4.0

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
        return len(self.splits.label_names)

    @property
    def logits_shape(self):
        """Tuple, the shape of what a model gives for a row."""
        return (self.num_outputs,)

    def judged_by(self, logits):
        """The task as it is beside a teacher.

        Args:
            logits: Dict from parts to the teacher's logits.

        Returns:
            `Task`, here the same: labels tell what is right, not the teacher.
        """
        del logits
        return self

    def hard_loss(self):
        """The loss on labels; rows without one count nothing.

        Cross-entropy with classes, as `soft_loss` is their divergence.
        """
        return keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=data.UNLABELLED
        )

    def keras_loss(self):
        """The loss that a saved model is compiled with, one of Keras' own.

        It can then be loaded, and trained on, where only Keras is.
        """
        return self.hard_loss()

    def hard_words(self):
        """What is minimised on the labels, in words."""
        return "cross-entropy with the labels"

    def soft_loss(self, temperature):
        """What plain knowledge distillation minimises here."""
        return losses.ForwardKL(temperature)

    def logits_loss(self, temperature):
        """The squared error to the teacher's outputs."""
        return losses.LogitsMSE(temperature)

    def statistics(self, logits, part):
        """Of each prediction, what the score is the mean of.

        Args:
            logits: Dict with an array for each part; with dev, too, where
                something is chosen on it (`chooses_on_dev`).
            part: String, whose predictions.

        Returns:
            Array `[rows]`, such as 1 where a prediction is right. Or, with
            `of_means`, `[rows, statistics]`: counts, moments.
        """
        raise NotImplementedError

    # Callable from the means of the statistics over the rows, an array
    # `[..., statistics]`, to scores `[...]`; None where the mean is the score.
    of_means = None

    def score(self, logits, part):
        """Float: what chooses; of the train part over the rows with a label.

        Args:
            logits: As in `statistics`.
            part: String.
        """
        known = data.has_label(self.encoded[part].labels)
        means = self.statistics(logits, part)[known].mean(axis=0)
        return float(means if self.of_means is None else self.of_means(means))

    def scores(self, logits):
        """Dict with `dev_score` and `test_score`, and both by their measure.

        Args:
            logits: Dict with an array for each part.
        """
        return self.named(
            {
                f"{part}_score": self.score(logits, part)
                for part in PARTS[1:]
                if part in logits
            }
        )

    def named(self, scores):
        """A dict of scores, with the same by the measure's name.

        Example: `test_score` also as `test_accuracy`.
        """
        name = self.measure.lower().replace(" ", "_")
        return scores | {
            key.replace("score", name): value
            for key, value in scores.items()
            if key in ("dev_score", "test_score")
        }

    def further_scores(self, logits):
        """Dict from the names in `further` to scores on test.

        Args:
            logits: As in `statistics`.
        """
        del logits
        return {}

    def reliability(self, logits, part):
        """As `measures.reliability`; None where nothing is a probability."""
        del logits, part

    def agreement(self, first, second):
        """Float: how often, or how much, two models' outputs say the same.

        Args:
            first: Array `[rows, outputs]`.
            second: Likewise.
        """
        raise NotImplementedError

    def details(self, logits):
        """Further facts on a model, for its card: a list of dicts, a table.

        Args:
            logits: As in `statistics`, with dev and test.
        """
        del logits
        return []

    def pseudo_labels(self, logits):
        """Labels in the place of missing ones, from a teacher's outputs."""
        raise NotImplementedError

    def student_model(self, student, teacher):
        """The model of a `students.Student` that is made for a kind of input.

        Args:
            student: `Student`.
            teacher: `keras.Model`, or None.
        """
        return self.for_inputs(student.of_text(self, teacher))

    def for_inputs(self, student):
        """A small model that reads one text, or image, as one of the task's.

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

    def linear_heads(self):
        """What a linear model of words is fitted by, of `tasks.linear_heads`.

        None: a row's answer is no linear model of its words, or there is none.
        """

    def labels(self, count, seed):
        """The train labels that a student sees, missing where it sees none.

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
        return int(data.has_label(self.splits.train.labels).sum())

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
        array
        for rows in parts
        for array in (
            *map(np.asarray, (rows.labels, *rows.inputs.values())),
            *([] if rows.augment is None else [repr(rows.augment)]),
        )
    )
