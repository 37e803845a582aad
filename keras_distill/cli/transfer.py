"""The phase `transfer`: further text for the student to imitate on."""

import functools
import pathlib

import numpy as np

from keras_distill import augment
from keras_distill import data
from keras_distill.cli import identity
from keras_distill.cli import run_folder
from keras_distill.cli.problems import UsageProblem
from keras_distill.cli.problems import as_usage_problem
from keras_distill.cli.run_folder import Phase
from keras_distill.data import tables

TOKENS = pathlib.Path("data") / "transfer_tokens.npz"
TEXTS = pathlib.Path("data") / "transfer_texts.json"
SEED = 0
SMOKE_TEXTS = 240


def is_wanted(settings):
    """Whether the run has a transfer set."""
    return settings.transfer is not None or settings.unlabelled is not None


def check(settings):
    """Raises `UsageProblem` if the file of texts is not there."""
    path = settings.unlabelled
    if path is not None and not pathlib.Path(path).is_file():
        raise UsageProblem(
            "`--unlabelled` must be a .txt, .tsv or .csv file that exists. "
            f"Received: unlabelled={path!r}"
        )


def phases(settings, corpus, folder):
    """The phase, in a list; an empty list where there is nothing to do.

    Args:
        settings: `Settings`.
        corpus: `Corpus`.
        folder: Path of the run's folder.
    """
    if not is_wanted(settings):
        return []
    found = {}
    if settings.unlabelled is not None:
        contents = identity.contents(settings.unlabelled)
        found["contents of the unlabelled file"] = contents
    return [
        Phase(
            name="transfer",
            title="transfer: further text for the student",
            options=settings.of("transfer", "unlabelled") | found,
            needs=("data",),
            run=functools.partial(build, settings, corpus, folder),
            summary=summary,
            files=(TEXTS, TOKENS),
        )
    ]


def build(settings, corpus, folder):
    """Makes the texts, tokenises them, and leaves both in `folder`.

    Args:
        settings: `Settings`.
        corpus: `Corpus`.
        folder: Path.

    Returns:
        Dict: how many texts there are, and how many the file had.

    Raises:
        UsageProblem: The file of texts cannot be read.
    """
    splits = corpus.splits
    given = _read(settings)
    texts = augment.transfer_set(
        splits.train.texts,
        times=settings.transfer or 0,
        seed=SEED,
        exclude=(splits.dev.texts, splits.test.texts),
        unlabelled=given,
    )
    if settings.smoke:
        texts = texts[:SMOKE_TEXTS]
    if not texts:
        raise UsageProblem(
            "No transfer text is left: all of it occurs in train, dev or test. "
            f"Received: unlabelled={settings.unlabelled!r}, "
            f"transfer={settings.transfer}"
        )
    missing = np.full(len(texts), data.UNLABELLED)
    encoded = data.encode(
        data.TextDataset(texts, missing),
        corpus.preprocessor,
        special_tokens=True,
    )
    with run_folder.complete_file(folder / TOKENS) as draft:
        np.savez_compressed(draft, **encoded.inputs)
    run_folder.write_json(folder / TEXTS, texts)
    return {"texts": len(texts), "unlabelled": len(given)}


def summary(result):
    """One line on the result of `build`."""
    return f"{result['texts']:,} texts"


def note(settings, count):
    """One sentence on the transfer set.

    Args:
        settings: `Settings`.
        count: Integer, the number of texts.
    """
    parts = []
    if settings.transfer is not None:
        parts.append(f"up to {settings.transfer} variations of each train text")
    if settings.unlabelled is not None:
        parts.append(f"the texts in {settings.unlabelled}")
    return (
        f"Transfer set: {count:,} texts ({' and '.join(parts)}), none of them "
        "in train, dev or test, labelled by the teacher."
    )


def load(folder):
    """The transfer set as `data.EncodedDataset`.

    Args:
        folder: Path of the run's folder.
    """
    with np.load(folder / TOKENS) as arrays:
        inputs = dict(arrays)
    rows = len(inputs["padding_mask"])
    return data.EncodedDataset(
        inputs,
        np.full(rows, data.UNLABELLED, "int32"),
        inputs["padding_mask"].sum(axis=1),
    )


def _read(settings):
    """The texts in the file."""
    if settings.unlabelled is None:
        return []
    path = pathlib.Path(settings.unlabelled)
    with as_usage_problem(ValueError, OSError, advice="See `--unlabelled`."):
        if path.suffix in tables.SUFFIXES:
            return tables.read_texts(path, settings.text_column or "text")
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    return [line.strip() for line in lines if line.strip()]
