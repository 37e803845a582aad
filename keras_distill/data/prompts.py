"""Prompts and completions for language models, from files or embedded."""

import dataclasses
import json
import os
import pathlib
import stat

from keras_distill._text_files import file_mode
from keras_distill._text_files import numbered_lines
from keras_distill._text_files import read_text
from keras_distill._text_files import shown
from keras_distill._text_files import shown_path
from keras_distill._text_files import some
from keras_distill.data import docstrings
from keras_distill.data import json_lines
from keras_distill.data.splits import unit_hash
from keras_distill.data.tables import SUFFIXES as TABLES
from keras_distill.data.tables import header
from keras_distill.data.tables import part_file
from keras_distill.data.tables import read_columns
from keras_distill.data.tables import read_texts

SUFFIXES = (".txt", *TABLES)
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
            and `completion`, or `text` for a whole text; or of a folder with
            `train`, and perhaps `dev`, as such a file. Without `dev` a tenth
            of the rows is held out, by the hash of the row.

    Returns:
        `PromptSplits`.

    Raises:
        FileNotFoundError: There is no such file or folder.
        ValueError: The file is built in another way; the message says how.

    Example:

    >>> load_prompts("stories.txt")
    Traceback (most recent call last):
    FileNotFoundError: There is no such file. Received: path='stories.txt'
    """
    if str(source) == "docstrings":
        splits = docstrings.build()
        return PromptSplits(
            *([(None, t) for t in getattr(splits, p).texts] for p in PARTS),
            notes=splits.notes,
        )
    files = prompt_files(source)
    if files["dev"] is None:
        return _held_out(read_prompts(files["train"]))
    return PromptSplits(**{part: read_prompts(files[part]) for part in PARTS})


def prompt_files(source):
    """The files that `load_prompts` reads.

    Args:
        source: As in `load_prompts`, a path.

    Returns:
        Dict from `"train"` and `"dev"` to a path, or None for dev.

    Raises:
        FileNotFoundError: There is no such file or folder, or no train in it.
        ValueError: The path cannot be read, or there are two files for train.
    """
    path = pathlib.Path(source)
    if not stat.S_ISDIR(file_mode(path) or 0):
        return {"train": path, "dev": None}
    files = {part: part_file(path, part, SUFFIXES) for part in PARTS}
    if files["train"] is None:
        raise FileNotFoundError(
            "A folder of data must hold train as a file of one of the kinds "
            f"{SUFFIXES}. Received: source={shown_path(path)} with "
            f"{some(sorted(os.listdir(path)))}"
        )
    return files


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
    if path.suffix not in SUFFIXES:
        raise ValueError(
            f"Prompts must be in a file of one of the kinds {SUFFIXES}, not "
            f"packed. Received: path={shown_path(path)}"
        )
    if path.suffix not in READERS:
        return _read_columns(path)
    text = read_text(path)
    if not text.strip():
        raise ValueError(
            f"A file of prompts must have rows. Received: {shown_path(path)}"
        )
    return READERS[path.suffix](path, text)


def _read_columns(path):
    names = header(path)
    if "text" in names and "prompt" not in names:
        return [(None, text) for text in read_texts(path)]
    # As they stand: a completion may well be -1, and a language model learns
    # the blank between a prompt and its completion.
    rows = []
    for line, prompt, completion in read_columns(path, "prompt", "completion"):
        if not prompt.strip():
            raise ValueError(
                "Every row needs a prompt. Received: an empty prompt in "
                f"{path.name}, line {line}. Remove the row"
            )
        rows.append((prompt, completion or None))
    return rows


def _read_lines(path, text):  # noqa: ARG001
    return [(None, line.strip()) for _, line in numbered_lines(text)]


def _read_objects(path, text):
    rows = []
    for number, fields in json_lines.objects(path, text):
        found = _row(fields)
        if found is None:
            raise ValueError(
                "Each line must be a JSON object with the string 'prompt', "
                "and perhaps the string 'completion', or with a whole text, "
                f"the string 'text'. Received: {shown(json.dumps(fields))} in "
                f"{path.name}, line {number}"
            )
        rows.append(found)
    return rows


def _row(fields):
    """`(prompt, completion)` of a dict, or None where it is of no such row."""
    if "prompt" in fields:
        prompt, completion = fields["prompt"], fields.get("completion")
        needed = prompt
    else:
        prompt, needed = None, fields.get("text")
        completion = needed
    fits = isinstance(needed, str) and isinstance(completion, str | None)
    return (prompt, completion or None) if fits and needed.strip() else None


READERS = {".txt": _read_lines, json_lines.SUFFIX: _read_objects}


def _held_out(rows):
    """Splits rows by their hash, so that those of a prompt stay together."""
    asked = [text if prompt is None else prompt for prompt, text in rows]
    is_dev = [unit_hash(repr(text)) < DEV_SHARE for text in asked]
    train = [row for row, dev in zip(rows, is_dev) if not dev]
    dev = [row for row, dev in zip(rows, is_dev) if dev]
    if not train or not dev:
        raise ValueError(
            "There are too few rows to hold a tenth of them out: pass a folder "
            f"with train and dev. Received: {len(rows)} rows"
        )
    note = f"No dev part: {len(dev)} rows of train held out, by their hash"
    return PromptSplits(train, dev, (note,))
