"""Text classification: one text, or a pair of texts, in; one class out."""

import numpy as np

from keras_distill import data
from keras_distill.tasks import measures
from keras_distill.tasks.of_texts import TextTask


class TextClassification(TextTask):
    """One of several classes for each text; cross-entropy, accuracy.

    `splits` is a `data.TextSplits`.

    Example:

    >>> import keras_distill as kd
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> part = kd.data.TextDataset(["good", "bad"], [1, 0])
    >>> splits = kd.data.TextSplits(part, part, part, ["no", "yes"])
    >>> task = TextClassification.from_texts(
    ...     splits, kd.data.bert_preprocessor(words, 8), transfer=["good good"]
    ... )
    >>> task.num_outputs, len(task.taught())
    (2, 3)
    """

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

    def linear_model(self, labels):
        """TF-IDF with logistic regression, as `linear.fit` chooses it."""
        # Not before: `--help` and tasks of one's own need no scikit-learn.
        from keras_distill.tasks import linear

        known = np.flatnonzero(data.has_label(labels))
        if len(np.unique(labels[known])) < 2:
            return None
        return linear.of_task(self, labels, linear.Classes(self.num_outputs))
