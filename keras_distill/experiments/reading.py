"""The first phase: data read, a vocabulary learnt, a length chosen, tokens."""

import pathlib

from keras_distill import _files
from keras_distill import data
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill._pairs import flat
from keras_distill.data import lengths
from keras_distill.experiments import sources
from keras_distill.experiments.preparation import AUTO

VOCABULARY = pathlib.Path("vocab.txt")
LOADING = (ValueError, OSError, ImportError)
COLUMNS_ADVICE = (
    "See `--data`, `--text-column`, `--label-column` and, for pairs of texts, "
    "`--text-pair-column` in `--help`."
)


def read(chosen, folder):
    """Reads and tokenises the data, and leaves them in a folder.

    Args:
        chosen: `Preparation`.
        folder: Path.

    Returns:
        Dict that JSON can hold, the task's facts.

    Raises:
        UsageError: The data, the tokenizer or the teacher cannot be loaded.
    """
    kind, source = chosen.task_kind, chosen.source
    source.check(kind)
    with as_usage_error(*LOADING, advice=COLUMNS_ADVICE):
        splits = kind.read(chosen.data, chosen.columns, chosen.smoke)
    _check_labels(chosen, splits)
    if source.kind == sources.EMBEDDED:
        with as_usage_error(ValueError, advice="See `--data`."):
            vocabulary = data.train_vocabulary(flat(splits.train.texts))
        with _files.complete_file(folder / VOCABULARY) as draft:
            data.write_vocabulary(vocabulary, draft)
    layer = source.preprocessor(kind, folder / VOCABULARY)
    if chosen.sequence_length == AUTO:
        longest = source.longest_sequence()
        length = kind.fitting_length(splits, layer, longest)
        layer = lengths.with_length(layer, length)
    task = kind.from_texts(splits, layer)
    task.save(folder)
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
    kind = chosen.task_kind
    layer = chosen.source.preprocessor(kind, folder / VOCABULARY)
    if chosen.sequence_length == AUTO:
        layer = lengths.with_length(layer, facts["sequence_length"])
    return kind.restore(
        folder, layer, name=chosen.name(), notes=kind.notes_on(facts)
    )


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
