"""Regression: a text, or a pair of texts, in; a score out."""

import keras

from keras_distill import data
from keras_distill.tasks import measures
from keras_distill.tasks.hard_losses import StandardizedMSE
from keras_distill.tasks.of_texts import TextTask

# An export may differ by so many standard deviations of the scores.
TOLERANCE = 0.1


class TextRegression(TextTask):
    """A score for each text, or pair of texts; squared error, Pearson.

    `splits` is a `data.ScoreSplits`. Models give scores in the units of the
    data: a last layer without weights maps what they learn, whose mean is 0 and
    standard deviation 1, to these, so that no learning rate depends on the
    unit. Squared errors, on labels and on the teacher's scores, are in
    standard deviations for the same reason; a temperature means nothing here.

    Example:

    >>> import keras_distill as kd, numpy as np
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> part = kd.data.TextDataset(["good", "bad"], [5.0, 1.0])
    >>> splits = kd.data.ScoreSplits(part, part, part, ["stars"])
    >>> task = TextRegression.from_texts(
    ...     splits, kd.data.bert_preprocessor(words, 8)
    ... )
    >>> round(task.score({"dev": np.array([[0.3], [0.1]])}, "dev"), 6)
    1.0
    """

    splits_kind = data.ScoreSplits
    measure = "Pearson"
    further = {
        "spearman": ("Spearman %", "the correlation of the ranks"),
        "rmse": ("RMSE", "root of the mean squared error, in the data's unit"),
    }
    export_as = "regression"
    # The squared error is all there is to imitate of a number.
    recipes = ("hard", "kd")
    # Most scores of two texts tell how alike they are, which copied layers know
    # of each text by itself; of both in a row they lose it.
    pair_encoder = "bi"

    def __init__(self, splits, *arguments, **details):
        super().__init__(splits, *arguments, **details)
        labels = splits.train.labels
        known = labels[data.has_label(labels)].astype("float64")
        self.mean, self.scale = float(known.mean()), float(known.std())

    @staticmethod
    def outputs_in_words(label_names):
        return f"scores: {label_names[0]}"

    @property
    def tolerance(self):
        """Float, by how much an exported score may differ."""
        return TOLERANCE * self.scale

    def hard_loss(self):
        """The squared error, where there are scores."""
        return StandardizedMSE(self.scale)

    def keras_loss(self):
        return keras.losses.MeanSquaredError()

    def hard_words(self):
        return "squared error to the scores"

    def soft_loss(self, temperature):
        """The squared error to the teacher's score."""
        return self.logits_loss(temperature)

    def logits_loss(self, temperature):
        del temperature
        return StandardizedMSE(self.scale)

    def statistics(self, logits, part):
        """The moments that Pearson's correlation is made of."""
        return self._moments(logits[part][:, 0], self.encoded[part].labels)

    def _moments(self, first, second):
        """Those of standardised scores: far from zero they lose digits."""
        return measures.moments(
            *((x - self.mean) / self.scale for x in (first, second))
        )

    of_means = staticmethod(measures.pearson)

    def further_scores(self, logits):
        """Spearman's correlation, and the root of the mean squared error."""
        return measures.score_errors(
            logits["test"][:, 0], self.encoded["test"].labels
        )

    def agreement(self, first, second):
        """Pearson's correlation of two models' scores."""
        moments = self._moments(first[:, 0], second[:, 0])
        return float(measures.pearson(moments.mean(axis=0)))

    def pseudo_labels(self, logits):
        """The teacher's score."""
        return logits[:, 0].astype("float32")

    def last_layer(self):
        return keras.layers.Rescaling(
            self.scale, self.mean, name="scores", dtype="float32"
        )

    def linear_model(self, labels):
        """TF-IDF with ridge regression, as `linear.fit` chooses it."""
        from keras_distill.tasks import linear

        return linear.of_task(self, labels, linear.Scores())
