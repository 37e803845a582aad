"""`load`: a classification set by name, from files, or from TFDS."""

import difflib
import heapq
import os
import pathlib
import re
import stat

from keras_distill._pairs import whole_text
from keras_distill._text_files import LONGEST_SHOWN
from keras_distill._text_files import file_mode
from keras_distill._text_files import shown
from keras_distill._text_files import shown_path
from keras_distill._text_files import some
from keras_distill.data import docstrings
from keras_distill.data.splits import TextDataset
from keras_distill.data.splits import TextSplits
from keras_distill.data.splits import check_classes
from keras_distill.data.splits import unit_hash
from keras_distill.data.tables import SUFFIXES
from keras_distill.data.tables import header
from keras_distill.data.tables import part_file
from keras_distill.data.tables import read_names
from keras_distill.data.tables import read_table
from keras_distill.data.tfds_source import load_tfds

PARTS = ("train", "dev", "test")
NAMES = "labels.txt"
NUMBER = re.compile(r"[0-9]+")
MOST_COMPARED = 1000
# What public sets call the two texts of a pair.
PAIRS = (
    ("text", "text_pair"),
    ("text1", "text2"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
)


def load(
    source="docstrings",
    text_column=None,
    label_column=None,
    text_pair_column=None,
):
    """Loads a classification set of texts, or of pairs of texts.

    Labels may be strings or integers. Rows with an empty label or `-1` stay
    in train as unlabelled text. A part that is missing is taken from train,
    10 % by the hash of the text; `notes` of the result says so. A file
    `labels.txt` in the folder, or beside the file, names integer labels: line 1
    the class 0, and so on.

    Args:
        source: `"docstrings"`, the set made from the installed packages; the
            path of a `.tsv` or `.csv` file with a header line; the path of a
            folder with `train`, and perhaps `dev` and `test`, as such files;
            or `"tfds:NAME"` or `"tfds:NAME/CONFIG"`.
        text_column: String, the column or feature with the text. Defaults to
            `"text"` in files and to the one text feature in TFDS.
        label_column: String, the column or feature with the label. Defaults
            to `"label"`.
        text_pair_column: String, the column or feature with the second text of
            a pair. Defaults to none: one text in each row.

    Returns:
        `TextSplits`, of pairs with a `text_pair_column`.

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
        _refuse_columns(
            text_column=text_column,
            label_column=label_column,
            text_pair_column=text_pair_column,
        )
        return docstrings.build()
    if source.startswith("tfds:"):
        name = source.removeprefix("tfds:")
        rows, names, notes = load_tfds(
            name, text_column, label_column, text_pair_column
        )
    else:
        columns = (
            text_column or "text",
            label_column or "label",
            text_pair_column,
        )
        rows, names, notes = _load_files(pathlib.Path(source), columns)
    return _assemble(rows, names, notes)


def _refuse_columns(**columns):
    given = [f"{k}={v!r}" for k, v in columns.items() if v is not None]
    if given:
        raise ValueError(
            "`text_column`, `label_column` and `text_pair_column` are for "
            "files and TFDS; the set 'docstrings' has no columns. Received: "
            + ", ".join(given)
        )


def _load_files(path, columns):
    rows = {
        part: read_table(file, *columns)
        for part, file in table_files(path).items()
        if file
    }
    file = names_file(path)
    if file is None:
        return rows, None, ()
    names = read_names(file)
    return _named(rows, names, file), names, ()


def names_file(source):
    """The `labels.txt` that names the classes of a file or folder, or None.

    Args:
        source: As in `load`, a path.
    """
    path = pathlib.Path(source)
    beside = (path if path.is_dir() else path.parent) / NAMES
    return beside if os.path.lexists(beside) else None


def _named(rows, names, file):
    """The rows with the names of their classes for their numbers."""
    found = {label for part in rows.values() for _, label in part} - {None}
    words = sorted(label for label in found if not NUMBER.fullmatch(label))
    if words:
        raise ValueError(
            f"{NAMES} names the integer labels 0, 1, 2 and so on, one a line. "
            "Remove it where the labels are names already. Received: "
            f"labels={some(words)} beside {shown_path(file)}"
        )
    needed = 1 + max(map(int, found), default=-1)
    if found and len(names) != needed:
        raise ValueError(
            f"{NAMES} must have one line for each class, {needed} for the "
            f"labels 0 to {needed - 1}. Add or remove lines. Received: "
            f"{len(names)} lines in {shown_path(file)}"
        )
    return {
        part: [
            (text, None if label is None else names[int(label)])
            for text, label in held
        ]
        for part, held in rows.items()
    }


def table_files(source):
    """The files that `load` reads.

    Args:
        source: As in `load`, a path.

    Returns:
        Dict from `"train"`, `"dev"` and `"test"` to a path, or None for a
        part that is missing.

    Raises:
        FileNotFoundError: There is no such file or folder, or no train in it.
        ValueError: The path cannot be read, or there are two files for a part.
    """
    path = pathlib.Path(source)
    mode = file_mode(path)
    if mode is None and path.suffix not in SUFFIXES:
        raise FileNotFoundError(
            "`source` must be 'docstrings', 'tfds:NAME', a .tsv or .csv file, "
            "or a folder with train.tsv or train.csv. "
            f"Received: source={shown_path(path)}, which does not exist"
        )
    if not stat.S_ISDIR(mode or 0):
        return {"train": path, "dev": None, "test": None}
    files = {part: part_file(path, part, SUFFIXES) for part in PARTS}
    if files["train"] is None:
        raise FileNotFoundError(
            "A folder of data must hold train.tsv or train.csv. Received: "
            f"source={shown_path(path)} with {some(sorted(os.listdir(path)))}"
        )
    return files


def pair_columns(source):
    """The columns of a pair's texts, where the header of train tells them.

    Args:
        source: As in `load`.

    Returns:
        Pair of strings, or None: there are no columns of such names, or one
        `text`, or the file cannot be read, which `load` tells.
    """
    try:
        names = header(table_files(source)["train"])
    except (OSError, ValueError):
        return None
    known = [pair for pair in PAIRS if ("text" in pair) == ("text" in names)]
    return next((pair for pair in known if set(pair) <= set(names)), None)


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
                _positions(position, part, rows[part]),
            )
            for part in PARTS
        },
        label_names=names,
        notes=tuple(notes),
    )


def _names(rows):
    """Distinct labels, integers by value."""
    found = {label for _, label in rows if label is not None}
    if all(NUMBER.fullmatch(label) for label in found):
        return sorted(found, key=int)
    return sorted(found)


def _take(rows, bounds):
    low, high = bounds
    taken = [
        label is not None
        and low <= unit_hash(docstrings.identity(whole_text(text))) < high
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


def _positions(position, part, rows):
    """Labels as positions; None as -1."""
    unknown = [
        (row, text, label)
        for row, (text, label) in enumerate(rows, start=1)
        if label is not None and label not in position
    ]
    if unknown:
        row, text, label = unknown[0]
        # Alike means of like length: to compare with all takes seconds.
        few = heapq.nsmallest(
            MOST_COMPARED, position, lambda name: abs(len(name) - len(label))
        )
        near = difflib.get_close_matches(label[:LONGEST_SHOWN], few)
        raise ValueError(
            f"Labels of {part} must occur in train: {some(position)}. "
            f"Received: label={shown(label)} in row {row} of {part}, "
            f"{shown(whole_text(text))}; {len(unknown):,} such rows. "
            + (f"Is {some(near)} meant? " if near else "")
            + "Mend the labels, or move rows of that class into train"
        )
    return [-1 if label is None else position[label] for _, label in rows]
