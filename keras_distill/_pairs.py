"""A text, or a pair of texts: `"good"`, or `("Is it?", "It is.")`."""


def sides(text):
    """Tuple of the one text, or of the two."""
    return (text,) if isinstance(text, str) else tuple(text)


def from_sides(texts):
    """What `sides` was given."""
    return tuple(texts) if len(texts) > 1 else texts[0]


def whole_text(text):
    """One string of a text or a pair: to compare, to hash, to show.

    Args:
        text: String, or a pair of strings.

    Returns:
        String; another one for a pair whose texts change places.

    Example:

    >>> whole_text("good"), whole_text(("Is it?", "It is."))
    ('good', 'Is it? | It is.')
    """
    return " | ".join(sides(text))


def flat(texts):
    """List of all strings in texts or pairs of texts."""
    return [side for text in texts for side in sides(text)]


def columns(texts):
    """The texts of each side.

    Args:
        texts: List of strings, or of pairs of strings.

    Returns:
        List of one list, or of two.

    Example:

    >>> columns([("a", "b"), ("c", "d")])
    [['a', 'c'], ['b', 'd']]
    """
    return [list(side) for side in zip(*map(sides, texts))]


def preprocess(preprocessor, parts):
    """What a KerasHub preprocessor makes of texts, or of pairs.

    Args:
        preprocessor: KerasHub preprocessor.
        parts: List or tuple of one or two batches of strings.

    Returns:
        Dict of tensors, with a `padding_mask` also of families whose encoders
        find it themselves (RoFormer v2) or need none (FNet): students read it.
    """
    if len(parts) == 1:
        found = preprocessor(parts[0])
    else:
        # By name: a second batch in a tuple would be taken for labels.
        found = preprocessor(x=tuple(parts))
    if "padding_mask" not in found:
        mask = found["token_ids"] != preprocessor.tokenizer.pad_token_id
        found = {**found, "padding_mask": mask}
    return found
