"""Text that comes from data, in Markdown."""

import re

# Signs that start emphasis, code, links, tags, cells, formulas or entities; an
# underscore does at the edge of a word alone.
SIGNS = re.compile(r"[\\`*\[\]<>|~$&]|(?<![^\W_])_|_(?![^\W_])")
# Headings, lists and underlines, where a line starts.
STARTS = re.compile(r"^(?=[#+=-])|^\d+(?=[.)](?:\s|$))")
# Controls, and what stands for undecodable bytes in a path.
UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def escape(text):
    r"""`text` as one line of Markdown that shows it and does nothing else.

    Args:
        text: What a data set, a folder or a user calls something.

    Returns:
        String. Line breaks are spaces.

    Example:

    >>> print(escape("<b>not_bold</b>\n| *a* |"))
    \<b\>not_bold\</b\> \| \*a\* \|
    """
    line = UNPRINTABLE.sub("\ufffd", " ".join(str(text).split()))
    return STARTS.sub(r"\g<0>\\", SIGNS.sub(r"\\\g<0>", line))
