"""Further text for the student to imitate the teacher on."""

import pathlib

from keras_distill import augment
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.augment.texts import read_texts
from keras_distill.data import tables

SEED = 0
SMOKE_TEXTS = 240


def variations(text):
    """The number in `augment:20`; None for None.

    Raises:
        UsageError: It is written in another way, or out of range.
    """
    if text is None:
        return None
    kind, _, times = text.partition(":")
    fits = kind == "augment" and times.isdecimal() and len(times) <= 4
    if not fits or not int(times):
        raise UsageError(
            "`--transfer` must be 'augment:' and how many variations of each "
            "train text, from 1 to 9999, such as augment:20. "
            f"Received: transfer={text!r}"
        )
    return int(times)


def make(splits, times, unlabelled, text_column, smoke=False):
    """The texts: variations of the train texts, and those of a file.

    Args:
        splits: `data.TextSplits`.
        times: Integer, variations of each text, or None.
        unlabelled: Path of a file of texts, or None.
        text_column: String, the column of a table with the text, or None.
        smoke: Boolean. A few only.

    Returns:
        Pair of a list of strings and how many texts the file had.

    Raises:
        UsageError: The file cannot be read, or nothing is left.
    """
    given = read(unlabelled, text_column)
    texts = augment.transfer_set(
        splits.train.texts,
        times=times or 0,
        seed=SEED,
        exclude=(splits.dev.texts, splits.test.texts),
        unlabelled=given,
    )
    if smoke:
        texts = texts[:SMOKE_TEXTS]
    if not texts:
        raise UsageError(
            "No transfer text is left: all of it occurs in train, dev or test. "
            f"Received: unlabelled={unlabelled!r}, transfer={times}"
        )
    return texts, len(given)


def read(path, text_column):
    """The texts in a file of unlabelled texts; none without a file."""
    if path is None:
        return []
    path = pathlib.Path(path)
    with as_usage_error(ValueError, OSError, advice="See `--unlabelled`."):
        if path.suffix in tables.SUFFIXES:
            return tables.read_texts(path, text_column or "text")
        return read_texts(path)


def note(count, times, unlabelled):
    """One sentence on the transfer set.

    Args:
        count: Integer, the number of texts.
        times: Integer, variations of each train text, or None.
        unlabelled: Path of the file of texts, or None.
    """
    parts = []
    if times is not None:
        parts.append(f"up to {times} variations of each train text")
    if unlabelled is not None:
        parts.append(f"the texts in {unlabelled}")
    return (
        f"Transfer set: {count:,} texts ({' and '.join(parts)}), none of them "
        "in train, dev or test, labelled by the teacher."
    )
