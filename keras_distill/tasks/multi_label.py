"""Several labels: a text, or a pair of texts, in; any of the labels out."""

import keras
import numpy as np

from keras_distill import data
from keras_distill import losses
from keras_distill.tasks import counts_of_sets
from keras_distill.tasks import measures
from keras_distill.tasks.hard_losses import LabelsCrossEntropy
from keras_distill.tasks.of_texts import TextTask


class MultiLabelClassification(TextTask):
    """Any number of labels for each text; binary cross-entropy, micro F1.

    `splits` is a `data.MultiLabelSplits`. A label is predicted where its logit
    is above a threshold, the one that has the highest F1 of this label on dev:
    with 0 for all of them, rare labels are hardly ever predicted, and models
    are compared by how bold they are.

    Example:

    >>> import keras_distill as kd
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> part = kd.data.TextDataset(["good", "bad"], [[1, 0], [0, 1]])
    >>> splits = kd.data.MultiLabelSplits(part, part, part, ["good", "bad"])
    >>> task = MultiLabelClassification.from_texts(
    ...     splits, kd.data.bert_preprocessor(words, 8)
    ... )
    >>> task.score({"dev": np.array([[-1.0, -3.0], [-2.0, -2.0]])}, "dev")
    1.0
    """

    splits_kind = data.MultiLabelSplits
    measure = "micro F1"
    further = {
        "macro_f1": ("Macro F1 %", "the mean of the labels' F1"),
        "exact": ("Exact %", "rows whose labels are all right"),
    }
    export_as, chooses_on_dev = "multi_label", True

    @staticmethod
    def outputs_in_words(label_names):
        return f"{len(label_names)} labels"

    def hard_loss(self):
        """Binary cross-entropy with the labels, where there are any."""
        return LabelsCrossEntropy()

    def keras_loss(self):
        return keras.losses.BinaryCrossentropy(from_logits=True)

    def hard_words(self):
        return "binary cross-entropy with the labels"

    def soft_loss(self, temperature):
        """Binary cross-entropy with the teacher's probabilities."""
        return losses.SoftBinaryCrossEntropy(temperature)

    def last_layer(self):
        """Adds the log odds of each label's share in train.

        A new model, which says one half to all, would take a thousand steps to
        learn how rare they are.
        """
        labels = self.splits.train.labels
        known = labels[data.has_label(labels)]
        share = (known.sum(axis=0) + 1) / (len(known) + 2)
        return keras.layers.Rescaling(
            1.0,
            np.log(share / (1 - share)).tolist(),
            name="label_logits",
            dtype="float32",
        )

    def thresholds(self, logits):
        """The thresholds for logits, array `[labels]`, chosen on dev.

        Args:
            logits: Dict with an array for dev.
        """
        return counts_of_sets.best_thresholds(
            logits["dev"], self.encoded["dev"].labels
        )

    def statistics(self, logits, part):
        """Of each row, labels rightly predicted, wrongly, and missed."""
        predicted = logits[part] > self.thresholds(logits)
        return counts_of_sets.label_counts(predicted, self.encoded[part].labels)

    of_means = staticmethod(counts_of_sets.f1_of_counts)

    def further_scores(self, logits):
        """Macro F1, and the share of rows whose labels are all right."""
        predicted = logits["test"] > self.thresholds(logits)
        labels = self.encoded["test"].labels
        return {
            "macro_f1": counts_of_sets.macro_f1(predicted, labels),
            "exact": float((predicted == labels).all(axis=1).mean()),
        }

    def reliability(self, logits, part):
        """Of all labels together, each a yes or a no."""
        labels = self.encoded[part].labels
        return measures.reliability(
            measures.two_classes(logits[part].ravel()), labels.ravel()
        )

    def agreement(self, first, second):
        """The share of labels that both or neither find likely."""
        return float(((first > 0) == (second > 0)).mean())

    def details(self, logits):
        """Of each label threshold, F1 and calibration on test."""
        labels = self.encoded["test"].labels
        thresholds = self.thresholds(logits)
        found = []
        for i, name in enumerate(self.splits.label_names):
            test = logits["test"][:, i]
            held = counts_of_sets.label_counts(
                test[:, None] > thresholds[i], labels[:, i : i + 1]
            )
            calibration = measures.reliability(
                measures.two_classes(test), labels[:, i]
            )
            found.append(
                {
                    "label": str(name),
                    "test rows": int(labels[:, i].sum()),
                    "threshold": float(1 / (1 + np.exp(-thresholds[i]))),
                    "F1": float(counts_of_sets.f1_of_counts(held.mean(axis=0))),
                    "ECE": calibration["ece"],
                }
            )
        return found

    def pseudo_labels(self, logits):
        """What the teacher finds likely."""
        return (logits > 0).astype("int32")

    def linear_heads(self):
        from keras_distill.tasks.linear_heads import Labels

        return Labels()

    def linear_model(self, labels):
        """TF-IDF with a logistic regression for each label."""
        from keras_distill.tasks import linear

        known = labels[data.has_label(labels)]
        if not known.any():
            return None
        return linear.of_task(self, labels, self.linear_heads())
