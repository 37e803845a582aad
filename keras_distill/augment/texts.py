"""Text files, and telling whether two texts are the same."""

import hashlib
import pathlib
import re
import unicodedata

from keras_distill._scripts import MARKS
from keras_distill._scripts import without_blanks
from keras_distill._text_files import read_lines
from keras_distill._text_files import shown_path
from keras_distill.data import tables

# Vowels are marks in many scripts, and no letters to `\w`.
WORD = re.compile(f"[\\w{MARKS}]+")


def text_key(text):
    """A hash that texts share which differ in case, spaces or punctuation.

    Symbols, emoji among them, pass for punctuation.

    Args:
        text: String, or a pair of strings.

    Returns:
        Bytes, 16 of them, the same in every process and on every machine.

    Example:

    >>> text_key("A  good film.") == text_key("a good film")
    True
    >>> text_key("很好，很 好！") == text_key("很好很好")
    True
    >>> text_key("?") == text_key("!")  # Nothing else is left to compare.
    False
    """
    if not isinstance(text, str):
        # As many bytes as that of one text, and not those of the texts joined:
        # punctuation, which could part them, does not count.
        keys = b"".join(map(text_key, text))
        return hashlib.blake2b(keys, digest_size=16).digest()
    text = unicodedata.normalize("NFKC", text).casefold()
    words = without_blanks(" ".join(WORD.findall(text)))
    normal = words or "".join(text.split())
    return hashlib.blake2b(normal.encode(), digest_size=16).digest()


def deduplicate(texts, exclude=()):
    """The first of each text, without those in `exclude`.

    Args:
        texts: Iterable of strings.
        exclude: Sequence of collections of texts that must not come back,
            such as `(dev, test)`: lists of strings, or objects with `texts`.

    Returns:
        List of strings, in their order. Texts with the same `text_key` are
        the same text.

    Raises:
        ValueError: if `texts` holds something else, or `exclude` is one
            collection instead of several.

    Example:

    >>> deduplicate(["Good.", "bad", "good", "fine"], exclude=(["Bad!"],))
    ['Good.', 'fine']
    """
    seen = keys_of(exclude)
    kept = []
    for text in listed(texts):
        key = text_key(text)
        if key not in seen:
            seen.add(key)
            kept.append(text)
    return kept


def listed(texts):
    """List of the strings, or pairs of strings, of a collection of texts."""
    found = list(getattr(texts, "texts", texts))
    wrong = [text for text in found if not _is_text(text)]
    if wrong or isinstance(texts, str):
        received = f"{wrong[0]!r} among them" if wrong else repr(texts)
        raise ValueError(
            "The texts must be a collection of strings, such as "
            "['a good film', 'a bad one'], or of pairs of strings. "
            f"Received: {received:.80}"
        )
    return found


def _is_text(value):
    if isinstance(value, str):
        return True
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(side, str) for side in value)
    )


def keys_of(collections):
    """Set of the keys of all texts in several collections."""
    if hasattr(collections, "texts") or any(
        isinstance(collection, str) for collection in collections
    ):
        raise ValueError(
            "`exclude` must hold collections of texts, for example "
            f"exclude=(dev, test). Received: exclude={collections!r:.80}"
        )
    return {
        text_key(text)
        for collection in collections
        for text in listed(collection)
    }


def read_texts(path, text_column="text", text_pair_column=None):
    """The texts of a file, one a line, or those of a table's column.

    Args:
        path: Path of a text file, UTF-8, or UTF-16 with its mark, whose empty
            lines are left out; or of a `.tsv`, `.csv` or `.jsonl` file.
        text_column: String, in a table.
        text_pair_column: String, in a table of pairs, or None.

    Returns:
        List of strings, without spaces around them, or of pairs of strings.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file has no text, is no text, or has no such
            column.

    Example:

    >>> read_texts("more.txt")
    Traceback (most recent call last):
    FileNotFoundError: There is no such file. Received: path='more.txt'
    """
    path = pathlib.Path(path)
    if path.suffix in tables.SUFFIXES:
        return tables.read_texts(path, text_column, text_pair_column)
    if text_pair_column is not None:
        raise ValueError(
            "A file of pairs must be a table (.tsv, .csv, .jsonl) with "
            f"both columns of text. Received: {shown_path(path)}"
        )
    return read_lines(path)
