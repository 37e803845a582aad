"""What public sets call their columns: the texts of a row, and its class."""

# What public sets call the two texts of a pair, and one text.
TEXTS = (
    ("text", "text_pair"),
    ("text1", "text2"),
    ("sentence1", "sentence2"),
    ("question1", "question2"),
    ("premise", "hypothesis"),
    ("question", "sentence"),
    ("text",),
    ("sentence",),
    ("review",),
    ("content",),
    ("comment",),
    ("message",),
    ("tweet",),
    ("question",),
    ("query",),
    ("utterance",),
)
# What they call the class.
CLASSES = (
    "label",
    "sentiment",
    "category",
    "intent",
    "topic",
    "class",
    "target",
)


def texts_of(names, most=2, labels=()):
    """The columns of a row's texts, where names tell them.

    Args:
        names: List of strings, the columns of a table.
        most: Integer, the texts that a row may have.
        labels: Strings, what a label may be called before `CLASSES`.

    Returns:
        Tuple of strings, two where there is a pair. Empty: there are no
        columns of such names, nor one beside a label, or several with one
        text.
    """
    label = [name for name in names if name in labels] or _class(names)
    return _texts(names, most) or _other(names, label)


def class_of(names):
    """The column of a row's class, where names tell it.

    Args:
        names: As in `texts_of`.

    Returns:
        Tuple of a string, or empty: there is no column of such a name, nor one
        beside a text, or no `label` and several of the others.
    """
    return _class(names) or _other(names, _texts(names))


def _texts(names, most=2):
    held = {name.lower(): name for name in names}
    known = [
        [held[name] for name in texts]
        for texts in TEXTS
        if len(texts) <= most
        and {*texts} <= {*held}
        and ("text" in texts) == ("text" in held)
    ]
    pairs = [texts for texts in known if len(texts) > 1]
    return tuple(pairs[0]) if pairs else _alone(*known)


def _class(names):
    held = {name.lower(): name for name in names}
    known = [(held[name],) for name in CLASSES if name in held]
    return known[0] if "label" in held else _alone(*known)


def _alone(*found):
    return tuple(found[0]) if len(found) == 1 else ()


def _other(names, known):
    """Of two columns that which is not the known one."""
    left = tuple(name for name in names if name not in known)
    return left if len(names) == 2 and len(left) == 1 else ()
