"""Labelled texts in three splits: what every source of data returns."""

import dataclasses
import difflib
import heapq
import re

import numpy as np

from keras_distill import _pairs
from keras_distill._files import content_hash
from keras_distill._text_files import LONGEST_SHOWN
from keras_distill._text_files import shown
from keras_distill._text_files import some
from keras_distill.data.labelled import UNLABELLED
from keras_distill.data.labelled import TextDataset
from keras_distill.data.labelled import has_label
from keras_distill.data.labelled import missing_labels

NUMBER = re.compile(r"[0-9]+")
# -1.0 is the -1 of a column that a program took for floats.
MISSING = {"", "-1", "-1.0"}
NOT_A_NUMBER = {"nan", "<na>"}
MOST_COMPARED = 1000


@dataclasses.dataclass(frozen=True)
class TextSplits:
    """The train, dev and test parts of one classification set.

    A set with labels of another kind is a subclass, in a file of its own: it
    says what a field of a table means, and what is refused.

    Labels may be missing (`-1`) in `train`, where such rows are transfer text
    for a teacher, and nowhere else.

    Args:
        train: `TextDataset` to learn from.
        dev: `TextDataset` to choose by.
        test: `TextDataset` to report.
        label_names: List of strings, at least two; label `i` is
            `label_names[i]`.
        notes: Sentences that say what a loader decided by itself, for
            example where a missing dev part was taken from.

    Raises:
        ValueError: A part is empty, there are fewer than two classes, a label
            is out of range, or a label is missing in `dev` or `test`.
    """

    train: TextDataset
    dev: TextDataset
    test: TextDataset
    label_names: list
    notes: tuple = ()

    # What a column of such labels may be called.
    label_columns = ("label",)
    # The files, and what reads one; None: a table, by its columns.
    suffixes, read_file = (".tsv", ".csv"), None
    # Whether each word has a label.
    per_word = False
    # Of numpy's kinds of numbers, those that labels in TFDS may have.
    tfds_kinds = "iu"

    def __post_init__(self):
        self.check_names(self.label_names)
        for name in ("train", "dev", "test"):
            part = getattr(self, name)
            if not len(part):
                raise ValueError(
                    f"`{name}` must not be empty. Received: 0 rows. Add rows, "
                    "or leave the part out so that it is taken from the others"
                )
            self._check_labels(name, part.labels)

    def _check_labels(self, name, labels):
        if labels.dtype.kind == "f" or labels.ndim > 1:
            raise ValueError(
                "The label of a class must be one integer. For scores use "
                "`kd.data.ScoreSplits`, for several labels a row "
                f"`kd.data.MultiLabelSplits`. Received: {name}.labels of shape "
                f"{labels.shape}, dtype {labels.dtype}"
            )
        lowest = UNLABELLED if name == "train" else 0
        wrong = (labels < lowest) | (labels >= len(self.label_names))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"`{name}` labels must be between {lowest} and "
                f"{len(self.label_names) - 1}; only `train` may hold -1, a "
                f"row without a label. Received: {name}.labels[{row}]="
                f"{labels[row]}, {int(wrong.sum())} such rows"
            )

    def made_texts(self, times, seed):
        """Further texts that only the labels can tell how to make.

        Args:
            times: Integer, how many of each train text at most.
            seed: Integer.

        Returns:
            List of texts.
        """
        del times, seed
        return []

    @property
    def num_classes(self):
        """Number of classes."""
        return len(self.label_names)

    @staticmethod
    def check_names(label_names):
        """Raises `ValueError` unless there are two or more classes."""
        if len(label_names) < 2:
            raise ValueError(
                "The labels of a train part must name at least two classes. "
                f"Received: label_names={list(label_names)}"
            )

    @staticmethod
    def columns_of(label_column):
        """Tuple of the columns that an option names."""
        return (label_column,)

    @staticmethod
    def read_label(fields, columns):
        """What a table's fields say of a row.

        Args:
            fields: List of strings, of the label's columns.
            columns: Tuple of their names.

        Returns:
            String, or None where the row has no label.

        Raises:
            ValueError: They say nothing that can be a label.
        """
        del columns
        (label,) = fields
        if label.casefold() in NOT_A_NUMBER:
            raise ValueError(
                "A label must be the name or the number of a class. Received: "
                f"{label!r}, where a row without a label leaves the field "
                "empty"
            )
        return None if label in MISSING else label

    @staticmethod
    def names_of(labels, columns):
        """Names of the labels that occur, integers by value.

        Args:
            labels: List of what `read_label` gave.
            columns: Tuple of strings, as there.
        """
        del columns
        found = set(labels) - {None}
        if all(NUMBER.fullmatch(label) for label in found):
            return sorted(found, key=int)
        return sorted(found)

    @staticmethod
    def to_array(part, texts, labels, names):
        """The array of labels of a part, as of `TextDataset`.

        Args:
            part: String, `"train"`, `"dev"` or `"test"`, for messages.
            texts: List of strings or pairs, for messages.
            labels: List of what `read_label` gave.
            names: What `names_of` gave for the train part.

        Raises:
            ValueError: A label is none of `names`.
        """
        position = {name: i for i, name in enumerate(names)}
        check_known(
            part, texts, [[] if x is None else [x] for x in labels], names
        )
        return [-1 if label is None else position[label] for label in labels]

    def draw(self, count, rng):
        """Positions of `count` train rows that keep their labels.

        Classes keep their shares (largest remainders), and each class keeps
        at least one row.
        """
        labels = self.train.labels
        sizes = np.bincount(labels[labels >= 0], minlength=self.num_classes)
        present = np.count_nonzero(sizes)
        if not present <= count <= sizes.sum():
            raise ValueError(
                "`count` must lie between the number of classes that have "
                f"labels ({present}) and the number of labelled rows "
                f"({sizes.sum()}). Received: count={count}"
            )
        return np.concatenate(
            [
                rng.permutation(np.flatnonzero(labels == label))[:quota]
                for label, quota in enumerate(_quotas(sizes, count))
            ]
        )


def check_known(part, texts, labels, names):
    """Raises `ValueError` for a label that none of the names is.

    Args:
        part: String, for messages.
        texts: List, one for each row, for messages.
        labels: List of lists of strings, those of each row.
        names: List of strings.
    """
    known = set(names)
    unknown = [
        (row, label)
        for row, held in enumerate(labels)
        for label in held
        if label not in known
    ]
    if not unknown:
        return
    row, label = unknown[0]
    # Alike means of like length: to compare with all takes seconds.
    few = heapq.nsmallest(
        MOST_COMPARED, names, lambda name: abs(len(name) - len(label))
    )
    near = difflib.get_close_matches(label[:LONGEST_SHOWN], few)
    raise ValueError(
        f"Labels of {part} must occur in train: {some(names)}. Received: "
        f"label={shown(label)} in row {row + 1} of {part}, "
        f"{shown(_pairs.whole_text(texts[row]))}; {len(unknown):,} such rows. "
        + (f"Is {some(near)} meant? " if near else "")
        + "Mend the labels, or move rows of that class into train"
    )


def unit_hash(text):
    """A number in `[0, 1)` that depends on the text alone.

    Equal in every process and on every machine, unlike `hash`.

    Args:
        text: String.

    Returns:
        Float in `[0, 1)`.

    Example:

    >>> round(unit_hash("a"), 6)
    0.791374
    """
    return int(content_hash([text])[:12], base=16) / 16**12


def keep_labels(splits, count, seed=0):
    """Keeps `count` of the train labels; the other rows become unlabelled.

    The scenario is a trained teacher, few labels and much text. Classes keep
    their shares (largest remainders), and each class keeps at least one row;
    rows with labels of another kind are drawn evenly. Train with a loss that
    ignores rows without a label to use the others.

    Args:
        splits: `TextSplits`.
        count: Integer, how many labelled rows remain in `train`.
        seed: Integer. Chooses the rows.

    Returns:
        `TextSplits` with the same rows; `dev` and `test` are unchanged.

    Raises:
        ValueError: `count` is below the number of labelled classes or above
            the number of labelled rows.

    Example:

    >>> part = TextDataset(["a", "b", "c", "d"], [0, 0, 1, 1])
    >>> few = keep_labels(TextSplits(part, part, part, ["x", "y"]), 2)
    >>> sorted(few.train.labels.tolist())
    [-1, -1, 0, 1]
    """
    labels = splits.train.labels
    rows = splits.draw(count, np.random.default_rng(seed))
    kept = missing_labels(labels, len(labels))
    kept[rows] = labels[rows]
    train = TextDataset(splits.train.texts, kept)
    note = (
        f"{count} of {has_label(labels).sum()} train labels kept (seed {seed})"
    )
    return dataclasses.replace(splits, train=train, notes=(*splits.notes, note))


def _quotas(sizes, count):
    """Shares of `count` by largest remainder, at least one where possible."""
    floor = (sizes > 0).astype(int)
    spare = sizes - floor
    exact = (count - floor.sum()) * spare / max(spare.sum(), 1)
    quotas = floor + exact.astype(int)
    by_remainder = np.argsort(exact.astype(int) - exact, kind="stable")
    quotas[by_remainder[: count - quotas.sum()]] += 1
    return quotas
