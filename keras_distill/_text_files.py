"""Text files, read strictly: what is no text is refused, and where it is.

A file that is cut, packed or of another encoding must not become fewer or
other rows without a word, so nothing here guesses.
"""

import codecs
import io
import os
import pathlib
import stat

LONGEST_SHOWN = 60
LONGEST_PATH_SHOWN = 500
MOST_SHOWN = 8
# A byte order mark tells UTF-16 for certain; UTF-32 first, whose mark begins
# with that of UTF-16.
ENCODINGS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
    (b"", "utf-8-sig"),
)
PACKED = (
    (b"\x1f\x8b", "packed by gzip", "Unpack it by `gunzip`"),
    (b"BZh", "packed by bzip2", "Unpack it by `bunzip2`"),
    (b"\xfd7zXZ\0", "packed by xz", "Unpack it by `unxz`"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd", "Unpack it by `unzstd`"),
    (b"PK\3\4", "a zip file or a workbook", "Unpack it, or save it as CSV"),
    (b"PAR1", "in the Parquet format", "Write it as CSV"),
)
NO_TEXTS = {
    stat.S_ISDIR: "a folder",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


def shown(text, longest=LONGEST_SHOWN):
    """A string in quotes, as much as belongs into a message."""
    if len(text) <= longest:
        return repr(text)
    return f"{text[:longest]!r}... ({len(text):,} characters)"


def shown_path(path):
    """A path in quotes; people need all of it."""
    return shown(str(path), LONGEST_PATH_SHOWN)


def some(names):
    """The first few of some strings or numbers, and how many more."""
    names = list(names)
    text = ", ".join(
        shown(name) if isinstance(name, str) else str(name)
        for name in names[:MOST_SHOWN]
    )
    more = len(names) - MOST_SHOWN
    return f"[{text}]" + (f" and {more:,} more" if more > 0 else "")


def file_mode(path):
    """What is at a path, as `os.stat` says it; None if nothing is.

    Raises:
        ValueError: Nothing can be there, or it cannot be reached.
    """
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        # A link that leads nowhere says so, rather than that nothing is there.
        if os.path.islink(path):
            raise FileNotFoundError(
                "The file is a link to nothing. Mend the link. Received: "
                f"path={shown_path(path)}"
            ) from None
        return None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ValueError(
            f"The path cannot be read ({reason}). Pass the path of a file "
            f"that can. Received: path={shown_path(path)}"
        ) from error


def read_text(path):
    """The text of a file: UTF-8, or UTF-16 or UTF-32 with their marks.

    Args:
        path: Path.

    Returns:
        String with the ends of lines as they are.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: It is no file of text, or one that is not read here; the
            message says which, and what to do.
        OSError: The system does not let it be read.
    """
    data = _read_bytes(pathlib.Path(path))
    encoding = next(e for mark, e in ENCODINGS if data.startswith(mark))
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        _refuse_packed(path, data)
        line = data.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"The text must be UTF-8. Received: {shown_path(path)} with byte "
            f"0x{data[error.start]:02x} at offset {error.start}, line "
            f"{line}, which is no {encoding.removesuffix('-sig').upper()}. "
            "Convert it, for example with `iconv -f latin1 -t utf-8`"
        ) from error
    if "\0" in text:
        _refuse_packed(path, data)
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(
            f"The file must be text. Received: {shown_path(path)} with a NUL "
            f"character in line {line}, as binary files have them, damaged "
            "ones, and UTF-16 without its mark. Make the file again, or "
            "convert it with `iconv -f utf-16 -t utf-8`"
        )
    return text


def _refuse_packed(path, data):
    # Only of what is no text: one on the gene PAR1 may begin with its name.
    for magic, kind, advice in PACKED:
        if data.startswith(magic):
            raise ValueError(
                f"The file must be plain text, and is {kind}. {advice} "
                f"first. Received: path={shown_path(path)}"
            ) from None


def _read_bytes(path):
    mode = file_mode(path)
    if mode is None:
        raise FileNotFoundError(
            f"There is no such file. Received: path={shown_path(path)}"
        )
    for is_kind, kind in NO_TEXTS.items():
        # Before it is opened: to open a pipe waits until somebody writes.
        if is_kind(mode):
            raise ValueError(
                f"A file of text is needed, and {kind} is there. Pass a "
                f"file, or write the text to one first. Received: "
                f"path={shown_path(path)}"
            )
    try:
        return path.read_bytes()
    except OSError as error:
        raise OSError(
            f"The file cannot be read ({error.strerror}). Let this user read "
            f"it, or copy it. Received: path={shown_path(path)}"
        ) from error


def all_lines(text):
    """The lines of a text, blank ones too.

    Lines end as files end them, with LF, CRLF or CR. `str.splitlines` would
    end them at further characters that texts and JSON may hold, such as
    U+2028 and form feeds, and give two rows for one.
    """
    return [line.removesuffix("\n") for line in io.StringIO(text, newline=None)]


def numbered_lines(text):
    r"""Pairs of number and line, of the lines that are not blank.

    Example:

    >>> numbered_lines("one\u2028still one\r\n\r\ntwo")
    [(1, 'one\u2028still one'), (3, 'two')]
    """
    return [
        (number, line)
        for number, line in enumerate(all_lines(text), start=1)
        if line.strip()
    ]


def read_lines(path):
    """The lines of a file that are not blank, without spaces around them.

    Args:
        path: Path.

    Returns:
        List of strings, at least one.

    Raises:
        ValueError: As `read_text`; or there is no such line.
    """
    lines = numbered_lines(read_text(path))
    if not lines:
        raise ValueError(
            "The file must hold one text a line. Received: "
            f"path={shown_path(path)}, which has none"
        )
    return [line.strip() for _, line in lines]
