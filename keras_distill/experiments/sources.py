"""Where a model comes from: its kind, its tokenizer, the model itself."""

import dataclasses
import difflib
import functools
import pathlib

import keras

from keras_distill import _files
from keras_distill import data
from keras_distill._backend import load_model
from keras_distill._backend import symbolic_inputs
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill._layers import backbone_class
from keras_distill._layers import longest_sequence_within
from keras_distill.experiments import places
from keras_distill.experiments import training

# Tokens of a text, as many as that can be, of a pretrained teacher: two cores
# take seconds for a step of more, and attention takes gigabytes.
LONGEST = 256
# What libraries raise for files and names that are no model.
LOADING = (ValueError, OSError, ImportError, TypeError, KeyError)


# Equal ones share nothing: the file may have changed in between.
@dataclasses.dataclass(frozen=True, eq=False)
class TeacherSource:
    """A teacher by its name: it is loaded when it is asked for.

    Args:
        source: String: `"embedded"`, a small model trained from scratch; a
            KerasHub preset name; a folder with a KerasHub preset or a Hugging
            Face model; or a `.keras` file.
        sequence_length: Integer, tokens of each text.
        vocabulary: Path of a WordPiece vocabulary, for a `.keras` file that
            holds no tokenizer. None: a `vocab.txt` beside it.
        smoke: Boolean. An embedded teacher is tiny.

    Raises:
        UsageError: There is no model, or no vocabulary.

    Example:

    >>> TeacherSource("embedded", sequence_length=32).kind
    'embedded'
    """

    source: str = places.EMBEDDED
    sequence_length: int = 64
    vocabulary: str | None = None
    smoke: bool = False

    def __post_init__(self):
        kind = self.kind
        if self.vocabulary is None:
            return
        if kind != "keras":
            raise UsageError(
                "`--vocabulary` is for a teacher in a .keras file; every "
                "other teacher brings its own. Received: vocabulary="
                f"{self.vocabulary}, teacher={self.source}"
            )
        if not places.checked_path(self.vocabulary, "vocabulary").is_file():
            raise UsageError(
                "`--vocabulary` must be a vocab.txt that exists. "
                f"Received: vocabulary={self.vocabulary!r}"
            )

    @property
    def kind(self):
        """As `places.model_kind`."""
        return places.model_kind(self.source)

    @property
    def is_new(self):
        """Whether it is trained from scratch."""
        return self.kind == places.EMBEDDED

    @property
    def saved(self):
        """The model in its `.keras` file, not to be trained; None of others."""
        return self._saved()[0] if self.kind == "keras" else None

    @property
    def backbone(self):
        """KerasHub's class of its backbone, None where only loading tells."""
        known = self.kind in ("folder", "preset")
        return backbone_class(self.source) if known else None

    def paths(self):
        """Dict from names to the paths that this teacher is read from."""
        vocabulary = self.vocabulary
        if vocabulary is None and self.kind == "keras":
            beside = self._vocabulary_beside()
            vocabulary = str(beside) if beside.is_file() else None
        return {
            "teacher": places.path_of(self.source),
            "vocabulary": vocabulary,
        }

    def check(self, task_kind):
        """Raises `UsageError` if teacher or tokenizer cannot be loaded."""
        if self.kind == "keras":
            self._saved()
        if self.kind == "preset":
            self._check_known(task_kind.preset_names())
        if not self.is_new and task_kind.preprocesses:
            self.preprocessor(task_kind)

    def longest_sequence(self):
        """The most tokens that it reads of texts that are longer.

        A teacher from scratch reads what it is given, None.
        """
        if self.is_new:
            return None
        return min(self._positions() or LONGEST, LONGEST)

    def _positions(self):
        """How many tokens it can read, None where that is not known."""
        if self.kind == "keras":
            return longest_sequence_within(self._saved()[0])
        # A preset by its name is not loaded for this.
        if self.kind != "folder":
            return None
        config = _files.read_json(pathlib.Path(self.source) / "config.json")
        # Of KerasHub, and of Hugging Face.
        found = config.get("config", {}).get("max_sequence_length")
        return found or config.get("max_position_embeddings")

    def preprocessor(self, task_kind, vocabulary=None):
        """What makes this teacher's inputs of the data.

        Args:
            task_kind: Subclass of `Task`.
            vocabulary: Path of the vocabulary of an embedded teacher.
        """
        if self.is_new:
            return data.bert_preprocessor(str(vocabulary), self.sequence_length)
        return self._own_preprocessor(task_kind)

    def build(self, task):
        """The teacher for this task, not fine-tuned yet.

        Args:
            task: `Task`.

        Returns:
            Pair of the model, without a preprocessor, and whether it knows
            the task's classes already.

        Raises:
            UsageError: It cannot be loaded, or does not fit the task.
        """
        if self.is_new:
            return task.embedded_teacher(self.smoke), False
        if self.kind == "keras":
            # Anew: its dropout draws a seed as it is made, and a fine-tuning
            # must not change the model that `_saved` keeps.
            with as_usage_error(*LOADING, advice=self._received()):
                model = load_model(self.source)
                layer = training.take_preprocessor(model)
                model = task.adapted(model, layer)
                task.check_teacher(model)
            return model, True
        with as_usage_error(*LOADING, advice=self._advice()):
            return task.preset_teacher(self.source)

    def contrastive(self, task):
        """The teacher as a classifier of vectors.

        Args:
            task: `tasks.TextClassification`.

        Returns:
            What `task.contrastive_teacher` gives.

        Raises:
            UsageError: It cannot be loaded.
        """
        with as_usage_error(*LOADING, advice=self._advice()):
            return task.contrastive_teacher(self.source)

    @functools.cache  # noqa: B019 - a few sources live as long as the process.
    def _own_preprocessor(self, task_kind):
        if self.kind == "keras":
            return self._preprocessor_of_saved()
        with as_usage_error(*LOADING, advice=self._advice()):
            return task_kind.preset_preprocessor(
                self.source, self.sequence_length
            )

    @functools.cache  # noqa: B019
    def _saved(self):
        """The model in a file, and the preprocessor that was in it, or None."""
        advice = f"The teacher {self.source!r} cannot be loaded."
        with as_usage_error(*LOADING, advice=advice):
            model = load_model(self.source)
        return model, training.take_preprocessor(model)

    def _preprocessor_of_saved(self):
        vocabulary = self.vocabulary
        if vocabulary is None:
            _, layer = self._saved()
            if layer is not None:
                layer.sequence_length = self.sequence_length
                return layer
            vocabulary = self._vocabulary_beside()
        self._check_reads_tokens()
        if not pathlib.Path(vocabulary).is_file():
            raise UsageError(
                "The teacher's file holds no tokenizer, and no vocab.txt is "
                "beside it: pass its WordPiece vocabulary as `--vocabulary "
                f"vocab.txt`. {self._received()}"
            )
        with as_usage_error(*LOADING, advice="See `--vocabulary`."):
            return data.bert_preprocessor(str(vocabulary), self.sequence_length)

    def _check_reads_tokens(self):
        read = keras.tree.flatten(symbolic_inputs(self.saved))
        if any(getattr(x, "dtype", None) == "string" for x in read):
            raise UsageError(
                "A teacher must read token ids, which its student reads, too; "
                "this one reads strings, as with a TextVectorization layer. "
                "In Python its outputs for each text are enough: "
                "`kd.experiments.Teacher({'train': logits, ...})` with a task "
                f"and a tokenizer of your own. {self._received()}"
            )

    def _vocabulary_beside(self):
        return pathlib.Path(self.source).with_name("vocab.txt")

    def _check_known(self, known):
        if self.source.startswith(places.REMOTE) or self.source in known:
            return
        close = difflib.get_close_matches(self.source, known, n=3)
        hint = f"Did you mean {' or '.join(close)}? " if close else ""
        raise UsageError(
            f"KerasHub has no preset {self.source!r}. {hint}`--teacher` must "
            "be 'embedded', a preset name of keras.io/keras_hub/presets, a "
            f"folder with a model, or a .keras file. {self._received()}"
        )

    def _advice(self):
        if self.kind == "folder":
            return (
                "The folder must hold a KerasHub preset or a Hugging Face "
                f"model of an encoder that KerasHub knows. {self._received()}"
            )
        return (
            f"The preset {self.source!r} is not on this machine and could not "
            "be downloaded, or is no encoder. Without a network, pass a local "
            "folder as `--teacher`, or leave it out for the embedded one."
        )

    def _received(self):
        return f"Received: teacher={self.source!r}"
