"""What all tasks on texts, or on pairs of texts, share."""

import dataclasses
import functools
import pathlib

import keras
import keras_hub
import numpy as np

from keras_distill import _files
from keras_distill import _pairs
from keras_distill import data
from keras_distill import students
from keras_distill._text_files import some
from keras_distill.data import docstrings
from keras_distill.data import lengths
from keras_distill.tasks import counts
from keras_distill.tasks.base import PARTS
from keras_distill.tasks.base import TRANSFER
from keras_distill.tasks.base import Task

TEXTS = pathlib.Path("data") / "texts.json"
TOKENS = pathlib.Path("data") / "tokens.npz"
SMOKE_ROWS = {"train": 240, "dev": 60, "test": 60}
EMBEDDED, SMOKE = (2, 128), (1, 32)
NGRAM_BUCKETS = 2**16


class TextTask(Task):
    """A task on texts, or on pairs of texts; a subclass says what is learnt.

    `splits` is a `data.TextSplits` or a subclass of it. The teacher reads both
    texts of a pair in one row, as the preprocessor of its family packs them;
    so do students that are copied from it. Small students read them one by
    one, with one set of weights (`students.siamese`).
    """

    splits_kind = data.TextSplits
    files = (TEXTS, TOKENS)

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

    @staticmethod
    def fitting_length(splits, preprocessor, longest=None):
        """How many tokens hold nearly all train texts.

        Args:
            splits: `data.TextSplits`.
            preprocessor: KerasHub text classifier preprocessor.
            longest: Integer, the most that the teacher can read, or None.

        Returns:
            Integer.
        """
        return lengths.fitting_length(splits.train, preprocessor, longest)

    @classmethod
    def read(cls, source, columns, smoke=False):
        """The data as they are.

        Args:
            source: String, as `data.load` takes it.
            columns: Dict of the columns, as `data.load` takes them.
            smoke: Boolean. A few rows only.

        Returns:
            `data.TextSplits`.
        """
        if not smoke:
            return data.load(source, **columns, kind=cls.splits_kind)
        if source == "docstrings" and cls.splits_kind is data.TextSplits:
            splits = docstrings.build(("numpy", "keras"), max_per_class=500)
        else:
            splits = data.load(source, **columns, kind=cls.splits_kind)
        few = {
            part: getattr(splits, part).take(np.arange(rows))
            for part, rows in SMOKE_ROWS.items()
            if rows < len(getattr(splits, part))
        }
        note = f"--smoke: at most {SMOKE_ROWS} rows"
        notes = (*splits.notes, note)
        return dataclasses.replace(splits, **few, notes=notes)

    def save(self, folder):
        """Leaves texts and token ids in a run's folder, without transfer."""
        arrays = {
            f"{part}.{name}": array
            for part in PARTS
            for name, array in self.encoded[part].inputs.items()
        }
        with _files.complete_file(folder / TOKENS) as draft:
            np.savez_compressed(draft, **arrays)
        splits = self.splits
        held = {
            part: (
                getattr(splits, part).texts,
                _as_json(getattr(splits, part).labels),
            )
            for part in PARTS
        }
        held |= {
            "label_names": list(splits.label_names),
            "notes": list(splits.notes),
        }
        _files.write_json(folder / TEXTS, held)

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

    @classmethod
    def restore(cls, folder, preprocessor, **details):
        """What `save` left."""
        held = _files.read_json(folder / TEXTS)
        splits = cls.splits_kind(
            **{part: data.TextDataset(*held[part]) for part in PARTS},
            label_names=held["label_names"],
            notes=tuple(held["notes"]),
        )
        with np.load(folder / TOKENS) as arrays:
            encoded = {
                part: data.EncodedDataset(
                    inputs={
                        name.removeprefix(f"{part}."): arrays[name]
                        for name in arrays.files
                        if name.startswith(f"{part}.")
                    },
                    labels=getattr(splits, part).labels,
                    lengths=arrays[f"{part}.padding_mask"].sum(axis=1),
                )
                for part in PARTS
            }
        return cls(splits, encoded, preprocessor, **details)

    def facts(self):
        """Dict that JSON can hold: rows, classes, notes, and `counts`."""
        splits = self.splits
        return {
            "noun": self.noun,
            "rows": {part: len(getattr(splits, part)) for part in PARTS},
            "labelled_train_rows": self.labelled_train_rows,
            "label_names": list(splits.label_names),
            "notes": list(splits.notes),
            "vocabulary_size": self.preprocessor.tokenizer.vocabulary_size(),
            "sequence_length": self.encoded["train"].width,
            **self._counts,
        }

    @functools.cached_property
    def _counts(self):
        return counts.of_texts(self.splits, self.encoded, self.preprocessor)

    @staticmethod
    def notes_on(facts):
        """Sentences on what is cut, unknown, or in train and test, if any."""
        return tuple(counts.notes(facts))

    @staticmethod
    def outputs_in_words(label_names):
        """What is predicted, in a few words."""
        return f"{len(label_names)} classes"

    @property
    def sides(self):
        """Integer, how many texts a row has."""
        return len(_pairs.sides(self.splits.train.texts[0]))

    @property
    def noun(self):
        """What reports call a row."""
        return ("text", "pair")[self.sides - 1]

    @classmethod
    def summary(cls, facts):
        """One line on `facts`."""
        rows = facts["rows"]
        return (
            f"{rows['train']:,} train, {rows['dev']:,} dev and "
            f"{rows['test']:,} test {facts['noun']}s, "
            f"{cls.outputs_in_words(facts['label_names'])}"
            f"{counts.summary(facts)}"
        )

    def check_teacher(self, model):
        """Raises `ValueError` unless its outputs are those of the task."""
        row = self.encoded["dev"].take(slice(1)).inputs
        shape = tuple(np.shape(model(row)))
        if shape[1:] != self.logits_shape:
            raise ValueError(
                f"The teacher must give {self.num_outputs} logits, "
                f"{self.logits_in_words()}. Received: a teacher with the "
                f"output shape {shape}"
            )

    def logits_in_words(self):
        """What each logit is for."""
        return f"one for each of {some(self.splits.label_names)}"

    def for_inputs(self, student):
        """The student for one text, or for both and what compares them."""
        if self.sides == 2:
            tokenizer = self.preprocessor.tokenizer
            separators = tokenizer.start_token_id, tokenizer.end_token_id
            student = students.siamese(student, separators)
        return self._finished(student)

    def last_layer(self):
        """What ends every model of the task, a layer without weights, or None.

        It moves what a new model says, about zero, to where answers lie: no
        learning rate is right for every unit and every share.
        """

    def _finished(self, model):
        layer = self.last_layer()
        if layer is None:
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
        return self._finished(model)

    def preset_teacher(self, preset):
        """A KerasHub classifier, and whether it knows these classes already.

        Args:
            preset: String, a preset's name or folder.
        """
        path = pathlib.Path(preset) / "task.json"
        classes = None
        if path.is_file():
            classes = _files.read_json(path)["config"].get("num_classes")
        knows = classes == self.num_outputs
        options = {} if knows else {"num_classes": self.num_outputs}
        model = keras_hub.models.TextClassifier.from_preset(
            preset, preprocessor=None, **options
        )
        model.preprocessor = None
        return model if knows else self._finished(model), knows

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


def _as_json(labels):
    """Labels as lists; None for NaN, which JSON lacks."""
    if labels.dtype.kind != "f":
        return labels.tolist()
    known = data.has_label(labels)
    return [x if has else None for x, has in zip(labels.tolist(), known)]
