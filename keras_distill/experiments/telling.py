"""What a source's files and columns tell: the task, the texts of a pair."""

from keras_distill import _kinds
from keras_distill.data.sources import class_of
from keras_distill.data.sources import header_of
from keras_distill.data.sources import texts_of
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
    found = _texts(chosen, names)
    if task == AUTO:
        two = chosen.text_pair_column or TEXTS[1] in found
        task = "pairs" if two else "text"
        column = chosen.label_column
        if column or "label" not in names:
            task = _of_labels(kinds, [column] if column else names) or task
    if chosen.label_column is None and task in ("text", "pairs"):
        found |= _unusual(["label_column"], class_of(names))
    return {**found, "task": task}


def _texts(chosen, names):
    if any(getattr(chosen, column) for column in TEXTS):
        return {}
    return _unusual(TEXTS, texts_of(names, 1 if chosen.task == "text" else 2))


def _unusual(options, names):
    """A name for each option, or none: the usual name is nobody's choice."""
    return {} if names in (("text",), ("label",)) else dict(zip(options, names))


def _of_labels(kinds, columns):
    """The task whose labels a column of these names holds, or None."""
    for task, kind in kinds.items():
        splits = kind.splits_kind
        if not issubclass(splits, TextSplits):
            continue
        telling = {*splits.label_columns} - {*TextSplits.label_columns}
        for column in columns:
            if column in telling or len(splits.columns_of(column)) > 1:
                return task
    return None
