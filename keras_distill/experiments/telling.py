"""What a source's files and columns tell: the task, the texts of a pair."""

from keras_distill import _kinds
from keras_distill.data.sources import header_of
from keras_distill.data.sources import pair_of
from keras_distill.data.text_splits import TextSplits

AUTO = "auto"


def told(chosen):
    """Those settings of a `Preparation` that nobody has chosen.

    Args:
        chosen: `Preparation`.

    Returns:
        Dict of `text_column`, `text_pair_column` and `task`, or some of them.
    """
    kinds = {name: _kinds.load(place) for name, place in _kinds.TASKS.items()}
    if chosen.task == AUTO:
        for name, kind in kinds.items():
            if kind.splits_kind.is_at(chosen.data):
                return {"task": name}
    names = header_of(chosen.data)
    columns = ("text_column", "text_pair_column")
    found = {}
    takes_pairs = chosen.task == AUTO or (
        chosen.task != "text" and columns[1] in kinds[chosen.task].options
    )
    if takes_pairs and not any(getattr(chosen, c) for c in columns):
        found = dict(zip(columns, pair_of(names) or ()))
    if chosen.task != AUTO:
        return found
    pairs = chosen.text_pair_column or found.get("text_pair_column")
    task = "pairs" if pairs else "text"
    column = chosen.label_column
    if column or "label" not in names:
        task = _of_labels(kinds, [column] if column else names) or task
    return {**found, "task": task}


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
