"""Prompts and completions for language models, from files or embedded."""

import dataclasses
import json
import pathlib

from keras_distill.data import docstrings
from keras_distill.data.splits import unit_hash
from keras_distill.data.tables import SUFFIXES as TABLES
from keras_distill.data.tables import part_file
from keras_distill.data.tables import read_table

SUFFIXES = (".txt", ".jsonl", *TABLES)
PARTS = ("train", "dev")
DEV_SHARE = 0.1


@dataclasses.dataclass(frozen=True)
class PromptSplits:
    """Rows for training and held-out rows.

    Args:
        train: List of `(prompt, completion)`. The prompt is None where the
            completion is a whole text, whose start is to be the prompt. The
            completion is None where there is only a prompt.
        dev: As `train`.
        notes: Tuple of strings, what a reader should know about the rows.
    """

    train: list
    dev: list
    notes: tuple = ()


def load_prompts(source="docstrings"):
    """Loads prompts and completions.

    Args:
        source: `"docstrings"`, the sentences of the installed packages; the
            path of a `.txt` file with one text a line; of a `.jsonl` file with
            objects, or a `.tsv` or `.csv` file with columns, named `prompt`
            and `completion`; or of a folder with `train`, and perhaps `dev`,
            as such a file. Without `dev` a tenth of the rows is held out, by
            the hash of the row.

    Returns:
        `PromptSplits`.

    Raises:
        FileNotFoundError: There is no such file or folder.
        ValueError: The file is built in another way; the message says how.

    Example:

    >>> load_prompts("stories.txt")
    Traceback (most recent call last):
    FileNotFoundError: There is no such file. Received: source='stories.txt'
    """
    if str(source) == "docstrings":
        splits = docstrings.build()
        return PromptSplits(
            *([(None, t) for t in getattr(splits, p).texts] for p in PARTS),
            notes=splits.notes,
        )
    path = pathlib.Path(source)
    if not path.exists():
        raise FileNotFoundError(
            f"There is no such file. Received: source={str(source)!r}"
        )
    if not path.is_dir():
        return _held_out(read_prompts(path))
    train, dev = (part_file(path, part, SUFFIXES) for part in PARTS)
    if train is None:
        raise FileNotFoundError(
            "A folder of data must hold train as a file of one of the kinds "
            f"{SUFFIXES}. Received: source={str(path)!r} with "
            f"{sorted(item.name for item in path.iterdir())[:8]}"
        )
    if dev is None:
        return _held_out(read_prompts(train))
    return PromptSplits(read_prompts(train), read_prompts(dev))


def read_prompts(path):
    """Reads one file of rows, see `load_prompts`.

    Args:
        path: Path.

    Returns:
        List of `(prompt, completion)`, either of them None.

    Raises:
        ValueError: The file has no rows, or rows of another kind.
    """
    path = pathlib.Path(path)
    if path.suffix in TABLES:
        return read_table(path, "prompt", "completion")
    readers = {".txt": _read_lines, ".jsonl": _read_objects}
    if path.suffix not in readers:
        raise ValueError(
            f"Prompts must be in a file of one of the kinds {SUFFIXES}. "
            f"Received: path={str(path)!r}"
        )
    lines = path.read_text(encoding="utf-8-sig").splitlines()
    numbered = [(i, line) for i, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise ValueError(
            f"A file of prompts must have rows. Received: {str(path)!r}"
        )
    return readers[path.suffix](path, numbered)


def _read_lines(path, numbered):  # noqa: ARG001
    return [(None, line.strip()) for _, line in numbered]


def _read_objects(path, numbered):
    rows = []
    for number, line in numbered:
        where = f"{path.name}, line {number}"
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(
                f"Each line must be a JSON object. Received: {where}, "
                f"{error.msg} at column {error.colno}"
            ) from error
        prompt = row.get("prompt") if isinstance(row, dict) else None
        completion = row.get("completion") if prompt else None
        if not isinstance(prompt, str) or not isinstance(
            completion, str | None
        ):
            raise ValueError(
                "Each line must be a JSON object with the string 'prompt', "
                "and perhaps the string 'completion'. "
                f"Received: {line.strip()[:60]!r} in {where}"
            )
        rows.append((prompt, completion))
    return rows


def _held_out(rows):
    """Splits rows by their hash, so that equal rows stay together."""
    is_dev = [unit_hash(repr(row)) < DEV_SHARE for row in rows]
    train = [row for row, dev in zip(rows, is_dev) if not dev]
    dev = [row for row, dev in zip(rows, is_dev) if dev]
    if not train or not dev:
        raise ValueError(
            "There are too few rows to hold a tenth of them out: pass a folder "
            f"with train and dev. Received: {len(rows)} rows"
        )
    note = f"No dev part: {len(dev)} rows of train held out, by their hash"
    return PromptSplits(train, dev, (note,))
