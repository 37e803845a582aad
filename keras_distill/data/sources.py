"""`load`: a classification set by name, from files, or from TFDS."""

import pathlib
import re

from keras_distill.data import docstrings
from keras_distill.data.splits import TextDataset
from keras_distill.data.splits import TextSplits
from keras_distill.data.splits import check_classes
from keras_distill.data.splits import unit_hash
from keras_distill.data.tables import SUFFIXES
from keras_distill.data.tables import part_file
from keras_distill.data.tables import read_table
from keras_distill.data.tfds_source import load_tfds

PARTS = ("train", "dev", "test")


def load(source="docstrings", text_column=None, label_column=None):
    """Loads a text classification set.

    Labels may be strings or integers. Rows with an empty label or `-1` stay
    in train as unlabelled text. A part that is missing is taken from train,
    10 % by the hash of the text; `notes` of the result says so.

    Args:
        source: `"docstrings"`, the set made from the installed packages; the
            path of a `.tsv` or `.csv` file with a header line; the path of a
            folder with `train`, and perhaps `dev` and `test`, as such files;
            or `"tfds:NAME"` or `"tfds:NAME/CONFIG"`.
        text_column: String, the column or feature with the text. Defaults to
            `"text"` in files and to the one text feature in TFDS.
        label_column: String, the column or feature with the label. Defaults
            to `"label"`.

    Returns:
        `TextSplits`.

    Raises:
        FileNotFoundError: There is no such file or folder.
        ValueError: The data is not a labelled set; the message says why.

    Example:

    >>> load("reviews.tsv")
    Traceback (most recent call last):
    FileNotFoundError: There is no such file. Received: path='reviews.tsv'
    """
    source = str(source)
    if source == "docstrings":
        _refuse_columns(text_column, label_column)
        return docstrings.build()
    if source.startswith("tfds:"):
        name = source.removeprefix("tfds:")
        rows, names, notes = load_tfds(name, text_column, label_column)
    else:
        columns = (text_column or "text", label_column or "label")
        rows, names, notes = _load_files(pathlib.Path(source), columns)
    return _assemble(rows, names, notes)


def _refuse_columns(text_column, label_column):
    if text_column is not None or label_column is not None:
        raise ValueError(
            "`text_column` and `label_column` are for files and TFDS; the set "
            "'docstrings' has no columns. Received: "
            f"text_column={text_column!r}, label_column={label_column!r}"
        )


def _load_files(path, columns):
    if not path.exists() and path.suffix not in SUFFIXES:
        raise FileNotFoundError(
            "`source` must be 'docstrings', 'tfds:NAME', a .tsv or .csv file, "
            "or a folder with train.tsv or train.csv. "
            f"Received: source={str(path)!r}, which does not exist"
        )
    if not path.is_dir():
        return {"train": read_table(path, *columns)}, None, ()
    files = {part: part_file(path, part, SUFFIXES) for part in PARTS}
    if files["train"] is None:
        held = sorted(item.name for item in path.iterdir())
        raise FileNotFoundError(
            "A folder of data must hold train.tsv or train.csv. Received: "
            f"source={str(path)!r} with {held[:8]}"
            + (f" and {len(held) - 8} more" if len(held) > 8 else "")
        )
    rows = {
        part: read_table(file, *columns) for part, file in files.items() if file
    }
    return rows, None, ()


def _assemble(rows, names, notes):
    """Fills missing parts from train and turns labels into positions."""
    names = names or _names(rows["train"])
    check_classes(names)
    notes = list(notes)
    rows = dict(rows)
    missing = [part for part in ("test", "dev") if part not in rows]
    for part, bounds in zip(missing, [(0.0, 0.1), (0.1, 0.2)]):
        rows["train"], rows[part] = _take(rows["train"], bounds)
        notes.append(
            f"No {part} part: {len(rows[part])} labelled rows taken from "
            "train, by the hash of the text"
        )
    _check_parts(rows)
    position = {name: i for i, name in enumerate(names)}
    return TextSplits(
        **{
            part: TextDataset(
                [text for text, _ in rows[part]],
                [_position(position, part, label) for _, label in rows[part]],
            )
            for part in PARTS
        },
        label_names=names,
        notes=tuple(notes),
    )


def _names(rows):
    """Distinct labels, integers by value."""
    found = {label for _, label in rows if label is not None}
    if all(re.fullmatch(r"[0-9]+", label) for label in found):
        return sorted(found, key=int)
    return sorted(found)


def _take(rows, bounds):
    low, high = bounds
    taken = [
        label is not None and low <= unit_hash(docstrings.identity(text)) < high
        for text, label in rows
    ]
    rest = [row for row, moves in zip(rows, taken) if not moves]
    return rest, [row for row, moves in zip(rows, taken) if moves]


def _check_parts(rows):
    for part in PARTS:
        labels = [label for _, label in rows[part]]
        if part != "train" and None in labels:
            raise ValueError(
                f"Every row of {part} needs a label. Received: "
                f"{labels.count(None)} of {len(labels)} rows without one. Use "
                "a part with labels, or leave it out so that it is taken "
                "from train"
            )


def _position(position, part, label):
    if label is None:
        return -1
    if label not in position:
        raise ValueError(
            f"Labels of {part} must occur in train: {list(position)}. "
            f"Received: label={label!r}"
        )
    return position[label]
