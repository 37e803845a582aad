"""Texts to make vectors of, alone, with classes, or in scored pairs."""

import os
import pathlib

import numpy as np

from keras_distill._pairs import flat
from keras_distill._pairs import sides
from keras_distill._text_files import read_lines
from keras_distill.data.labelled import UNLABELLED
from keras_distill.data.labelled import TextDataset
from keras_distill.data.scores import ScoreSplits
from keras_distill.data.tables import read_table
from keras_distill.data.text_splits import TextSplits

LINES = ".txt"
SCORES = ("score", "similarity")
# The label of a text that is in no pair with a score.
IN_NO_PAIR = (-1.0, 0.0)


class VectorSplits(TextSplits):
    """Train, dev and test of texts that a model makes vectors of.

    As `TextSplits`, but that no row of any part needs a label. Nobody learns
    from the classes, where there are some: they tell what vectors are worth.
    So do pairs with a score: both texts are rows then, and their label, float
    `[rows, 2]`, is the number of the pair and the score, (-1, 0) without one.

    Raises:
        ValueError: A part is empty, or a label is out of range.

    Example:

    >>> from keras_distill.data import TextDataset
    >>> part = TextDataset(["good", "bad"], [-1, -1])
    >>> len(VectorSplits(part, part, part, []).label_names)
    0
    """

    label_columns = ("label", *SCORES)
    needs_labels = False
    draws_by_class = False
    suffixes = (*TextSplits.suffixes, LINES)

    @classmethod
    def is_at(cls, source):
        """Whether it is, or holds as train, a file of one text a line."""
        path = pathlib.Path(source)
        return path.suffix == LINES or os.path.exists(path / f"train{LINES}")

    @staticmethod
    def check_names(label_names):
        """Any number of classes will do."""

    def _check_labels(self, name, labels):
        if labels.dtype.kind == "f" and labels.shape[1:] == (2,):
            return
        wrong = (labels < UNLABELLED) | (labels >= len(self.label_names))
        if labels.dtype.kind == "f" or labels.ndim > 1 or wrong.any():
            raise ValueError(
                f"The labels of {name} must be -1, where there is none, or "
                "positions in `label_names`. Received: labels of shape "
                f"{labels.shape}, dtype {labels.dtype}, {int(wrong.sum())} out "
                f"of range, for {len(self.label_names)} names"
            )

    @staticmethod
    def dataset(items, labels):
        """`TextDataset` of single texts, also those of pairs."""
        labels = np.repeat(labels, len(sides(items[0])) if items else 1, axis=0)
        return TextDataset(flat(items), labels)

    @staticmethod
    def read_label(fields, columns):
        """A class, or a score; None where the file has no such column."""
        if not fields:
            return None
        kind = ScoreSplits if columns[0] in SCORES else TextSplits
        return kind.read_label(fields, columns)

    @staticmethod
    def names_of(labels, columns):
        """As of classes; scores have none."""
        classes = [x for x in labels if not isinstance(x, float)]
        return TextSplits.names_of(classes, columns)

    @classmethod
    def to_array(cls, part, items, labels, names):
        """Classes; of pairs number and score. Scores of single texts go."""
        if items and len(sides(items[0])) > 1:
            return _in_pairs(part, labels)
        labels = [None if isinstance(x, float) else x for x in labels]
        return super().to_array(part, items, labels, names)

    @staticmethod
    def read_file(path, *columns):
        """The texts of a file of lines, or of a table.

        Args:
            path: Path of a `.txt` file with one text a line, empty lines aside,
                or of a table.
            *columns: As of `read_table`.

        Returns:
            As `read_table`.

        Raises:
            ValueError: As `read_table`; or there is no text.
        """
        path = pathlib.Path(path)
        if path.suffix != LINES:
            return read_table(path, *columns)
        return [(text, None) for text in read_lines(path)]


def _in_pairs(part, labels):
    found = np.full((len(labels), 2), IN_NO_PAIR, "float32")
    for row, label in enumerate(labels):
        if label is None:
            continue
        try:
            found[row] = row, float(label)
        except ValueError as error:
            raise ValueError(
                "The label of a pair must be a score, such as 3.8, how alike "
                f"its texts are. Received: {label!r} in row {row + 1} of "
                f"{part}. Leave `--text-pair-column` out, or name the column "
                "of the scores (`--label-column`)"
            ) from error
    return found
