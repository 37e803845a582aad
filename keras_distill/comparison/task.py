"""One task: its texts as token ids, and what the teacher says of them."""

import dataclasses
import functools
import hashlib

import keras
import numpy as np

from keras_distill import data
from keras_distill.comparison import training

PARTS = ("train", "dev", "test")
TRANSFER = "transfer"


@dataclasses.dataclass(frozen=True)
class Task:
    """What every arm of a comparison is trained and scored on.

    Args:
        splits: `data.TextSplits`. Train rows without a label are transfer
            text.
        encoded: Dict from `"train"`, `"dev"`, `"test"` and perhaps
            `"transfer"`, further text without labels, to the
            `data.EncodedDataset` of each.
        logits: Dict from the same names to the teacher's logits, float arrays
            `[rows, classes]`.
        preprocessor: The KerasHub preprocessor that made the token ids.
        teacher: `keras.Model` or None. Exported, to compare file size and
            latency, and run by arms with matches.
        name: String, what the report calls the task.
        notes: Sentences on how it was made, for the report.

    Raises:
        ValueError: Parts are missing or do not fit together.
    """

    splits: data.TextSplits
    encoded: dict
    logits: dict
    preprocessor: object = None
    teacher: keras.Model | None = None
    name: str = "the task"
    notes: tuple = ()

    def __post_init__(self):
        required = set(PARTS)
        for name in ("encoded", "logits"):
            parts = set(getattr(self, name))
            if not required <= parts <= required | {TRANSFER}:
                raise ValueError(
                    f"`{name}` must hold {list(PARTS)} and perhaps "
                    f"'{TRANSFER}'. Received: {name} with {sorted(parts)}"
                )
        if set(self.encoded) != set(self.logits):
            raise ValueError(
                "`encoded` and `logits` must hold the same parts. Received: "
                f"{sorted(self.encoded)} and {sorted(self.logits)}"
            )
        for part, logits in self.logits.items():
            shape = (len(self.encoded[part]), self.num_classes)
            if np.shape(logits) != shape:
                raise ValueError(
                    "`logits` must hold one row for each text and one value "
                    f"for each class. Received: logits[{part!r}] of shape "
                    f"{np.shape(logits)}, expected {shape}"
                )

    @classmethod
    def from_texts(cls, splits, preprocessor, teacher, transfer=(), **options):
        """Tokenises the texts and runs the teacher over them, once.

        Args:
            splits: `data.TextSplits`.
            preprocessor: KerasHub text classifier preprocessor.
            teacher: `keras.Model` from token ids to logits.
            transfer: Texts without labels, a list of strings.
            **options: `name` and `notes`.

        Returns:
            `Task`.

        Example:

        >>> import keras_distill as kd
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
        >>> part = kd.data.TextDataset(["good", "bad"], [1, 0])
        >>> splits = kd.data.TextSplits(part, part, part, ["no", "yes"])
        >>> task = Task.from_texts(
        ...     splits,
        ...     kd.data.bert_preprocessor(words, 8),
        ...     kd.students.text_cnn(2, (6, 4), filters=4),
        ... )
        >>> task.logits["test"].shape
        (2, 2)
        """
        sets = {part: getattr(splits, part) for part in PARTS}
        if len(transfer):
            missing = np.full(len(transfer), data.UNLABELLED)
            sets[TRANSFER] = data.TextDataset(transfer, missing)
        encoded = {
            part: data.encode(
                texts, preprocessor, special_tokens=part == TRANSFER
            )
            for part, texts in sets.items()
        }
        logits = {
            part: training.predict(teacher, rows).astype("float32")
            for part, rows in encoded.items()
        }
        return cls(splits, encoded, logits, preprocessor, teacher, **options)

    @property
    def num_classes(self):
        """Number of classes."""
        return self.splits.num_classes

    def labels(self, count, seed):
        """The train labels that a student sees, `-1` where it sees none."""
        if count is None:
            return self.splits.train.labels
        return data.keep_labels(self.splits, count, seed).train.labels

    def has_transfer(self, count=None):
        """Whether there is text without labels, `count` labels being kept."""
        return TRANSFER in self.encoded or leaves_text(self.splits, count)

    @functools.cached_property
    def hashes(self):
        """Dict from `texts`, `transfer`, `teacher` to what tells changes."""
        texts = {part: self.encoded[part] for part in PARTS}
        further = {p: e for p, e in self.encoded.items() if p == TRANSFER}
        return {
            "texts": _hash(
                array
                for rows in texts.values()
                for array in (rows.labels, *rows.inputs.values())
            ),
            "transfer": _hash(
                array
                for rows in further.values()
                for array in rows.inputs.values()
            ),
            "teacher": _hash(self.logits[part] for part in sorted(self.logits)),
        }


def leaves_text(splits, count=None):
    """Whether train rows are without a label, `count` labels being kept."""
    labels = splits.train.labels
    kept = (labels != data.UNLABELLED).sum() if count is None else count
    return bool(kept < len(labels))


def _hash(arrays):
    total = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array)
        total.update(f"{array.dtype} {array.shape}".encode())
        total.update(array.data)
    return total.hexdigest()
