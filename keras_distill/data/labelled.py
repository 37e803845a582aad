"""Texts, or images, with a label each, of whatever kind."""

import dataclasses

import numpy as np

from keras_distill import _pairs

UNLABELLED = -1


@dataclasses.dataclass(frozen=True)
class TextDataset:
    """Texts, or pairs of texts, and their labels.

    Args:
        texts: List of strings, none of them empty, or of pairs of such.
        labels: Integer array `[rows]`: positions in `TextSplits.label_names`.
            Or of scores a float array `[rows]`, of several labels an integer
            array `[rows, labels]` of 1 and 0, of tags `[rows, words]`. A row
            without a label holds `-1`, or NaN (None in a list) where others
            hold scores.
    """

    texts: list
    labels: np.ndarray

    def __post_init__(self):
        # JSON, of which a run is restored, has lists for pairs.
        texts = [_pairs.from_sides(_pairs.sides(text)) for text in self.texts]
        object.__setattr__(self, "texts", texts)
        labels = _as_labels(self.labels, "texts", len(texts))
        object.__setattr__(self, "labels", labels)

    def __len__(self):
        return len(self.texts)

    def take(self, rows):
        """The rows at the positions `rows`, as a new `TextDataset`."""
        return TextDataset([self.texts[i] for i in rows], self.labels[rows])


@dataclasses.dataclass(frozen=True)
class ImageDataset:
    """Images of one size, and their labels.

    Args:
        images: uint8 array `[rows, height, width, channels]`, 0 to 255.
        labels: Integer array `[rows]`, positions in `ImageSplits.label_names`;
            `-1` in a row without a label.
    """

    images: np.ndarray
    labels: np.ndarray

    def __post_init__(self):
        images = np.asarray(self.images)
        object.__setattr__(self, "images", images)
        if images.dtype != np.uint8 or images.ndim != 4:
            raise ValueError(
                "`images` must be a uint8 array [rows, height, width, "
                "channels] of values from 0 to 255; multiply floats between 0 "
                f"and 1 by 255. Received: images of shape {images.shape}, "
                f"dtype {images.dtype}"
            )
        labels = _as_labels(self.labels, "images", len(images))
        object.__setattr__(self, "labels", labels)

    def __len__(self):
        return len(self.images)

    def take(self, rows):
        """The rows at the positions `rows`, as a new `ImageDataset`."""
        return ImageDataset(self.images[rows], self.labels[rows])


def _as_labels(labels, name, rows):
    labels = np.asarray(labels)
    is_score = labels.size and labels.dtype.kind in "fO"
    labels = labels.astype("float32" if is_score else "int32")
    if labels.shape[:1] != (rows,) or labels.ndim > 2:
        raise ValueError(
            f"`labels` must hold one label for each of `{name}`. Received: "
            f"len({name})={rows}, labels.shape={labels.shape}"
        )
    return labels


def has_label(labels):
    """Which rows have a label.

    Args:
        labels: Array, as of `TextDataset`.

    Returns:
        Boolean array `[rows]`.

    Example:

    >>> has_label(np.array([0.5, np.nan])).tolist()
    [True, False]
    >>> has_label(np.array([[0, 1], [-1, -1]])).tolist()
    [True, False]
    """
    if labels.dtype.kind == "f":
        known = np.isfinite(labels)
    else:
        known = labels != UNLABELLED
    return known if labels.ndim == 1 else known.any(axis=1)


def missing_labels(like, rows):
    """Labels of rows that have none.

    Args:
        like: Array, labels of other rows.
        rows: Integer, how many.
    """
    missing = np.nan if like.dtype.kind == "f" else UNLABELLED
    return np.full((rows, *like.shape[1:]), missing, like.dtype)
