"""What a program needs to know to use an export, and where files are put."""

import pathlib
import tempfile

import keras
import tensorflow as tf

from keras_distill._files import put_in_place
from keras_distill._files import read_json


def check_replaceable(path, metadata_path, form):
    """Raises `FileExistsError` if `path` holds anything but such an export.

    Args:
        path: Path of the file or folder that is to be written.
        metadata_path: Path of what is told of it.
        form: String, the `format` that is told there.
    """
    if metadata_path.exists():
        told = read_json(metadata_path).get("format")
        if told == form:
            return
        raise FileExistsError(
            "Exports in one folder must differ in more than the ending, after "
            f"which {metadata_path.name} is not named. Choose another `path`. "
            f"Received: path={str(path)!r}, beside an export as {told}"
        )
    if not path.exists():
        return
    if path.is_dir() and not any(path.iterdir()):
        return
    raise FileExistsError(
        "`path` must be new, or an earlier export, which is replaced. Delete "
        f"it or choose another one. Received: path={str(path)!r}, without "
        f"{metadata_path.name}"
    )


def save_vocabulary(tokenizer, folder, prefix=""):
    """Writes the tokenizer's files into `folder`; their names, sorted."""
    if tokenizer is None:
        return []
    with tempfile.TemporaryDirectory() as assets:
        tokenizer.save_assets(assets)
        sources = sorted(pathlib.Path(assets).iterdir())
        for source in sources:
            target = folder / f"{prefix}{source.name}"
            target.write_bytes(source.read_bytes())
    return [f"{prefix}{source.name}" for source in sources]


def describe(report, inputs, outputs, options, tokenizer, **entries):
    """The contents of `metadata.json`.

    Args:
        report: An `ExportReport`.
        inputs: List of dicts with `name`, `dtype` and `shape`.
        outputs: The student's outputs on the examples, arrays by name.
        options: An `ExportOptions`.
        tokenizer: A KerasHub tokenizer, or `None`.
        **entries: Further entries: `format`, `quantization`,
            `sequence_length`, `vocabulary_files`.

    Returns:
        A dict that JSON can hold.
    """
    checked = {
        name: getattr(report, name)
        for name in (
            "agreement",
            "max_difference",
            "mean_difference",
            "examples",
            "size_bytes",
            "latency_ms",
        )
    }
    return {
        **entries,
        "signature": "serving_default",
        "task": options.task,
        "labels": None if options.labels is None else list(options.labels),
        "inputs": inputs,
        "outputs": [
            {
                "name": name,
                "dtype": "float32",
                "shape": [None] * (value.ndim - 1) + [value.shape[-1]],
            }
            for name, value in outputs.items()
        ],
        "padding_id": getattr(tokenizer, "pad_token_id", None),
        "special_tokens": {
            token: int(tokenizer.token_to_id(token))
            for token in sorted(getattr(tokenizer, "special_tokens", []))
        },
        "check": {**checked, "min_agreement": options.min_agreement},
        "versions": {"keras": keras.__version__, "tensorflow": tf.__version__},
    }


def publish_files(folder, path, metadata_path):
    """Moves the files of `folder` beside `path`, the model itself last.

    Vocabulary files of an earlier export at `path` that have no successor are
    deleted.
    """
    names = {file.name for file in folder.iterdir()}
    if metadata_path.exists():
        earlier = read_json(metadata_path)
        for name in set(earlier["vocabulary_files"]) - names:
            (path.parent / pathlib.Path(name).name).unlink(missing_ok=True)
    for name in sorted(names, key=lambda name: (name == path.name, name)):
        put_in_place(folder / name, path.parent / name)
