"""Labelled data in three splits: what every source of data returns."""

import dataclasses
import difflib
import heapq
import re

import numpy as np

from keras_distill._files import content_hash
from keras_distill._text_files import LONGEST_SHOWN
from keras_distill._text_files import shown
from keras_distill._text_files import some
from keras_distill.data.labelled import UNLABELLED
from keras_distill.data.labelled import has_label
from keras_distill.data.labelled import missing_labels

NUMBER = re.compile(r"[0-9]+")
MOST_COMPARED = 1000
# So many rows of as many classes are no classes: names, identifiers, scores.
DIFFERENT_LABELS = 20


@dataclasses.dataclass(frozen=True)
class Splits:
    """The train, dev and test parts of one labelled set.

    Of classes, one a row; a set with labels of another kind is a subclass.
    Labels may be missing (`-1`) in `train`, where such rows are transfer data
    for a teacher, and nowhere else.

    Args:
        train: Rows to learn from, such as a `TextDataset`.
        dev: Rows to choose by.
        test: Rows to report.
        label_names: List of strings, at least two; label `i` is
            `label_names[i]`.
        notes: Sentences that say what a loader decided by itself, for
            example where a missing dev part was taken from.

    Raises:
        ValueError: A part is empty, there are fewer than two classes, a label
            is out of range, or a label is missing in `dev` or `test`.
    """

    train: object
    dev: object
    test: object
    label_names: list
    notes: tuple = ()

    # What a row is called in messages.
    noun = "row"
    # Whether there is nothing to measure without a label.
    needs_labels = True
    # Whether a label is a class, one a row.
    of_classes = True
    # Whether few labels are drawn with the shares of their classes.
    draws_by_class = True

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

    @staticmethod
    def is_at(source):
        """Whether files, or their names, tell that a set is of this kind.

        Args:
            source: String, as `load` takes it.
        """
        raise NotImplementedError

    @staticmethod
    def dataset(items, labels):
        """A part, such as a `TextDataset`, of a list of what it holds."""
        raise NotImplementedError

    @staticmethod
    def identity(item):
        """What is equal for copies of a text, or of an image."""
        raise NotImplementedError

    @staticmethod
    def told(item):
        """A text, or an image, in a message."""
        raise NotImplementedError

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
    def names_of(labels, columns):
        """Names of the labels that occur, integers by value.

        Args:
            labels: List of what `read_label` gave.
            columns: Tuple of strings, as there.

        Raises:
            ValueError: There are many rows, and no label occurs twice.
        """
        del columns
        if len(set(labels)) == len(labels) >= DIFFERENT_LABELS:
            raise ValueError(
                "A class must have rows to learn it from. Received: "
                f"{len(labels)} labels, of which none occurs twice: "
                f"{some(labels)}. Name the column of the classes; scores are "
                "learnt with `--task regression`."
            )
        found = set(labels) - {None}
        if all(NUMBER.fullmatch(label) for label in found):
            # 1 and 01 are two labels, and a set has no order.
            return sorted(found, key=lambda label: (int(label), label))
        return sorted(found)

    @classmethod
    def to_array(cls, part, items, labels, names):
        """The array of labels of a part, as of `TextDataset`.

        Args:
            part: String, `"train"`, `"dev"` or `"test"`, for messages.
            items: List of what the rows hold, for messages.
            labels: List of what `read_label` gave.
            names: What `names_of` gave for the train part.

        Raises:
            ValueError: A label is none of `names`.
        """
        position = {name: i for i, name in enumerate(names)}
        held = [[] if x is None else [x] for x in labels]
        cls.check_known(part, items, held, names)
        return [-1 if label is None else position[label] for label in labels]

    @classmethod
    def check_known(cls, part, items, labels, names):
        """Raises `ValueError` for a label that none of the names is.

        Args:
            part: String, for messages.
            items: List, one for each row, for messages.
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
            f"{cls.told(items[row])}; {len(unknown):,} such rows. "
            + (f"Is {some(near)} meant? " if near else "")
            + "Mend the labels, or move rows of that class into train"
        )

    def draw(self, count, rng):
        """Positions of `count` train rows that keep their labels.

        Classes keep their shares (largest remainders), and each class keeps
        at least one row; rows with labels of another kind are drawn evenly.
        """
        labels = self.train.labels
        if not self.draws_by_class:
            return _draw_evenly(labels, count, rng)
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
        splits: `Splits`.
        count: Integer, how many labelled rows remain in `train`.
        seed: Integer. Chooses the rows.

    Returns:
        The splits with the same rows; `dev` and `test` are unchanged.

    Raises:
        ValueError: `count` is below the number of labelled classes or above
            the number of labelled rows.

    Example:

    >>> from keras_distill.data import TextDataset
    >>> from keras_distill.data import TextSplits
    >>> part = TextDataset(["a", "b", "c", "d"], [0, 0, 1, 1])
    >>> few = keep_labels(TextSplits(part, part, part, ["x", "y"]), 2)
    >>> sorted(few.train.labels.tolist())
    [-1, -1, 0, 1]
    """
    labels = splits.train.labels
    rows = splits.draw(count, np.random.default_rng(seed))
    kept = missing_labels(labels, len(labels))
    kept[rows] = labels[rows]
    train = dataclasses.replace(splits.train, labels=kept)
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


def _draw_evenly(labels, count, rng):
    rows = np.flatnonzero(has_label(labels))
    if not 2 <= count <= len(rows):
        raise ValueError(
            "`count` must lie between 2 and the number of labelled rows "
            f"({len(rows)}). Received: count={count}"
        )
    return rng.permutation(rows)[:count]
