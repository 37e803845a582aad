"""From rows of a source to train, dev and test."""

import itertools

from keras_distill.data.splits import unit_hash

PARTS = ("train", "dev", "test")


def assemble(rows, columns, names, notes, kind):
    """Fills missing parts from train and turns labels into an array.

    Args:
        rows: Dict from the parts to lists of pairs of a text and its label.
        columns: Tuple of strings, the columns of the labels, or None.
        names: Names of the labels, or None: those that occur.
        notes: Sentences on what a source has decided.
        kind: Subclass of `Splits`.

    Returns:
        `kind`.

    Raises:
        ValueError: A label is missing in dev or test, or is unknown there.
    """
    found = [label for _, label in rows["train"]]
    names = names or kind.names_of(found, columns)
    kind.check_names(names)
    notes = list(notes)
    rows = dict(rows)
    missing = [part for part in ("test", "dev") if part not in rows]
    for part, bounds in zip(missing, [(0.0, 0.1), (0.1, 0.2)]):
        rows["train"], rows[part], copies = _take(rows["train"], bounds, kind)
        taken = "labelled rows" if kind.needs_labels else "rows"
        notes.append(
            f"No {part} part: {len(rows[part])} {taken} taken from "
            f"train, by the hash of the {kind.noun}"
            + (f", and {copies} copies without a label left out" * bool(copies))
        )
    if kind.needs_labels:
        _check_parts(rows)
        notes += _without_label(rows["train"], kind)
    parts = {}
    for part in PARTS:
        items = [item for item, _ in rows[part]]
        labels = [label for _, label in rows[part]]
        array = kind.to_array(part, items, labels, names)
        parts[part] = kind.dataset(items, array)
    return kind(**parts, label_names=names, notes=tuple(notes))


def _take(rows, bounds, kind):
    """The rows that stay, those that are taken, and how many are neither.

    A row without a label stays, unless one of the same text is taken: the
    teacher would answer for the student what it is then asked.
    """
    low, high = bounds
    keys = [unit_hash(kind.identity(item)) for item, _ in rows]
    taken = [
        low <= key < high and (label is not None or not kind.needs_labels)
        for key, (_, label) in zip(keys, rows)
    ]
    known = set(itertools.compress(keys, taken))
    stays = [key not in known for key in keys]
    found = list(itertools.compress(rows, taken))
    rest = list(itertools.compress(rows, stays))
    return rest, found, len(rows) - len(rest) - len(found)


def _without_label(rows, kind):
    """A note on how many rows have none, told because -1 may mean a class."""
    count = sum(label is None for _, label in rows)
    if not count:
        return []
    fields = " (empty, or -1)" if kind.of_classes else ""
    return [
        f"{count:,} of {len(rows):,} train {kind.noun}s have no label{fields}: "
        "the student learns there from the teacher alone"
    ]


def _check_parts(rows):
    for part in PARTS:
        labels = [label for _, label in rows[part]]
        if part != "train" and None in labels:
            raise ValueError(
                f"Every row of {part} needs a label. Received: "
                f"{labels.count(None)} of {len(labels)} rows without one. Use "
                "a part with labels, or leave it out so that it is taken "
                "from train"
            )
