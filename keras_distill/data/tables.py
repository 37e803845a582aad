"""Tables as rows of (text, label), with errors that name lines."""

import contextlib
import csv
import io
import itertools
import os
import pathlib

from keras_distill._pairs import from_sides
from keras_distill._text_files import all_lines
from keras_distill._text_files import read_text
from keras_distill._text_files import shown_path
from keras_distill._text_files import some
from keras_distill.data import json_lines
from keras_distill.data.text_splits import TextSplits

SUFFIXES = TextSplits.suffixes
# The most that a C long holds everywhere; csv's own limit is 131,072.
LONGEST_FIELD = 2**31 - 1
PEEKED = 1000


def read_table(
    path,
    text_column="text",
    label_columns=("label",),
    text_pair_column=None,
    kind=TextSplits,
):
    """Reads a file with a header line.

    A `.csv` file may quote its fields. A `.tsv` file is split at tabs and
    quotes are plain characters, as in GLUE and SST. A `.jsonl` file has an
    object a line, whose keys are the columns.

    Args:
        path: Path of a `.tsv`, `.csv` or `.jsonl` file, UTF-8, or UTF-16 with
            its mark.
        text_column: String, the name in the header.
        label_columns: Tuple of strings, names in the header.
        text_pair_column: String, the name of the second text's column, or
            None: one text in each row.
        kind: `TextSplits` or a subclass, what the labels mean.

    Returns:
        List of `(text, label)`, without blanks around them; a label is what
        `kind.read_label` makes of it, `None` where there is none. With two
        columns of text, `text` is a pair of strings.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is empty, is no text, lacks a column, or a line
            has an empty text, a quote that is not closed, a label that is
            none, or the wrong number of fields.
    """
    path = pathlib.Path(path)
    columns = _text_columns(text_column, text_pair_column)
    sides, labels = len(columns), []
    rows = read_columns(path, *columns, *label_columns)
    texts = _texts(path, [row[: 1 + sides] for row in rows])
    for line, *fields in rows:
        held = [field.strip() for field in fields[sides:]]
        try:
            labels.append(kind.read_label(held, label_columns))
        except ValueError as error:
            raise ValueError(f"{error}; in {path.name}, line {line}") from error
    return list(zip(texts, labels, strict=True))


def read_texts(path, text_column="text", text_pair_column=None):
    """The texts of a file like those of `read_table`, without labels.

    Args:
        path: As in `read_table`.
        text_column: As in `read_table`.
        text_pair_column: As in `read_table`.

    Returns:
        List of strings, or of pairs of strings.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: As `read_table`.
    """
    path = pathlib.Path(path)
    columns = _text_columns(text_column, text_pair_column)
    return _texts(path, read_columns(path, *columns))


def _text_columns(text_column, text_pair_column):
    second = () if text_pair_column is None else (text_pair_column,)
    return text_column, *second


def read_names(path):
    """The names of classes, one a line.

    Args:
        path: Path of a file of text.

    Returns:
        List of strings, without blanks around them.

    Raises:
        ValueError: A line is empty, or a name is there twice.
    """
    names = [line.strip() for line in all_lines(read_text(path).rstrip())]
    wrong = next(
        (i for i, name in enumerate(names) if not name or name in names[:i]),
        None,
    )
    if wrong is not None:
        raise ValueError(
            "Each line must name another class. Received: "
            f"{names[wrong]!r} in {shown_path(path)}, line {wrong + 1}. Give "
            "each class one line with its name"
        )
    return names


def _texts(path, rows):
    """The text of each row, or the pair of its two texts."""
    found = [[field.strip() for field in fields] for _, *fields in rows]
    empty = [row[0] for row, texts in zip(rows, found) if not all(texts)]
    if empty:
        first, *others = empty
        further = f", and in the lines {some(others)}" if others else ""
        raise ValueError(
            "Every row needs a text. Received: an empty text in "
            f"{path.name}, line {first}{further}. Remove "
            + ("these rows" if others else "the row")
        )
    return [from_sides(texts) for texts in found]


def read_columns(path, *columns):
    """The fields of some columns, as they stand in the file.

    Args:
        path: Path, as in `read_table`.
        *columns: Strings, names in the header.

    Returns:
        List of tuples: the line in which the row begins, and its fields.

    Raises:
        FileNotFoundError: As `read_table`.
        ValueError: As `read_table`.
    """
    path = pathlib.Path(path)
    if path.suffix not in SUFFIXES:
        raise ValueError(
            "A table must be a .tsv or .csv file with a header line, or a "
            ".jsonl file with an object a line, not packed. Received: "
            f"path={shown_path(path)}"
        )
    text = read_text(path)
    with _fields_of_any_length():
        found = [*_chosen(path, _rows(path, text), columns)]
    if not found:
        raise ValueError(
            "A table must have rows below its header. Received: "
            f"{shown_path(path)}"
        )
    return found


def _chosen(path, rows, columns):
    """Yields the line and the fields of some columns, of rows that fit."""
    _, header = next(rows, (1, []))
    for name in columns:
        if header.count(name) != 1:
            raise ValueError(
                f"{path.name} must have exactly one column {name!r} "
                f"{_place(path)}. Received: columns={some(header)}"
            )
    places = [header.index(name) for name in columns]
    for line, fields in rows:
        if len(fields) != len(header):
            raise ValueError(
                f"Each line must have {len(header)} fields, as the header "
                f"{some(header)}. Received: {len(fields)} fields in "
                f"{path.name}, line {line}"
            )
        where = f"{path.name}, line {line}"
        yield (
            line,
            *[json_lines.field(fields[place], where) for place in places],
        )


def _delimiter(path):
    return "\t" if path.suffix == ".tsv" else ","


def _place(path):
    if path.suffix == json_lines.SUFFIX:
        return "among the keys of its objects"
    return f"in its first line, between {_delimiter(path)!r}"


def _rows(path, text):
    """Yields the first line of a row and its fields; blank ones are none."""
    if path.suffix == json_lines.SUFFIX:
        yield from json_lines.rows(path, text)
        return
    quoting = csv.QUOTE_NONE if path.suffix == ".tsv" else csv.QUOTE_MINIMAL
    reader = csv.reader(
        io.StringIO(text, newline=""),  # Ends lines at LF, CRLF and CR alone.
        delimiter=_delimiter(path),
        quoting=quoting,
        # Otherwise a quote that is not closed takes in the rest of the file.
        strict=True,
    )
    line = 1
    try:
        for fields in reader:
            if fields:
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            "A field that begins with a quote must end with one, and quotes "
            'inside it must be doubled ("say ""yes"""). '
            f"Received: {error}, in the row that begins in {path.name}, line "
            f"{line}. Mend the quotes, or save the table as .tsv, where "
            "quotes are plain characters"
        ) from error


@contextlib.contextmanager
def _fields_of_any_length():
    """A text may be a book; the limit is csv's, for the whole process."""
    before = csv.field_size_limit(LONGEST_FIELD)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def header(path):
    """The names of a table's columns.

    Args:
        path: Path, as in `read_table`.

    Raises:
        FileNotFoundError: As `read_table`.
        ValueError: As `read_table`.
    """
    path = pathlib.Path(path)
    with _fields_of_any_length():
        return next(_rows(path, read_text(path)), (1, []))[1]


def first_fields(path, column):
    """A column's fields in the first `PEEKED` rows, without blanks around.

    Args:
        path: Path, as in `read_table`.
        column: String, a name in the header.

    Returns:
        List of strings.

    Raises:
        FileNotFoundError: As `read_table`.
        ValueError: As `read_table`.
    """
    path = pathlib.Path(path)
    with _fields_of_any_length():
        rows = _chosen(path, _rows(path, read_text(path)), [column])
        return [field.strip() for _, field in itertools.islice(rows, PEEKED)]


def part_file(folder, part, suffixes):
    """The file of a folder that holds one part of a data set.

    Args:
        folder: Path.
        part: String, such as `"train"`, the stem of the file's name.
        suffixes: Sequence of strings, the kinds of files to look for.

    Returns:
        Path, or None where there is no such file.

    Raises:
        ValueError: There are several.
    """
    found = [
        folder / f"{part}{suffix}"
        for suffix in suffixes
        # Whatever has the name: what cannot be read is told, not passed over.
        if os.path.lexists(folder / f"{part}{suffix}")
    ]
    if len(found) > 1:
        raise ValueError(
            f"A folder of data must hold one file for {part}. Received: "
            f"{[path.name for path in found]} in {shown_path(folder)}"
        )
    return found[0] if found else None
