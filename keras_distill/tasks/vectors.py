"""Vectors: a text in; a vector out, near those of texts that mean the same."""

import copy

import keras
import keras_hub
import numpy as np

from keras_distill import data
from keras_distill import losses
from keras_distill._errors import UsageError
from keras_distill.tasks import embedders
from keras_distill.tasks import measures_of_vectors
from keras_distill.tasks.hard_losses import CosineDistance
from keras_distill.tasks.of_texts import SMOKE
from keras_distill.tasks.of_texts import TextTask

# By so much the cosine of an export's vector with the model's may fall short.
TOLERANCE = 0.02


class TextVectors(TextTask):
    """A vector for each text, as near as may be to the teacher's.

    `splits` is a `data.VectorSplits`. Nobody needs labels: beside a teacher
    (`judged_by`) the labels of all rows are its vectors, and what is measured
    is how many of each text's neighbours among the others are the same ones.
    Vectors are compared by their cosine; those of students have length 1.

    Example:

    >>> import keras_distill as kd, numpy as np
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> part = kd.data.TextDataset(["good", "bad", "new"], [-1, -1, -1])
    >>> task = TextVectors.from_texts(
    ...     kd.data.VectorSplits(part, part, part, []),
    ...     kd.data.bert_preprocessor(words, 8),
    ... )
    >>> vectors = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0]])
    >>> beside = task.judged_by({"dev": vectors})
    >>> beside.score({"dev": 2 * vectors[:, ::-1]}, "dev")
    1.0
    """

    splits_kind = data.VectorSplits
    pipeline_tag = "sentence-similarity"
    fine_tunes_teacher, student = False, "static"
    # On SST-2 they brought 0.3 points, on TREC none, for minutes of labelling.
    wants_transfer = False
    measure, label_noun = "neighbours kept", "vector"
    export_as, tolerance = "vectors", TOLERANCE
    # Of vectors of length 1 squared error and cosine are the same.
    recipes = ("untrained", "kd")
    output_names = None
    # Set by a teacher: how many dimensions its vectors have.
    dimensions = None

    @classmethod
    def check_chosen(cls, chosen):
        """Nothing is learnt from labels: the teacher is what it is."""
        super().check_chosen(chosen)
        if chosen.teacher_epochs or chosen.labels is not None:
            raise UsageError(
                "`--task vectors` needs no labels, and fine-tunes no teacher: "
                "leave out `--labels` and `--teacher-epochs`. Received: "
                f"labels={chosen.labels}, "
                f"teacher_epochs={chosen.teacher_epochs}"
            )
        if chosen.unlabelled and chosen.text_pair_column:
            raise UsageError(
                "Further texts beside pairs must be single ones: write them "
                "into the train part. Received: unlabelled="
                f"{chosen.unlabelled}, "
                f"text_pair_column={chosen.text_pair_column}"
            )
        if chosen.source.is_new and not chosen.smoke:
            raise UsageError(
                "`--task vectors` needs a teacher that knows something: name a "
                "KerasHub embedder, a folder of sentence-transformers, or one "
                "with any encoder. Received: teacher=embedded"
            )

    @property
    def further(self):
        """With classes or scored pairs, also what they say of the vectors."""
        found = {"cosine": ("Cosine %", "mean cosine with the teacher's")}
        if self._has_classes():
            found["probe"] = (
                "Probe %",
                "accuracy of logistic regression on the vectors of dev",
            )
        if self._has_pairs():
            found["spearman"] = (
                "Spearman %",
                "rank correlation of the cosines of pairs with their scores",
            )
        return found

    def _has_pairs(self):
        labels = self.splits.test.labels
        if labels.ndim == 1:
            return False
        _, _, scores = measures_of_vectors.pairs(labels, labels)
        return len(scores) > 2

    def _has_classes(self):
        if self.splits.test.labels.ndim > 1:
            return False
        parts = self.splits.dev.labels, self.splits.test.labels
        known = all(data.has_label(labels).all() for labels in parts)
        return known and len(np.unique(parts[0])) > 1

    @property
    def num_outputs(self):
        """Integer: the dimensions of the teacher's vectors."""
        return self.dimensions

    @property
    def labelled_train_rows(self):
        """Integer: all rows, as the teacher has a vector for each."""
        return len(self.encoded["train"])

    @staticmethod
    def outputs_in_words(label_names):
        del label_names
        return "vectors"

    def judged_by(self, logits):
        """A task whose labels are the teacher's vectors, of length 1.

        Args:
            logits: Dict from parts to arrays `[rows, dimensions]`.

        Returns:
            `TextVectors`.

        Raises:
            ValueError: There is not one vector for each text.
        """
        for part, vectors in logits.items():
            rows = len(self.encoded.get(part, ()))
            if np.ndim(vectors) != 2 or len(vectors) != rows:
                raise ValueError(
                    f"The teacher must have a vector for each of the {rows} "
                    f"texts of {part!r}, an array [rows, dimensions]. "
                    f"Received: an array of shape {np.shape(vectors)}"
                )
        found = copy.copy(self)
        found.dimensions = np.shape(logits["dev"])[1]
        found.encoded = self.encoded | {
            part: self.encoded[part].with_labels(
                measures_of_vectors.unit(vectors).astype("float32")
            )
            for part, vectors in logits.items()
        }
        return found

    def labels(self, count, seed):
        """The teacher's vectors of the train part."""
        del count, seed
        return self.encoded["train"].labels

    def hard_loss(self):
        """One minus the cosine."""
        return CosineDistance()

    def keras_loss(self):
        return keras.losses.CosineSimilarity()

    def hard_words(self):
        return "cosine distance to the teacher's vectors"

    def soft_loss(self, temperature):
        del temperature
        return losses.VectorCosine()

    logits_loss = soft_loss

    def statistics(self, logits, part):
        """Of each text the share of the teacher's neighbours that it keeps."""
        return measures_of_vectors.neighbours_kept(
            self.encoded[part].labels, logits[part]
        )

    def further_scores(self, logits):
        """The mean cosine; with classes the probe, with pairs Spearman's."""
        splits, test = self.splits, logits["test"]
        found = {"cosine": self.agreement(self.encoded["test"].labels, test)}
        if self._has_classes():
            found["probe"] = measures_of_vectors.probed(
                (logits["dev"], splits.dev.labels), (test, splits.test.labels)
            )
        if self._has_pairs():
            found["spearman"] = measures_of_vectors.similarity(
                *measures_of_vectors.pairs(test, splits.test.labels)
            )
        return found

    def agreement(self, first, second):
        """The mean cosine; of vectors of other dimensions 0."""
        if first.shape != second.shape:
            return 0.0
        unit = measures_of_vectors.unit
        return float((unit(first) * unit(second)).sum(axis=1).mean())

    def check_teacher(self, model, who="teacher"):
        """Raises `ValueError` unless a model gives a vector for each text."""
        row = self.encoded["dev"].take(slice(1)).inputs
        shape = tuple(np.shape(model(row, training=False)))
        if len(shape) != 2 or shape[1] < 2:
            raise ValueError(
                f"The {who} must give a vector for each text, [rows, "
                f"dimensions]. Received: a {who} with the output shape {shape}"
            )
        self.dimensions = shape[1]

    def adapted(self, model, preprocessor=None):
        """The model, whose dimensions are those of the task from now on."""
        del preprocessor
        self.check_teacher(model, "model")
        return model

    def last_layer(self):
        return keras.layers.UnitNormalization(name="unit", dtype="float32")

    def student_model(self, student, teacher):
        """The model of a `students.Student` that makes vectors."""
        return self.for_inputs(student.of_vectors(self, teacher))

    @staticmethod
    def embedder(teacher):
        """The teacher itself."""
        return teacher

    def embedded_teacher(self, smoke=False):
        """An encoder that knows nothing: for `--smoke` alone."""
        del smoke
        model = embedders.pooled(self.embedded_backbone(*SMOKE))
        return self.adapted(model)

    def preset_teacher(self, preset):
        """An embedder, as `embedders.of_preset`; it is not fine-tuned."""
        return self.adapted(embedders.of_preset(preset)), True

    @staticmethod
    def preset_names():
        """The names of the presets that could be teachers."""
        return {
            *keras_hub.models.Backbone.presets,
            *keras_hub.models.TextEmbedder.presets,
        }

    def linear_model(self, labels):
        """TF-IDF, its principal components, and ridge regression."""
        from keras_distill.tasks import linear_vectors

        return linear_vectors.of_task(self, labels)
