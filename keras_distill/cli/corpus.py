"""The phase `data`: texts, token ids and the preprocessor between them."""

import dataclasses
import functools
import pathlib

import numpy as np

from keras_distill import data
from keras_distill.cli import run_folder
from keras_distill.cli import sources
from keras_distill.cli import teacher_models
from keras_distill.cli import training
from keras_distill.cli import transfer
from keras_distill.cli.problems import UsageProblem
from keras_distill.cli.problems import as_usage_problem
from keras_distill.cli.settings import SMOKE_ROWS
from keras_distill.data import docstrings

PARTS = ("train", "dev", "test")
TEXTS = pathlib.Path("data") / "texts.json"
TOKENS = pathlib.Path("data") / "tokens.npz"
VOCABULARY = pathlib.Path("vocab.txt")
FILES = (TEXTS, TOKENS)
LOADING = (ValueError, OSError, ImportError)


@dataclasses.dataclass(frozen=True)
class Corpus:
    """What the phases after `data` read.

    Args:
        folder: Path of the run's folder, where the phase left its files.
        settings: `Settings`.
    """

    folder: pathlib.Path
    settings: object

    @functools.cached_property
    def splits(self):
        """`data.TextSplits`."""
        held = run_folder.read_json(self.folder / TEXTS)
        return data.TextSplits(
            **{part: data.TextDataset(*held[part]) for part in PARTS},
            label_names=held["label_names"],
            notes=tuple(held["notes"]),
        )

    @functools.cached_property
    def encoded(self):
        """Dict from each part to its `data.EncodedDataset`."""
        with np.load(self.folder / TOKENS) as arrays:
            return {
                part: data.EncodedDataset(
                    inputs={
                        name.removeprefix(f"{part}."): arrays[name]
                        for name in arrays.files
                        if name.startswith(f"{part}.")
                    },
                    labels=getattr(self.splits, part).labels,
                    lengths=arrays[f"{part}.padding_mask"].sum(axis=1),
                )
                for part in PARTS
            }

    @functools.cached_property
    def transfer(self):
        """The transfer set as `data.EncodedDataset`, or None."""
        if not transfer.is_wanted(self.settings):
            return None
        return transfer.load(self.folder)

    @functools.cached_property
    def taught(self):
        """What the teacher labels: the train part, then the transfer set."""
        train = self.encoded["train"]
        if self.transfer is None:
            return train
        return training.joined(train, self.transfer)

    @functools.cached_property
    def preprocessor(self):
        """The teacher's KerasHub preprocessor."""
        return preprocessor(self.settings, self.folder)

    @property
    def num_classes(self):
        """Number of classes."""
        return self.splits.num_classes


def build(settings, folder):
    """Loads and tokenises the texts, and leaves them in `folder`.

    Args:
        settings: `Settings`.
        folder: Path.

    Returns:
        Dict: rows, classes, notes.

    Raises:
        UsageProblem: The data, or the teacher's tokenizer, cannot be loaded.
    """
    teacher_models.check_loadable(settings)
    with as_usage_problem(*LOADING, advice="See `--data` in `--help`."):
        splits = _load(settings)
    _check_labels(settings, splits)
    if settings.teacher == "embedded":
        vocabulary = data.train_vocabulary(splits.train.texts)
        with run_folder.complete_file(folder / VOCABULARY) as draft:
            data.write_vocabulary(vocabulary, draft)
    layer = preprocessor(settings, folder)
    arrays = {}
    for part in PARTS:
        encoded = data.encode(getattr(splits, part), layer)
        for name, array in encoded.inputs.items():
            arrays[f"{part}.{name}"] = array
    with run_folder.complete_file(folder / TOKENS) as draft:
        np.savez_compressed(draft, **arrays)
    held = {
        part: (
            getattr(splits, part).texts,
            getattr(splits, part).labels.tolist(),
        )
        for part in PARTS
    }
    held |= {"label_names": list(splits.label_names), "notes": splits.notes}
    run_folder.write_json(folder / TEXTS, held)
    return {
        "rows": {part: len(getattr(splits, part)) for part in PARTS},
        "labelled_train_rows": int((splits.train.labels >= 0).sum()),
        "label_names": list(splits.label_names),
        "notes": list(splits.notes),
        "vocabulary_size": layer.tokenizer.vocabulary_size(),
    }


def summary(result):
    """One line on the result of `build`."""
    rows = result["rows"]
    return (
        f"{rows['train']:,} train, {rows['dev']:,} dev and {rows['test']:,} "
        f"test texts, {len(result['label_names'])} classes"
    )


def preprocessor(settings, folder):
    """The KerasHub preprocessor of the teacher.

    Args:
        settings: `Settings`.
        folder: Path of the run's folder, with an embedded teacher's
            vocabulary.

    Raises:
        UsageProblem: The teacher brings no tokenizer.
    """
    length = settings.sequence_length
    if sources.model_kind(settings.teacher) == "embedded":
        return data.bert_preprocessor(str(folder / VOCABULARY), length)
    return teacher_models.preprocessor(settings)


def _load(settings):
    if not settings.smoke:
        return data.load(
            settings.data, settings.text_column, settings.label_column
        )
    if settings.data == "docstrings":
        splits = docstrings.build(("numpy", "keras"), max_per_class=500)
    else:
        splits = data.load(
            settings.data, settings.text_column, settings.label_column
        )
    few = {
        part: getattr(splits, part).take(np.arange(rows))
        for part, rows in SMOKE_ROWS.items()
        if rows < len(getattr(splits, part))
    }
    note = f"--smoke: at most {SMOKE_ROWS} rows"
    return dataclasses.replace(splits, **few, notes=(*splits.notes, note))


def _check_labels(settings, splits):
    """Few labels must be there, and be enough for each class."""
    if settings.labels is None:
        return
    present = int((splits.train.labels >= 0).sum())
    if settings.labels > present:
        raise UsageProblem(
            f"`--labels` must be at most the {present} labelled train rows of "
            f"{settings.data}, or all. Received: labels={settings.labels}"
        )
    with as_usage_problem(ValueError, advice="Raise `--labels`."):
        data.keep_labels(splits, settings.labels)
