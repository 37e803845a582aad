"""Texts with any number of labels each."""

import re

import numpy as np

from keras_distill.data.labelled import has_label
from keras_distill.data.text_splits import TextSplits

SEPARATOR = re.compile("[,;|]")
YES, NO, UNKNOWN = ("1", "1.0", "true"), ("0", "0.0", "false"), ("-1", "-1.0")


class MultiLabelSplits(TextSplits):
    """Train, dev and test of a set with any number of labels a row.

    As `TextSplits`, but that `labels` is an array `[rows, labels]`: 1 where
    `label_names[i]` applies, else 0; train rows without labels hold `-1`
    throughout.

    Raises:
        ValueError: A part is empty, a value is none of these, or train has no
            row to which a label applies.

    Example:

    >>> from keras_distill.data import TextDataset
    >>> part = TextDataset(["good film", "so so"], [[1, 1], [0, 0]])
    >>> MultiLabelSplits(part, part, part, ["film", "praise"]).num_classes
    2
    """

    label_columns = ("labels", "label")
    draws_by_class = of_classes = False
    tfds_kinds = "iuf"

    @staticmethod
    def check_names(label_names):
        """Raises `ValueError` unless there is a label."""
        if not label_names:
            raise ValueError(
                "The labels of a train part must name at least one. "
                "Received: label_names=[]"
            )

    def _check_labels(self, name, labels):
        shape = (len(labels), len(self.label_names))
        if labels.dtype.kind == "f" or labels.shape != shape:
            raise ValueError(
                "Several labels must be integers, a column for each of "
                f"`label_names`. Received: {name}.labels of shape "
                f"{labels.shape}, dtype {labels.dtype}, for "
                f"{shape[1]} label_names"
            )
        known = has_label(labels)
        fits = np.isin(labels, (0, 1)).all(axis=1)
        if name == "train":
            fits |= (labels == -1).all(axis=1)
        if not fits.all():
            row = int(np.argmin(fits))
            raise ValueError(
                f"`{name}` labels must be 1 or 0; only `train` may hold rows "
                f"of -1, without labels. Received: {name}.labels[{row}]="
                f"{labels[row].tolist()}, {int((~fits).sum())} such rows"
            )
        if not labels[known].any():
            raise ValueError(
                f"A label must apply to some row of {name}. Received: "
                f"{int(known.sum())} labelled rows to which none applies"
            )

    @staticmethod
    def columns_of(label_column):
        """Tuple of the columns in `"toxic,insult"`, one a label."""
        return tuple(name.strip() for name in label_column.split(","))

    @staticmethod
    def read_label(fields, columns):
        """Tuple of the names that apply, or None.

        One column holds the names, between commas, semicolons or bars, and is
        empty where none applies; of several columns each holds 1 or 0.
        """
        if any(field in UNKNOWN for field in fields):
            return None
        if len(columns) == 1:
            names = (name.strip() for name in SEPARATOR.split(fields[0]))
            return tuple(dict.fromkeys(name for name in names if name))
        for column, field in zip(columns, fields):
            if field.casefold() not in (*YES, *NO):
                raise ValueError(
                    "A column of one label must hold 1 where it applies, else "
                    f"0, and -1 in a row without labels. Received: {field!r} "
                    f"in the column {column!r}"
                )
        return tuple(
            column
            for column, field in zip(columns, fields)
            if field.casefold() in YES
        )

    @staticmethod
    def names_of(labels, columns):
        """The columns, or the names that occur in the one."""
        if len(columns) > 1:
            return list(columns)
        return sorted({name for held in labels for name in held or ()})

    @classmethod
    def to_array(cls, part, items, labels, names):
        """Array `[rows, labels]` of 1, 0, and -1 in rows without labels."""
        cls.check_known(part, items, [held or () for held in labels], names)
        found = np.zeros((len(labels), len(names)), "int32")
        position = {name: i for i, name in enumerate(names)}
        for row, held in enumerate(labels):
            if held is None:
                found[row] = -1
            else:
                found[row, [position[name] for name in held]] = 1
        return found
