"""`load`: a classification set by name, from files, or from TFDS."""

import os
import pathlib
import stat

from keras_distill._text_files import file_mode
from keras_distill._text_files import shown_path
from keras_distill._text_files import some
from keras_distill.data import docstrings
from keras_distill.data.assembly import PARTS
from keras_distill.data.assembly import assemble
from keras_distill.data.splits import NUMBER
from keras_distill.data.tables import SUFFIXES
from keras_distill.data.tables import first_fields
from keras_distill.data.tables import header
from keras_distill.data.tables import part_file
from keras_distill.data.tables import read_names
from keras_distill.data.tables import read_table
from keras_distill.data.text_splits import TextSplits
from keras_distill.data.tfds_source import load_tfds

NAMES = "labels.txt"


def load(
    source="docstrings",
    text_column=None,
    label_column=None,
    text_pair_column=None,
    kind=TextSplits,
):
    """Loads a labelled set of texts, or of pairs of texts.

    Classes may be strings or integers. Rows with an empty label or `-1` stay
    in train as unlabelled text. Scores are numbers, where only an empty field
    is none. Of several labels, one column holds their names between commas,
    semicolons or bars, empty where none applies; or each has a column of 1 and
    0; there `-1` is a row without labels. A part that is missing is taken from
    train, 10 % by the hash of the text; `notes` of the result says so. A file
    `labels.txt` in the folder, or beside the file, names integer labels: line 1
    the class 0, and so on.

    Args:
        source: `"docstrings"`, the set made from the installed packages; the
            path of a `.tsv` or `.csv` file with a header line, or of a `.jsonl`
            file with an object a line, whose keys are columns; the path of a
            folder with `train`, and perhaps `dev` and `test`, as such files;
            or `"tfds:NAME"` or `"tfds:NAME/CONFIG"`.
        text_column: String, the column or feature with the text. Defaults to
            `"text"` in files and to the one text feature in TFDS.
        label_column: String, the column or feature with the label. Defaults
            to `"label"`; for scores to `"score"` or `"similarity"`, and for
            several labels to `"labels"`, where there is such a one. Several
            labels in a column each: their names, `"toxic,insult"`.
        text_pair_column: String, the column or feature with the second text of
            a pair. Defaults to none: one text in each row.

        kind: `TextSplits`, `ScoreSplits`, `MultiLabelSplits`, `TagSplits`, or
            `VectorSplits`, whose rows need no labels, and whose files may be
            `.txt` with one text a line.

    Returns:
        `kind`, of pairs with a `text_pair_column`.

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
        if not kind.of_classes:
            raise ValueError(
                "The set 'docstrings' has classes. Name another `source` for "
                f"scores or several labels. Received: kind={kind.__name__}"
            )
        return kind.like(docstrings.build())
    columns = None
    if label_column is not None:
        columns = kind.columns_of(label_column)
    if source.startswith("tfds:"):
        name = source.removeprefix("tfds:")
        columns = columns or ("label",)
        rows, names, notes = load_tfds(
            name, text_column, columns, text_pair_column, kind
        )
    else:
        path = pathlib.Path(source)
        columns = columns or label_columns(path, kind)
        rows, names, notes = _load_files(
            path, (text_column or "text", columns, text_pair_column, kind)
        )
    return assemble(rows, columns, names, notes, kind)


def label_columns(source, kind):
    """The columns with the labels, by the header of train.

    Args:
        source: As in `load`, a path.
        kind: As in `load`.

    Returns:
        Tuple of strings: the first of the kind's that is there; none where
        the kind needs none.
    """
    names = header_of(source)
    found = [name for name in kind.label_columns if name in names]
    if not found and not kind.needs_labels:
        return ()
    return (*found, *kind.label_columns)[:1]


def _refuse_columns(**columns):
    given = [f"{k}={v!r}" for k, v in columns.items() if v is not None]
    if given:
        raise ValueError(
            "`text_column`, `label_column` and `text_pair_column` are for "
            "files and TFDS; the set 'docstrings' has no columns. Received: "
            + ", ".join(given)
        )


def _load_files(path, columns):
    kind = columns[-1]
    read = kind.read_file or read_table
    rows = {
        part: read(file, *columns)
        for part, file in table_files(path, kind.suffixes).items()
        if file
    }
    file = names_file(path)
    if file is None or kind is not TextSplits:
        return rows, None, ()
    names = read_names(file)
    return named(rows, names, file), names, ()


def names_file(source):
    """The `labels.txt` that names the classes of a file or folder, or None.

    Args:
        source: As in `load`, a path.
    """
    path = pathlib.Path(source)
    beside = (path if path.is_dir() else path.parent) / NAMES
    return beside if os.path.lexists(beside) else None


def named(rows, names, file):
    """The rows with the names of their classes for their numbers.

    Args:
        rows: Dict from the parts to lists of pairs, whose second is an integer
            as a string, or None.
        names: List of strings.
        file: Path where they stand.

    Raises:
        ValueError: They are not as many as the classes.
    """
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


def table_files(source, suffixes=SUFFIXES):
    """The files that `load` reads.

    Args:
        source: As in `load`, a path.
        suffixes: Tuple of strings, of the kind of files.

    Returns:
        Dict from `"train"`, `"dev"` and `"test"` to a path, or None for a
        part that is missing.

    Raises:
        FileNotFoundError: There is no such file or folder, or no train in it.
        ValueError: The path cannot be read, or there are two files for a part.
    """
    path = pathlib.Path(source)
    mode = file_mode(path)
    if mode is None and path.suffix not in suffixes:
        raise FileNotFoundError(
            "`source` must be 'docstrings', 'tfds:NAME', a .tsv, .csv or "
            ".jsonl file (of tags a .conll file), or a folder with train as "
            "such a file. "
            f"Received: source={shown_path(path)}, which does not exist"
        )
    if not stat.S_ISDIR(mode or 0):
        return {"train": path, "dev": None, "test": None}
    files = {part: part_file(path, part, suffixes) for part in PARTS}
    if files["train"] is None:
        raise FileNotFoundError(
            "A folder of data must hold "
            + " or ".join(f"train{suffix}" for suffix in suffixes)
            + f". Received: source={shown_path(path)} with "
            f"{some(sorted(os.listdir(path)))}"
        )
    return files


def header_of(source):
    """The columns of train; none where it cannot be read, as `load` tells.

    Args:
        source: As in `load`.
    """
    return _of_train(source, header)


def first_labels(source, column):
    """What the first rows of train have in a column, as `header_of`.

    Args:
        source: As in `load`.
        column: String.

    Returns:
        List of strings.
    """
    return _of_train(source, first_fields, column)


def _of_train(source, read, *arguments):
    try:
        file = table_files(source)["train"]
        return read(file, *arguments) if file.suffix in SUFFIXES else []
    except (OSError, ValueError):
        return []
