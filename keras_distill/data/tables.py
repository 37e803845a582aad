"""TSV and CSV files as rows of (text, label), with errors that name lines."""

import csv
import pathlib

SUFFIXES = (".tsv", ".csv")
MISSING = {"", "-1"}


def read_table(path, text_column="text", label_column="label"):
    """Reads a file with a header line.

    A `.csv` file may quote its fields. A `.tsv` file is split at tabs and
    quotes are plain characters, as in GLUE and SST.

    Args:
        path: Path of a `.tsv` or `.csv` file, UTF-8.
        text_column: String, the name in the header.
        label_column: String, the name in the header.

    Returns:
        List of `(text, label)`; a label is a string, or `None` where the
        field is empty or `-1`.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The file is empty, is not UTF-8, lacks a column, or a line
            has an empty text or the wrong number of fields.
    """
    return _rows(path, (text_column, label_column))


def read_texts(path, text_column="text"):
    """The texts of a file like those of `read_table`, without labels.

    Args:
        path: Path of a `.tsv` or `.csv` file, UTF-8.
        text_column: String, the name in the header.

    Returns:
        List of strings.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: As `read_table`.
    """
    return [text for text, _ in _rows(path, (text_column,))]


def _content(path):
    if path.suffix not in SUFFIXES:
        raise ValueError(
            "A table must be a .tsv or .csv file with a header line. "
            f"Received: path={str(path)!r}"
        )
    if not path.is_file():
        raise FileNotFoundError(
            f"There is no such file. Received: path={str(path)!r}"
        )
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"A table must be UTF-8. Received: {str(path)!r} with byte "
            f"0x{error.object[error.start]:02x} at offset {error.start}. "
            "Convert it, for example with `iconv -f latin1 -t utf-8`"
        ) from error


def _rows(path, columns):
    """Pairs of text and label, None without a column of labels."""
    path = pathlib.Path(path)
    lines = csv.reader(
        _content(path).splitlines(keepends=True),
        delimiter="\t" if path.suffix == ".tsv" else ",",
        quoting=csv.QUOTE_NONE if path.suffix == ".tsv" else csv.QUOTE_MINIMAL,
    )
    header = next(lines, [])
    for name in columns:
        if header.count(name) != 1:
            raise ValueError(
                f"{path.name} must have exactly one column {name!r} in its "
                f"first line. Received: columns={header}"
            )
    text_at, *label_at = map(header.index, columns)
    rows = []
    for fields in lines:
        if not fields:
            continue
        where = f"{path.name}, line {lines.line_num}"
        if len(fields) != len(header):
            raise ValueError(
                f"Each line must have {len(header)} fields, as the header "
                f"{header}. Received: {len(fields)} fields in {where}"
            )
        text = fields[text_at].strip()
        label = fields[label_at[0]].strip() if label_at else ""
        if not text:
            raise ValueError(
                f"Every row needs a text. Received: an empty text in {where}. "
                "Remove the row"
            )
        rows.append((text, None if label in MISSING else label))
    if not rows:
        raise ValueError(
            f"A table must have rows below its header. Received: {str(path)!r}"
        )
    return rows


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
        if (folder / f"{part}{suffix}").is_file()
    ]
    if len(found) > 1:
        raise ValueError(
            f"A folder of data must hold one file for {part}. Received: "
            f"{[path.name for path in found]} in {str(folder)!r}"
        )
    return found[0] if found else None
