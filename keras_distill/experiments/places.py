"""Where models and files lie: what a path of the user's is."""

import pathlib

from keras_distill import _files
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error

EMBEDDED = "embedded"
REMOTE = ("hf://", "kaggle://", "modelscope://")


def model_kind(source, option="teacher"):
    """`"embedded"`, `"keras"`, `"folder"` or `"preset"`; nothing is loaded.

    Args:
        source: String: `"embedded"`, a preset's name, a path.
        option: String, the option's name, for messages.

    Raises:
        UsageError: It is a path where no model is.

    Example:

    >>> model_kind("embedded"), model_kind("bert_base_en_uncased")
    ('embedded', 'preset')
    """
    if source == EMBEDDED:
        return EMBEDDED
    if source.startswith(REMOTE):
        return "preset"
    path = checked_path(source, option)
    if path.suffix == ".keras":
        if not path.is_file():
            raise UsageError(
                f"`--{option}` must be a .keras file that exists. "
                f"Received: {option}={source!r}"
            )
        return "keras"
    if path.is_dir():
        if not (path / "config.json").is_file():
            held = sorted(item.name for item in path.iterdir())[:4]
            raise UsageError(
                f"A `--{option}` folder must hold a KerasHub preset or a "
                "Hugging Face model, with config.json. "
                f"Received: {option}={source!r}, which holds {held}"
            )
        return "folder"
    if path.exists() or len(path.parts) > 1 or source[:1] in ("~", "."):
        raise UsageError(
            f"`--{option}` must be 'embedded', a KerasHub preset name, a "
            "folder with a model, or a .keras file. There is no such folder. "
            f"Received: {option}={source!r}"
        )
    return "preset"


def check_exists(path, option, kinds):
    """Raises `UsageError` if a path of the user's is not there.

    Args:
        path: String.
        option: String, the option's name.
        kinds: String, what it could be.
    """
    if not checked_path(str(path), option).exists():
        raise UsageError(
            f"`--{option}` must be {kinds}. There is no such file or folder. "
            f"Received: {option}={str(path)!r}"
        )


def contents(paths):
    """Dict from names to hashes: what tells files from changed ones.

    Args:
        paths: Dict from names to paths of files or folders; None is left out.

    Raises:
        UsageError: One cannot be read.
    """
    found = {}
    for name, path in paths.items():
        if path is not None:
            with as_usage_error(OSError, advice=f"Received: {name} {path!r}"):
                found[f"contents of the {name}"] = _files.tree_hash(path)
    return found


def path_of(source, option="teacher"):
    """The path of a model that lies on the disk, None of others."""
    kind = model_kind(source, option)
    return source if kind in ("keras", "folder") else None


def checked_path(source, option):
    """A path that the system can look up.

    Args:
        source: String.
        option: String, the option's name.

    Raises:
        UsageError: The system refuses it.
    """
    path = pathlib.Path(source)
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return path
    except (OSError, ValueError) as error:
        raise UsageError(
            f"`--{option}` must be a path that can be read "
            f"({getattr(error, 'strerror', None) or error}). "
            f"Received: {option}={source!r}"
        ) from error
    return path
