"""Scripts without blanks between words: what is a unit of their texts."""

import re
import unicodedata

# A word each to BERT's tokenizers: CJK unified ideographs, those of
# compatibility, and the extensions A to E.
IDEOGRAPHS = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002a6df\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f"
)
# Their punctuation, kana, the later extensions; Thai and Lao, Myanmar, Khmer.
UNSEGMENTED = (
    IDEOGRAPHS + "\u3001-\u3029\u3030-\u303f\uff01-\uff0f\uff1a-\uff20"
    "\uff3b-\uff40\uff5b-\uff65"
    "\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"
    "\U0002ceb0-\U0002ebef\U00030000-\U0003347f"
    "\u0e00-\u0eff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff"
)
# Where marks that belong to the letter before them are in use.
MARKED = ((0x300, 0x2000), (0x3099, 0x309B), (0xA800, 0xAC00))
MARKS = "".join(
    chr(code)
    for first, end in MARKED
    for code in range(first, end)
    if unicodedata.category(chr(code))[0] == "M"
)

_IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")
_UNSEGMENTED = re.compile(f"[{UNSEGMENTED}]")
_UNIT = re.compile(f"[{UNSEGMENTED}][{MARKS}]*|[^\\s{UNSEGMENTED}]+")
_BLANK = re.compile(f"(?<=[{UNSEGMENTED}{MARKS}]) (?=[{UNSEGMENTED}])")


class Unit(str):
    """A unit as it stood in its text; equal to the string that it is.

    Args:
        text: String.
        spaced: Boolean. Whether a blank was before it.
    """

    __slots__ = ("spaced",)

    def __new__(cls, text, spaced):
        """A string that knows one thing more."""
        found = super().__new__(cls, text)
        found.spaced = spaced
        return found


def is_ideograph(character):
    """Whether BERT's tokenizers take a character for a word."""
    return _IDEOGRAPH.match(character) is not None


def script(character):
    """The script of a letter, as Unicode's names begin; of others None.

    Example:

    >>> script("a"), script("é"), script("好"), script("1")
    ('LATIN', 'LATIN', 'CJK', None)
    """
    if not character.isalpha():
        return None
    return unicodedata.name(character, "").split(" ")[0]


def units(text):
    """Splits a text at blanks; where its script has none, into characters.

    A character keeps the marks that follow it.

    Args:
        text: String.

    Returns:
        List of strings, without blanks.

    Example:

    >>> units("a good film"), units("iPhone很好。")
    (['a', 'good', 'film'], ['iPhone', '很', '好', '。'])
    """
    if not _UNSEGMENTED.search(text):
        return text.split()
    found, end = [], 0
    for match in _UNIT.finditer(text):
        found.append(Unit(match.group(), spaced=match.start() > end))
        end = match.end()
    return found


def join(found):
    """A text of units, with blanks where they were.

    A string that came new among the units stands between blanks, unless it
    and its neighbour are of scripts without any.

    Args:
        found: List of strings, of `units` or others.

    Returns:
        String.

    Example:

    >>> first, second, third = units("很好。")
    >>> join([first, "[MASK]", third]), join([second, "的", third])
    ('很 [MASK] 。', '好的。')
    """
    if not any(map(_UNSEGMENTED.match, found)):
        return " ".join(found)
    parts = found[:1]
    for left, right in zip(found, found[1:]):
        parts += [" " * _is_spaced(left, right), right]
    return "".join(parts)


def _is_spaced(left, right):
    without = [_UNSEGMENTED.match(unit) is not None for unit in (left, right)]
    if isinstance(left, Unit) and isinstance(right, Unit):
        return right.spaced or not any(without)
    return not all(without)


def without_blanks(text):
    """The text without single blanks between characters of such scripts.

    Example:

    >>> without_blanks("很 好 a b")
    '很好 a b'
    """
    return _BLANK.sub("", text)
