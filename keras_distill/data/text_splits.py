"""Labelled texts in three splits, and how tables say them."""

import os
import pathlib
import re

from keras_distill._pairs import whole_text
from keras_distill._text_files import shown
from keras_distill.data.labelled import TextDataset
from keras_distill.data.splits import Splits

# -1.0 is the -1 of a column that a program took for floats.
MISSING = {"", "-1", "-1.0"}
NOT_A_NUMBER = {"nan", "<na>"}
WORD = re.compile(r"[^\W_]+")


class TextSplits(Splits):
    """The train, dev and test parts of one set of texts, a class for each.

    A set with labels of another kind is a subclass, in a file of its own: it
    says what a field of a table means, and what is refused.

    Args:
        train: `TextDataset` to learn from.
        dev: `TextDataset` to choose by.
        test: `TextDataset` to report.
        label_names: As in `Splits`.
        notes: As in `Splits`.

    Raises:
        ValueError: As `Splits`.
    """

    noun = "text"
    # What a column of such labels may be called.
    label_columns = ("label",)
    # The files, and what reads one; None: a table, by its columns.
    suffixes, read_file = (".tsv", ".csv", ".jsonl"), None
    # Whether each word has a label.
    per_word = False
    # Of numpy's kinds of numbers, those that labels in TFDS may have.
    tfds_kinds = "iu"

    @classmethod
    def like(cls, splits):
        """The same parts and names, as of this kind."""
        return cls(**vars(splits))

    @classmethod
    def is_at(cls, source):
        """Whether a path is, or holds as train, a file of this kind alone.

        Tables are of several kinds: their columns tell which.
        """
        if cls.suffixes == TextSplits.suffixes:
            return False
        path = pathlib.Path(source)
        # `Path.exists` raises for names that no system can look up.
        return path.suffix in cls.suffixes or any(
            os.path.exists(path / f"train{suffix}") for suffix in cls.suffixes
        )

    @staticmethod
    def are_labels(fields):
        """Whether fields of a table can be labels of this kind alone.

        Args:
            fields: List of strings, without the empty ones.
        """
        del fields
        return False

    @staticmethod
    def dataset(items, labels):
        """`TextDataset`."""
        return TextDataset(items, labels)

    @staticmethod
    def identity(item):
        """The lower-cased letters and digits, words with one blank between.

        Example:

        >>> TextSplits.identity("Returns  the 'Shape'.")
        'returns the shape'
        """
        return " ".join(WORD.findall(whole_text(item).lower()))

    @staticmethod
    def told(item):
        """The beginning of a text, or of a pair, in quotes."""
        return shown(whole_text(item))

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
