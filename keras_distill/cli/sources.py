"""Where teacher and data come from, checked without loading either."""

import pathlib

from keras_distill.cli import identity
from keras_distill.cli.problems import UsageProblem

REMOTE = ("hf://", "kaggle://", "modelscope://")


def model_kind(source, option="teacher"):
    """`"embedded"`, `"keras"`, `"folder"` or `"preset"`.

    Args:
        source: String, as in the options.
        option: String, the option's name.

    Raises:
        UsageProblem: It is a path where no model is.
    """
    if source == "embedded":
        return "embedded"
    if source.startswith(REMOTE):
        return "preset"
    path = pathlib.Path(source)
    if path.suffix == ".keras":
        if not path.is_file():
            raise UsageProblem(
                f"`--{option}` must be a .keras file that exists. "
                f"Received: {option}={source!r}"
            )
        return "keras"
    if path.is_dir():
        if not (path / "config.json").is_file():
            held = sorted(item.name for item in path.iterdir())[:4]
            raise UsageProblem(
                f"A `--{option}` folder must hold a KerasHub preset or a "
                "Hugging Face model, with config.json. "
                f"Received: {option}={source!r}, which holds {held}"
            )
        return "folder"
    if path.exists() or len(path.parts) > 1 or source[:1] in ("~", "."):
        raise UsageProblem(
            f"`--{option}` must be 'embedded', a KerasHub preset name, a "
            "folder with a model, or a .keras file. There is no such folder. "
            f"Received: {option}={source!r}"
        )
    return "preset"


def check_data(data):
    """Raises `UsageProblem` if `data` is a path where nothing is."""
    if data == "docstrings" or data.startswith("tfds:"):
        return
    if not pathlib.Path(data).exists():
        raise UsageProblem(
            "`--data` must be 'docstrings', 'tfds:NAME', a .tsv or .csv file, "
            "or a folder with train.tsv or train.csv. There is no such file "
            f"or folder. Received: data={data!r}"
        )


def check_prompts(data):
    """Raises `UsageProblem` if `data` is a path where nothing is."""
    if data != "docstrings" and not pathlib.Path(data).exists():
        raise UsageProblem(
            "`--data` must be 'docstrings', a .txt, .jsonl, .tsv or .csv file, "
            "or a folder with train as such a file. There is no such file or "
            f"folder. Received: data={data!r}"
        )


def model_identity(source, option="teacher"):
    """What tells this model's file or folder from a changed one."""
    if model_kind(source, option) not in ("keras", "folder"):
        return {}
    return {f"contents of the {option}": identity.contents(source)}


def teacher_identity(settings):
    """What tells this teacher's file or folder from a changed one."""
    found = model_identity(settings.teacher)
    if settings.vocabulary is not None:
        if not pathlib.Path(settings.vocabulary).is_file():
            raise UsageProblem(
                "`--vocabulary` must be a vocab.txt that exists. "
                f"Received: vocabulary={settings.vocabulary!r}"
            )
        vocabulary = identity.contents(settings.vocabulary)
        found["contents of the vocabulary"] = vocabulary
    return found


def data_identity(settings):
    """What tells these texts from changed ones."""
    if settings.data == "docstrings":
        return {"installed packages": identity.packages()}
    if settings.data.startswith("tfds:"):
        return {}
    return {"contents of the data": identity.contents(settings.data)}
