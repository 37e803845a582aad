"""The first phase: the data read, and made what a model takes in."""

from keras_distill import data
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error

LOADING = (ValueError, OSError, ImportError)


def read(chosen, folder):
    """Reads the data and leaves the task in a folder.

    Args:
        chosen: `Preparation`.
        folder: Path.

    Returns:
        Dict that JSON can hold, the task's facts.

    Raises:
        UsageError: The data, the tokenizer or the teacher cannot be loaded.
    """
    kind = chosen.task_kind
    chosen.source.check(kind)
    options = " and ".join(
        f"`--{name.replace('_', '-')}`" for name in ("data", *kind.reading)
    )
    with as_usage_error(*LOADING, advice=f"See {options} in `--help`."):
        splits = kind.read_for(chosen)
    _check_labels(chosen, splits)
    with as_usage_error(ValueError, advice="See `--data`."):
        task = kind.made_for(splits, chosen, folder)
    return task.facts()


def restore(chosen, folder, facts):
    """The task that `read` left.

    Args:
        chosen: `Preparation`.
        folder: Path.
        facts: Dict, what `read` returned.

    Returns:
        `Task`.
    """
    return chosen.task_kind.restored_for(chosen, folder, facts)


def _check_labels(chosen, splits):
    """Few labels must be there, and be enough for each class."""
    labels = chosen.labels
    if labels is None:
        return
    present = int(data.has_label(splits.train.labels).sum())
    if labels > present:
        raise UsageError(
            f"`--labels` must be at most the {present} labelled train rows "
            f"of {chosen.data}, or all. Received: labels={labels}"
        )
    with as_usage_error(ValueError, advice="Raise `--labels`."):
        data.keep_labels(splits, labels)
