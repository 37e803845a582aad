"""Further text for the student to imitate the teacher on."""

from keras_distill import augment
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.augment.texts import read_texts

SEED = 0
SMOKE_TEXTS = 240
AUTO = "auto"
# Text made from text ends to help where there is much of it already, and the
# teacher has to read all of it.
WANTED_TEXTS = 40_000
MOST_VARIATIONS = 20
# So many are labelled by the slowest teacher.
FEWEST_TEXTS = 1_000


def variations(text):
    """The number in `augment:20`; None for None, and for `auto`.

    Raises:
        UsageError: It is written in another way, or out of range.
    """
    if text is None or text == AUTO:
        return None
    kind, _, times = text.partition(":")
    fits = kind == "augment" and times.isdecimal() and len(times) <= 4
    if not fits or not int(times):
        raise UsageError(
            "`--transfer` must be 'auto', or 'augment:' and how many "
            "variations of each train text, from 1 to 9999, such as "
            "augment:20. "
            f"Received: transfer={text!r}"
        )
    return int(times)


def for_rows(rows):
    """How many variations of each text are worth their time.

    Args:
        rows: Integer, the rows of the train part.

    Returns:
        Integer, or None for none.

    Example:

    >>> [for_rows(rows) for rows in (500, 5_000, 50_000)]
    [20, 8, None]
    """
    times = min(MOST_VARIATIONS, WANTED_TEXTS // max(rows, 1))
    return times if times > 1 else None


def within(texts, seconds, minutes):
    """As many of the texts as a teacher labels in the time, from everywhere.

    Args:
        texts: List of texts, those that were made of one side by side.
        seconds: Float, what a text takes.
        minutes: Float. A thousand texts are kept in any case.

    Returns:
        List.

    Example:

    >>> len(within(["a text"] * 40_000, seconds=0.1, minutes=10.0))
    6000
    """
    most = max(int(60 * minutes / seconds), FEWEST_TEXTS)
    if most >= len(texts):
        return texts
    return [texts[place * len(texts) // most] for place in range(most)]


def make(splits, times, unlabelled, columns, smoke=False):
    """The texts: variations of the train texts, and those of a file.

    Args:
        splits: `data.TextSplits`.
        times: Integer, variations of each text, or None.
        unlabelled: Path of a file of texts, or None. Neither: no texts.
        columns: Dict of the columns of a table, as `data.load` takes them.
        smoke: Boolean. A few only.

    Returns:
        Pair of a list of strings and how many texts the file had.

    Raises:
        UsageError: The file cannot be read, or nothing is left.
    """
    given = read(unlabelled, columns)
    if not given and not times:
        return [], 0
    texts = augment.transfer_set(
        splits.train.texts,
        times=times or 0,
        seed=SEED,
        exclude=(splits.dev.texts, splits.test.texts),
        unlabelled=[*given, *splits.made_texts(times or 0, SEED)],
    )
    if smoke:
        texts = texts[:SMOKE_TEXTS]
    if not texts:
        raise UsageError(
            "No transfer text is left: all of it occurs in train, dev or test. "
            f"Received: unlabelled={unlabelled!r}, transfer={times}"
        )
    return texts, len(given)


def read(path, columns):
    """The texts in a file of unlabelled texts; none without a file."""
    if path is None:
        return []
    with as_usage_error(ValueError, OSError, advice="See `--unlabelled`."):
        text, pair = columns["text_column"], columns["text_pair_column"]
        return read_texts(path, text or "text", pair)


def note(count, times, unlabelled, left_out=0):
    """One sentence on the transfer set, or two.

    Args:
        count: Integer, the number of texts.
        times: Integer, variations of each train text, or None.
        unlabelled: Path of the file of texts, or None.
        left_out: Integer, texts that the teacher had no time for.
    """
    parts = []
    if times is not None:
        parts.append(f"up to {times} variations of each train text")
    if unlabelled is not None:
        parts.append(f"the texts in {unlabelled}")
    told = (
        f"Transfer set: {count:,} texts ({' and '.join(parts)}), none of them "
        "in train, dev or test, labelled by the teacher."
    )
    if left_out:
        told += (
            " It would take longer than `--teacher-minutes` to label the "
            f"other {left_out:,}; with `--transfer augment:{times}` it does."
        )
    return told
