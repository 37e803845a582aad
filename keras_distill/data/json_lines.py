"""JSON lines as a table: an object a line, its keys are the columns."""

import json

from keras_distill._text_files import numbered_lines
from keras_distill._text_files import shown

SUFFIX = ".jsonl"


def objects(path, text):
    """Yields the number and the object of each line that is not blank.

    Args:
        path: Path, for messages.
        text: String, what the file holds.

    Raises:
        ValueError: A line is no JSON object, or holds half a character.
    """
    for number, line in numbered_lines(text):
        where = f"{shown(line.strip())} in {path.name}, line {number}"
        try:
            found = json.loads(line)
            text = json.dumps(found, ensure_ascii=False)
        # Not a JSONDecodeError alone: of numbers with thousands of digits and
        # of brackets inside brackets Python says so in its own way.
        except (ValueError, RecursionError) as error:
            raise ValueError(
                f"Each line must be a JSON object. Received: {where} ({error})"
            ) from error
        if not isinstance(found, dict):
            raise ValueError(
                "Each line must be a JSON object, names with values between "
                f"braces. Received: {where}"
            )
        _check_characters(text, f"{path.name}, line {number}")
        yield number, found


def rows(path, text):
    """Yields the keys of all objects, then the fields of each.

    A key that an object lacks, and null, are an empty field; a list of labels
    has its members between commas.

    Args:
        path: As of `objects`.
        text: As of `objects`.

    Raises:
        ValueError: As `objects`.
    """
    found = [*objects(path, text)]
    names = [*dict.fromkeys(name for _, held in found for name in held)]
    yield 1, names
    for number, held in found:
        yield number, [_field(held.get(name)) for name in names]


def _field(value):
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, list):
        return ",".join(map(_field, value))
    return json.dumps(value)


def _check_characters(text, where):
    """JSON can spell half a character, which no encoding can write."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            "The texts must be whole characters. Received: "
            f"{text[error.start]!r}, half of a surrogate pair, in {where}. "
            "Cut texts by characters, not by UTF-16 units"
        ) from error
