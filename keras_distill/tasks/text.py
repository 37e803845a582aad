"""Text classification: one text, or a pair of texts, in; one class out."""

import numpy as np

from keras_distill import data
from keras_distill.tasks import embedders
from keras_distill.tasks import presets
from keras_distill.tasks.classes import ClassTask
from keras_distill.tasks.of_texts import TextTask


class TextClassification(ClassTask, TextTask):
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

    contrasts, method = True, "pooled"

    def contrastive_teacher(self, preset):
        """A classifier of an encoder's vectors, as of `embedders.classifier`.

        Args:
            preset: String, a preset's name or folder.

        Returns:
            `keras.Model`, or None: the preset knows these classes already, or
            its encoder does not know what is padding.
        """
        if presets.is_of_classes(preset, self.num_outputs):
            return None
        return embedders.classifier(preset, self.num_outputs)

    def linear_heads(self):
        # Not before: `--help` and tasks of one's own need no scikit-learn.
        from keras_distill.tasks.linear_heads import Classes

        return Classes(self.num_outputs)

    def linear_model(self, labels):
        """TF-IDF with logistic regression, as `linear.fit` chooses it."""
        from keras_distill.tasks import linear

        known = np.flatnonzero(data.has_label(labels))
        if len(np.unique(labels[known])) < 2:
            return None
        return linear.of_task(self, labels, self.linear_heads())
