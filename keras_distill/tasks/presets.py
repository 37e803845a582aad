"""Classifiers of KerasHub by their presets."""

import pathlib

from keras_distill import _files


def classifier(kind, preset, num_outputs):
    """A classifier without its preprocessor.

    Args:
        kind: `keras_hub.models.TextClassifier` or another such class.
        preset: String, a preset's name or folder.
        num_outputs: Integer, the classes of the task.

    Returns:
        Pair of the model, and whether it is of as many classes already: then
        its head is kept, otherwise a new one is to be fine-tuned.
    """
    knows = is_of_classes(preset, num_outputs)
    options = {} if knows else {"num_classes": num_outputs}
    if _config(preset).get("activation") is not None:
        options["activation"] = None  # Logits, as of a new head.
    model = kind.from_preset(preset, preprocessor=None, **options)
    model.preprocessor = None
    return model, knows


def is_of_classes(preset, num_outputs):
    """Whether a preset is a folder of a classifier of so many classes.

    Args:
        preset: String, a preset's name or folder.
        num_outputs: Integer.
    """
    return _config(preset).get("num_classes") == num_outputs


def _config(preset):
    """The configuration of the task in a preset's folder; of others none."""
    path = pathlib.Path(preset) / "task.json"
    return _files.read_json(path)["config"] if path.is_file() else {}
