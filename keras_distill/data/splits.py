"""Labelled texts in three splits: what every source of data returns."""

import dataclasses

import numpy as np

from keras_distill import _pairs
from keras_distill._files import content_hash

UNLABELLED = -1


@dataclasses.dataclass(frozen=True)
class TextDataset:
    """Texts, or pairs of texts, and their labels.

    Args:
        texts: List of strings, none of them empty, or of pairs of such.
        labels: Integer array of shape `[len(texts)]`: positions in
            `TextSplits.label_names`, or `-1` for a row without a label.
    """

    texts: list
    labels: np.ndarray

    def __post_init__(self):
        # JSON, of which a run is restored, has lists for pairs.
        texts = [_pairs.from_sides(_pairs.sides(text)) for text in self.texts]
        object.__setattr__(self, "texts", texts)
        labels = np.asarray(self.labels, dtype="int32")
        object.__setattr__(self, "labels", labels)
        if labels.shape != (len(self.texts),):
            raise ValueError(
                "`labels` must hold one label per text. Received: "
                f"len(texts)={len(self.texts)}, labels.shape={labels.shape}"
            )

    def __len__(self):
        return len(self.texts)

    def take(self, rows):
        """The rows at the positions `rows`, as a new `TextDataset`."""
        return TextDataset([self.texts[i] for i in rows], self.labels[rows])


@dataclasses.dataclass(frozen=True)
class TextSplits:
    """The train, dev and test parts of one classification set.

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

    def __post_init__(self):
        check_classes(self.label_names)
        for name in ("train", "dev", "test"):
            self._check_part(name, getattr(self, name))

    def _check_part(self, name, part):
        if not len(part):
            raise ValueError(
                f"`{name}` must not be empty. Received: 0 rows. Add rows, or "
                "leave the part out so that it is taken from the others"
            )
        lowest = UNLABELLED if name == "train" else 0
        wrong = (part.labels < lowest) | (part.labels >= len(self.label_names))
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"`{name}` labels must be between {lowest} and "
                f"{len(self.label_names) - 1}; only `train` may hold -1, a "
                f"row without a label. Received: {name}.labels[{row}]="
                f"{part.labels[row]}, {int(wrong.sum())} such rows"
            )

    @property
    def num_classes(self):
        """Number of classes."""
        return len(self.label_names)


def check_classes(label_names):
    """Raises `ValueError` unless there are two or more classes."""
    if len(label_names) < 2:
        raise ValueError(
            "The labels of a train part must name at least two classes. "
            f"Received: label_names={list(label_names)}"
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
    their shares (largest remainders), and each class keeps at least one row.
    Train with a loss that ignores class `-1` to use the other rows.

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
    sizes = np.bincount(labels[labels >= 0], minlength=splits.num_classes)
    present = np.count_nonzero(sizes)
    if not present <= count <= sizes.sum():
        raise ValueError(
            "`count` must lie between the number of classes that have labels "
            f"({present}) and the number of labelled rows ({sizes.sum()}). "
            f"Received: count={count}"
        )
    rng = np.random.default_rng(seed)
    kept = np.full(labels.shape, UNLABELLED, dtype="int32")
    for label, quota in enumerate(_quotas(sizes, count)):
        rows = rng.permutation(np.flatnonzero(labels == label))[:quota]
        kept[rows] = label
    train = TextDataset(splits.train.texts, kept)
    note = f"{count} of {sizes.sum()} train labels kept (seed {seed})"
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
