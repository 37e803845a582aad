"""Texts to make vectors of, with or without classes."""

import os
import pathlib

from keras_distill._text_files import read_lines
from keras_distill.data.labelled import UNLABELLED
from keras_distill.data.tables import read_table
from keras_distill.data.text_splits import TextSplits

LINES = ".txt"


class VectorSplits(TextSplits):
    """Train, dev and test of texts that a model makes vectors of.

    As `TextSplits`, but that no row of any part needs a label. Nobody learns
    from the classes, where there are some: they tell what vectors are worth.

    Raises:
        ValueError: A part is empty, or a label is out of range.

    Example:

    >>> from keras_distill.data import TextDataset
    >>> part = TextDataset(["good", "bad"], [-1, -1])
    >>> len(VectorSplits(part, part, part, []).label_names)
    0
    """

    needs_labels = False
    draws_by_class = False
    suffixes = (".tsv", ".csv", LINES)

    @classmethod
    def is_at(cls, source):
        """Whether it is, or holds as train, a file of one text a line."""
        path = pathlib.Path(source)
        return path.suffix == LINES or os.path.exists(path / f"train{LINES}")

    @staticmethod
    def check_names(label_names):
        """Any number of classes will do."""

    def _check_labels(self, name, labels):
        wrong = (labels < UNLABELLED) | (labels >= len(self.label_names))
        if labels.dtype.kind == "f" or labels.ndim > 1 or wrong.any():
            raise ValueError(
                f"The labels of {name} must be -1, where there is none, or "
                "positions in `label_names`. Received: labels of shape "
                f"{labels.shape}, dtype {labels.dtype}, {int(wrong.sum())} out "
                f"of range, for {len(self.label_names)} names"
            )

    @staticmethod
    def read_label(fields, columns):
        """As of classes; None where the file has no such column."""
        return TextSplits.read_label(fields, columns) if fields else None

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
