"""What all tasks on texts, or on pairs of texts, share."""

import functools

import keras
import keras_hub
import numpy as np

from keras_distill import _files
from keras_distill import _pairs
from keras_distill import data
from keras_distill import students
from keras_distill._checks import check_integer
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.students._inputs import encoder_of
from keras_distill.students._inputs import teacher_table
from keras_distill.tasks import counts
from keras_distill.tasks import embedders
from keras_distill.tasks import kept_texts
from keras_distill.tasks import presets
from keras_distill.tasks.base import PARTS
from keras_distill.tasks.base import TRANSFER
from keras_distill.tasks.base import Task

EMBEDDED, SMOKE = (2, 128), (1, 32)
NGRAM_BUCKETS = 2**16
_TOKEN_VECTORS = {}


class TextTask(Task):
    """A task on texts, or on pairs of texts; a subclass says what is learnt.

    `splits` is a `data.TextSplits` or a subclass of it. The teacher reads both
    texts of a pair in one row, as the preprocessor of its family packs them;
    so do students that are copied from it. Small students read them one by
    one, with one set of weights (`students.siamese`).
    """

    splits_kind = data.TextSplits
    files = kept_texts.FILES
    reading = "text_column", "label_column", "text_pair_column"
    options = (*reading, "sequence_length", "vocabulary", "min_count")
    decides = ("sequence_length",)
    preprocesses, makes_transfer, student = True, True, "text_cnn"

    @classmethod
    def from_texts(cls, splits, preprocessor, transfer=(), **details):
        """Tokenises the texts, or pairs of texts, once.

        Args:
            splits: `data.TextSplits`.
            preprocessor: KerasHub text classifier preprocessor.
            transfer: Texts without labels, a list of strings.
            **details: `name` and `notes`, as of `Task`.

        Returns:
            The task.
        """
        encoded = {
            part: data.encode(getattr(splits, part), preprocessor)
            for part in PARTS
        }
        task = cls(splits, encoded, preprocessor, **details)
        if len(transfer):
            task.add_transfer(transfer)
        task.notes += cls.notes_on(task.facts())
        return task

    @classmethod
    def check_chosen(cls, chosen):
        """Columns fit the task; what no text needs comes from elsewhere."""
        wanted = {"pairs": True, "text": False}.get(chosen.task)
        if wanted not in (None, chosen.text_pair_column is not None):
            raise UsageError(
                "`--task pairs` and `--text-pair-column`, the column with the "
                "second text, belong together. Received: "
                f"task={chosen.task!r}, "
                f"text_pair_column={chosen.text_pair_column!r}"
            )
        if chosen.min_count is None:
            return
        if chosen.source.is_new:
            raise UsageError(
                "`--min-count` is for a teacher that brings its vocabulary; "
                "that of the embedded one is learnt of the train texts. "
                f"Received: min_count={chosen.min_count}, teacher=embedded"
            )
        with as_usage_error(ValueError, advice="See `--help`."):
            check_integer("min_count", chosen.min_count, 1, 10**6)

    @classmethod
    def read_for(cls, chosen):
        """`data.TextSplits`."""
        return kept_texts.read(chosen, cls.splits_kind)

    @classmethod
    def made_for(cls, splits, chosen, folder):
        """The task, with a vocabulary and a length of its own where need be."""
        layer = kept_texts.preprocessor_for(cls, splits, chosen, folder)
        task = cls.from_texts(splits, layer)
        task.save(folder)
        return task

    @classmethod
    def restored_for(cls, chosen, folder, facts):
        """The task as it was kept, without the transfer set."""
        layer = kept_texts.restored_preprocessor(cls, chosen, folder, facts)
        notes = cls.notes_on(facts)
        return cls.restore(folder, layer, name=chosen.name(), notes=notes)

    def save(self, folder):
        """Leaves texts and token ids in a run's folder, without transfer."""
        kept_texts.save(self, folder)

    @classmethod
    def restore(cls, folder, preprocessor, **details):
        """What `save` left."""
        splits, encoded = kept_texts.restore(cls.splits_kind, folder)
        return cls(splits, encoded, preprocessor, **details)

    @classmethod
    def files_for(cls, chosen):
        """The texts, their tokens, and a vocabulary of their own."""
        if not chosen.source.is_new and chosen.min_count is None:
            return cls.files
        return (*cls.files, kept_texts.VOCABULARY)

    @classmethod
    def decided(cls, facts):
        """The length of a row."""
        return {"sequence_length": facts["sequence_length"]}

    def add_transfer(self, texts):
        """Takes texts without labels, whose `[MASK]` is the mask token.

        Args:
            texts: List of strings, or of pairs.
        """
        missing = data.missing_labels(self.splits.train.labels, len(texts))
        self.encoded[TRANSFER] = data.encode(
            data.TextDataset(texts, missing),
            self.preprocessor,
            special_tokens=True,
        )

    def facts(self):
        """Dict that JSON can hold: rows, classes, notes, and counts."""
        return {
            **super().facts(),
            "vocabulary_size": self.preprocessor.tokenizer.vocabulary_size(),
            "sequence_length": self.encoded["train"].width,
            **self._counts,
        }

    @classmethod
    def summary(cls, facts):
        """One line on `facts`."""
        return super().summary(facts) + counts.summary(facts)

    def one_row(self):
        """With its tokens."""
        return f"one {self.noun} of {self.encoded['dev'].width} tokens"

    def reads(self):
        """Of how many tokens."""
        width = self.encoded["test"].width
        return f"It reads the first {width} tokens of a {self.noun}."

    @functools.cached_property
    def _counts(self):
        return counts.of_texts(self.splits, self.encoded, self.preprocessor)

    @staticmethod
    def notes_on(facts):
        """Sentences on what is cut, unknown, or in train and test, if any."""
        return tuple(counts.notes(facts))

    @property
    def sides(self):
        """Integer, how many texts a row has."""
        return len(_pairs.sides(self.splits.train.texts[0]))

    @property
    def noun(self):
        """What reports call a row."""
        return ("text", "pair")[self.sides - 1]

    def for_inputs(self, student):
        """The student for one text, or for both and what compares them."""
        if self.sides == 2:
            student = students.siamese(student, self.separators)
        return self.with_last_layer(student)

    @property
    def separators(self):
        """Integers, the ids that begin a text and end it."""
        tokenizer = self.preprocessor.tokenizer
        return tokenizer.start_token_id, tokenizer.end_token_id

    @staticmethod
    def embedder(teacher):
        """A teacher as a model of one vector for each text, or None.

        Args:
            teacher: `keras.Model`; None is returned unless it is an encoder
                of KerasHub that is told what is padding, or around one.
        """
        encoder = encoder_of(teacher)
        if encoder is None or "padding_mask" not in encoder.input:
            return None
        return embedders.pooled(encoder)

    def token_vectors(self, teacher):
        """What a teacher says of each token alone, and how often it occurs.

        Of a teacher of pairs its table: what it says is of two texts, and
        which words are the same is better told by what they are made of.

        Args:
            teacher: `keras.Model`.

        Returns:
            Pair of arrays, `[vocabulary, dimensions]` and `[vocabulary]`, or
            None where no vectors are a start.
        """
        embedder = self.embedder(teacher)
        if embedder is None:
            return None
        occurring = self._occurring
        if self.sides == 2:
            return teacher_table(teacher), occurring
        # Half a minute of work, for each student that is built.
        known = _files.content_hash([*embedder.get_weights(), occurring])
        if known not in _TOKEN_VECTORS:
            _TOKEN_VECTORS.clear()
            _TOKEN_VECTORS[known] = embedders.token_vectors(
                embedder,
                self.preprocessor.tokenizer,
                list(self.encoded["train"].inputs),
                occurring,
            )
        return _TOKEN_VECTORS[known], occurring

    @property
    def _occurring(self):
        """Integer array `[vocabulary]`, how often each token is in the text."""
        rows = self.taught().inputs
        return np.bincount(
            rows["token_ids"][rows["padding_mask"] > 0],
            minlength=self.preprocessor.tokenizer.vocabulary_size(),
        )

    def last_layer(self):
        """What ends every model of the task, a layer without weights, or None.

        It moves what a new model says, about zero, to where answers lie: no
        learning rate is right for every unit and every share.
        """

    def with_last_layer(self, model):
        """A model of the task's inputs, ended as every model of it."""
        if (layer := self.last_layer()) is None:
            return model
        return keras.Model(model.inputs, layer(model.output), name=model.name)

    def embedded_backbone(self, layers, width):
        """A BERT from scratch, of so many layers and such a width."""
        return keras_hub.models.BertBackbone(
            vocabulary_size=self.preprocessor.tokenizer.vocabulary_size(),
            num_layers=layers,
            num_heads=2,
            hidden_dim=width,
            intermediate_dim=4 * width,
            max_sequence_length=self.preprocessor.sequence_length,
        )

    def embedded_teacher(self, smoke=False):
        """A small BERT from scratch, with n-grams; needs no network."""
        model = students.mean_pooled_classifier(
            self.embedded_backbone(*(SMOKE if smoke else EMBEDDED)),
            self.num_outputs,
            name="embedded_teacher",
            ngram_buckets=None if smoke else NGRAM_BUCKETS,
        )
        return self.with_last_layer(model)

    def preset_teacher(self, preset):
        """A KerasHub classifier, and whether it knows these classes already.

        Args:
            preset: String, a preset's name or folder.
        """
        kind = keras_hub.models.TextClassifier
        model, knows = presets.classifier(kind, preset, self.num_outputs)
        return model if knows else self.with_last_layer(model), knows

    @staticmethod
    def preset_preprocessor(preset, sequence_length):
        """The preprocessor of a KerasHub preset."""
        return keras_hub.models.TextClassifierPreprocessor.from_preset(
            preset, sequence_length=sequence_length
        )

    @staticmethod
    def preset_names():
        """The names of the presets that could be teachers."""
        return {
            *keras_hub.models.Backbone.presets,
            *keras_hub.models.TextClassifier.presets,
        }

    def raw_examples(self, count):
        """The first texts of dev."""
        return self.splits.dev.texts[:count]
