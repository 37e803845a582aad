"""What a run keeps of a task on texts, and how it comes to them."""

import dataclasses
import pathlib

import numpy as np

from keras_distill import _files
from keras_distill import data
from keras_distill._pairs import flat
from keras_distill.data import docstrings
from keras_distill.data import lengths
from keras_distill.pruning import vocabularies
from keras_distill.tasks.base import PARTS

TEXTS = pathlib.Path("data") / "texts.json"
TOKENS = pathlib.Path("data") / "tokens.npz"
VOCABULARY = pathlib.Path("vocab.txt")
FILES = (TEXTS, TOKENS)
SMOKE_ROWS = {"train": 240, "dev": 60, "test": 60}
AUTO = "auto"


def read(chosen, kind):
    """The texts of a run.

    Args:
        chosen: `experiments.Preparation`.
        kind: `data.TextSplits` or a subclass.

    Returns:
        `kind`.
    """
    if not chosen.smoke:
        return data.load(chosen.data, **chosen.columns, kind=kind)
    if chosen.data == "docstrings" and kind.of_classes:
        few_texts = docstrings.build(("numpy", "keras"), max_per_class=500)
        splits = kind.like(few_texts)
    else:
        splits = data.load(chosen.data, **chosen.columns, kind=kind)
    return few(splits, SMOKE_ROWS)


def few(splits, rows):
    """Some rows of each part, for `--smoke`, drawn: files may be sorted.

    Args:
        splits: `data.Splits`.
        rows: Dict from the parts to how many at most.
    """
    rng, held = np.random.default_rng(0), {}
    for part, count in rows.items():
        found = getattr(splits, part)
        if count < len(found):
            held[part] = found.take(
                np.sort(rng.permutation(len(found))[:count])
            )
    notes = (*splits.notes, f"--smoke: at most {rows} rows")
    return dataclasses.replace(splits, **held, notes=notes)


def preprocessor_for(task_kind, splits, chosen, folder):
    """The preprocessor of a run's teacher, of a length that fits the texts.

    Args:
        task_kind: Subclass of `TextTask`.
        splits: `data.TextSplits`.
        chosen: `experiments.Preparation`.
        folder: Path, where a vocabulary is left that is learnt here.

    Raises:
        ValueError: No vocabulary can be learnt of the texts.
    """
    source = chosen.source
    if source.is_new:
        vocabulary = data.train_vocabulary(flat(splits.train.texts))
        with _files.complete_file(folder / VOCABULARY) as draft:
            data.write_vocabulary(vocabulary, draft)
    layer = source.preprocessor(task_kind, folder / VOCABULARY)
    if chosen.min_count is not None:
        layer = _of_fewer_tokens(layer, splits, chosen, folder / VOCABULARY)
    if chosen.sequence_length != AUTO:
        return layer
    longest = source.longest_sequence()
    length = lengths.fitting_length(splits.train, layer, longest)
    return lengths.like(layer, sequence_length=length)


def _of_fewer_tokens(layer, splits, chosen, path):
    tokenizer = vocabularies.fewer_tokens(
        layer.tokenizer, flat(splits.train.texts), chosen.min_count
    )
    with _files.complete_file(path) as draft:
        data.write_vocabulary(tokenizer.get_vocabulary(), draft)
    return lengths.like(layer, tokenizer=tokenizer)


def restored_preprocessor(task_kind, chosen, folder, facts):
    """The same, from what was kept.

    Args:
        task_kind: Subclass of `TextTask`.
        chosen: `experiments.Preparation`.
        folder: Path.
        facts: Dict, of the task.
    """
    layer = chosen.source.preprocessor(task_kind, folder / VOCABULARY)
    changed = {}
    if chosen.min_count is not None:
        changed["tokenizer"] = vocabularies.with_vocabulary(
            layer.tokenizer, str(folder / VOCABULARY)
        )
    if chosen.sequence_length == AUTO:
        changed["sequence_length"] = facts["sequence_length"]
    return lengths.like(layer, **changed)


def save(task, folder):
    """Leaves texts and token ids in a run's folder, without transfer.

    Args:
        task: `TextTask`.
        folder: Path.
    """
    arrays = {
        f"{part}.{name}": array
        for part in PARTS
        for name, array in task.encoded[part].inputs.items()
    }
    with _files.complete_file(folder / TOKENS) as draft:
        np.savez_compressed(draft, **arrays)
    splits = task.splits
    held = {
        part: (
            getattr(splits, part).texts,
            _as_json(getattr(splits, part).labels),
        )
        for part in PARTS
    }
    held |= {
        "label_names": list(splits.label_names),
        "notes": list(splits.notes),
    }
    _files.write_json(folder / TEXTS, held)


def restore(kind, folder):
    """What `save` left.

    Args:
        kind: `data.TextSplits` or a subclass.
        folder: Path.

    Returns:
        Pair of the splits, and `encoded` of the task.
    """
    held = _files.read_json(folder / TEXTS)
    splits = kind(
        **{part: data.TextDataset(*held[part]) for part in PARTS},
        label_names=held["label_names"],
        notes=tuple(held["notes"]),
    )
    with np.load(folder / TOKENS) as arrays:
        encoded = {
            part: data.EncodedDataset(
                inputs={
                    name.removeprefix(f"{part}."): arrays[name]
                    for name in arrays.files
                    if name.startswith(f"{part}.")
                },
                labels=getattr(splits, part).labels,
                lengths=arrays[f"{part}.padding_mask"].sum(axis=1),
            )
            for part in PARTS
        }
    return splits, encoded


def _as_json(labels):
    """Labels as lists; None for NaN, which JSON lacks."""
    if labels.dtype.kind != "f":
        return labels.tolist()
    known = data.has_label(labels)
    return [x if has else None for x, has in zip(labels.tolist(), known)]
