"""What a source's files and columns tell: the task, the texts of a pair."""

from keras_distill import _kinds
from keras_distill.data.columns import class_of
from keras_distill.data.columns import texts_of
from keras_distill.data.sources import first_labels
from keras_distill.data.sources import header_of
from keras_distill.data.text_splits import TextSplits

AUTO = "auto"
TEXTS = "text_column", "text_pair_column"


def told(chosen):
    """Those settings of a `Preparation` that nobody has chosen.

    Args:
        chosen: `Preparation`.

    Returns:
        Dict of `text_column`, `text_pair_column`, `label_column` and `task`,
        or some of them.
    """
    kinds = {name: _kinds.load(place) for name, place in _kinds.TASKS.items()}
    if chosen.task == AUTO:
        for name, kind in kinds.items():
            if kind.splits_kind.is_at(chosen.data):
                return {"task": name}
    names = header_of(chosen.data)
    task = chosen.task
    if task != AUTO and TEXTS[1] not in kinds[task].options:
        return {}
    kinds = {
        name: kind.splits_kind
        for name, kind in kinds.items()
        if issubclass(kind.splits_kind, TextSplits)
    }
    label = _label(chosen, names, kinds)
    found = _texts(chosen, names, kinds, label)
    if task == AUTO:
        two = chosen.text_pair_column or TEXTS[1] in found
        task = _of_labels(kinds, chosen, names, label)
        task = task or ("pairs" if two else "text")
    if not {*kinds[task].label_columns} & {*names} and kinds[task].needs_labels:
        found |= _unusual(["label_column"], label)
    return {**found, "task": task}


def _texts(chosen, names, kinds, label):
    if any(getattr(chosen, column) for column in TEXTS):
        return {}
    labels = {name for kind in kinds.values() for name in kind.label_columns}
    most = 1 if chosen.task == "text" else 2
    return _unusual(TEXTS, texts_of(names, most, labels.union(label)))


def _label(chosen, names, kinds):
    """The column of a class, or empty: almost a name for each row is none."""
    if chosen.label_column:
        return (chosen.label_column,)
    found = class_of(names)
    if found and class_of(found):  # By its own name.
        return found
    if not found and len(names) == 2 and not texts_of(names):
        return _by_contents(chosen, names, kinds)
    held = [first_labels(chosen.data, name) for name in found]
    return found if all(_are_labels(kinds, fields) for fields in held) else ()


def _by_contents(chosen, names, kinds):
    """Of two columns whose names say nothing that which holds labels."""
    held = {name: first_labels(chosen.data, name) for name in names}
    found = [
        name
        for name, fields in held.items()
        if _are_labels(kinds, fields)
        # Else it is a label, in the first row of a file without a header.
        and not (name in fields or _of_values(kinds, [name]))
    ]
    return tuple(found) if len(found) == 1 else ()


def _are_labels(kinds, held):
    return 2 * len({*held}) <= len(held) or bool(_of_values(kinds, held))


def _unusual(options, names):
    """A name for each option, or none: the usual name is nobody's choice."""
    return {} if names in (("text",), ("label",)) else dict(zip(options, names))


def _of_labels(kinds, chosen, names, label):
    """The task of what the labels' column is called, or holds, or None."""
    column = chosen.label_column or ("label" if "label" in names else "")
    for task, kind in kinds.items():
        telling = {*kind.label_columns} - {*TextSplits.label_columns}
        for name in [column] if column else names:
            if name in telling or len(kind.columns_of(name)) > 1:
                return task
    return _of_values(
        kinds, first_labels(chosen.data, column or "".join(label))
    )


def _of_values(kinds, fields):
    """The task that alone has labels such as a column's, or None."""
    held = [*filter(None, fields)]
    tasks = (task for task, kind in kinds.items() if kind.are_labels(held))
    return next(tasks, None) if held else None
