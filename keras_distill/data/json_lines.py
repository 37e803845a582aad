"""JSON lines as a table: an object a line, its keys are the columns."""

import json

from keras_distill._text_files import numbered_lines
from keras_distill._text_files import shown
from keras_distill.data.label_sets import SEPARATOR

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
            spelt = json.dumps(found, ensure_ascii=False)
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
        _check_characters(spelt, f"{path.name}, line {number}")
        yield number, found


def rows(path, text):
    """Yields the keys of all objects, then the values of each.

    A key that an object lacks has the value None.

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
        yield number, [held.get(name) for name in names]


def field(value, where):
    """A value as a table of text spells it: a list has commas between.

    Args:
        value: What `rows` yields, or a string.
        where: String, for messages.

    Raises:
        ValueError: It is an object, or a list of something else than labels.
    """
    if value is None or isinstance(value, str):
        return value or ""
    found = value if isinstance(value, list) else [value]
    wrong = [
        one
        for one in found
        if not isinstance(one, str | int | float) or SEPARATOR.search(str(one))
    ]
    if wrong:
        raise ValueError(
            "A field must be a text, a number, or a list of labels without "
            "commas, semicolons and bars. Received: "
            f"{shown(json.dumps(wrong[0]))} in {where}. Give each such label a "
            "key of its own, with the values 1 and 0"
        )
    return ",".join(x if isinstance(x, str) else json.dumps(x) for x in found)


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
