"""Texts with a score each: what a regression learns from."""

import math

import numpy as np

from keras_distill.data.labelled import has_label
from keras_distill.data.text_splits import TextSplits


class ScoreSplits(TextSplits):
    """Train, dev and test of a set whose labels are numbers, such as 3.8.

    As `TextSplits`, but that `labels` are floats, NaN in train rows without
    one, and `label_names` holds one name, that of the score.

    Raises:
        ValueError: A part is empty; a score is missing in `dev` or `test`; or
            all scores of a part are the same.

    Example:

    >>> from keras_distill.data import TextDataset
    >>> part = TextDataset(["good", "bad"], [4.5, 1.0])
    >>> ScoreSplits(part, part, part, ["stars"]).train.labels.tolist()
    [4.5, 1.0]
    """

    label_columns = ("score", "similarity", "label")
    draws_by_class = of_classes = False
    tfds_kinds = "iuf"

    @staticmethod
    def check_names(label_names):
        """Raises `ValueError` unless there is one name."""
        if len(label_names) != 1:
            raise ValueError(
                "Scores have one name. "
                f"Received: label_names={list(label_names)}"
            )

    def _check_labels(self, name, labels):
        if labels.dtype.kind != "f" or labels.ndim > 1:
            raise ValueError(
                "Scores must be one float for each text. Received: "
                f"{name}.labels of shape {labels.shape}, dtype {labels.dtype}"
            )
        known = has_label(labels)
        if name != "train" and not known.all():
            raise ValueError(
                "Only `train` may hold NaN, a row without a score. Received: "
                f"{name}.labels[{int(np.argmin(known))}]=nan, "
                f"{int((~known).sum())} such rows"
            )
        if len(np.unique(labels[known])) < 2:
            raise ValueError(
                f"The scores of {name} must differ: nothing can be learnt of "
                "equal ones, and there is no correlation with them. Received: "
                f"{int(known.sum())} scores"
            )

    @staticmethod
    def read_label(fields, columns):
        """A float, or None where the field is empty."""
        (text,) = fields
        if not text:
            return None
        try:
            score = float(text)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise ValueError(
                f"A score must be a number, such as 3.8. Received: {text!r} in "
                f"the column {columns[0]!r}, which a row without a score "
                "leaves empty"
            )
        return score

    @staticmethod
    def are_labels(fields):
        """Whether they are numbers, and not all of them whole ones."""
        try:
            found = [float(field) for field in fields]
        except ValueError:
            return False
        finite = all(map(math.isfinite, found))
        return finite and not all(map(float.is_integer, found))

    @staticmethod
    def names_of(labels, columns):
        """The name of the column."""
        del labels
        return list(columns)

    @staticmethod
    def to_array(part, items, labels, names):
        """The scores, NaN where there is none."""
        del part, items, names
        return np.array(labels, "float32")
