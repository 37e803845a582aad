"""What tasks of one class a row share: cross-entropy, accuracy, macro F1."""

import numpy as np

from keras_distill.tasks import measures
from keras_distill.tasks.base import Task


class ClassTask(Task):
    """One of several classes for each row; cross-entropy, accuracy."""

    further = {
        "macro_f1": ("Macro F1 %", "the mean of the classes' F1"),
        "matthews": ("MCC", "Matthews' correlation"),
    }

    def statistics(self, logits, part):
        """1 where the largest logit is that of the label."""
        return np.argmax(logits[part], axis=-1) == self.encoded[part].labels

    def further_scores(self, logits):
        """Macro F1 and Matthews' correlation."""
        return measures.class_scores(
            logits["test"], self.encoded["test"].labels
        )

    def reliability(self, logits, part):
        """Of the largest probability."""
        return measures.reliability(logits[part], self.encoded[part].labels)

    def agreement(self, first, second):
        """The share of rows with the same class."""
        return measures.agreement(first, second)

    def pseudo_labels(self, logits):
        """The class that the teacher predicts."""
        return logits.argmax(axis=-1).astype("int32")
