"""The teacher as a model, from wherever it comes."""

import difflib
import functools
import pathlib

import keras_hub

from keras_distill import data
from keras_distill import students
from keras_distill._backend import load_model
from keras_distill.cli import run_folder
from keras_distill.cli import sources
from keras_distill.cli.problems import UsageProblem
from keras_distill.cli.problems import as_usage_problem

LOADING = (ValueError, OSError, ImportError, TypeError, KeyError)


def check_loadable(settings):
    """Raises `UsageProblem` if the teacher or its tokenizer cannot be had."""
    kind = sources.model_kind(settings.teacher)
    if kind == "keras":
        _saved(settings.teacher)
    if kind != "embedded":
        preprocessor(settings)


def build(settings, corpus):
    """The teacher for this data.

    Args:
        settings: `Settings`.
        corpus: `Corpus`.

    Returns:
        Tuple of the model, without a preprocessor, and whether it classifies
        already.

    Raises:
        UsageProblem: It cannot be loaded, or does not fit the data.
    """
    kind = sources.model_kind(settings.teacher)
    if kind == "embedded":
        return _embedded(settings, corpus), False
    if kind == "keras":
        model, _ = _saved(settings.teacher)
        _check_classes(model, settings, corpus)
        return model, True
    classifies = _saved_classes(settings.teacher) == corpus.num_classes
    classes = {} if classifies else {"num_classes": corpus.num_classes}
    with as_usage_problem(*LOADING, advice=_advice(settings)):
        model = keras_hub.models.TextClassifier.from_preset(
            settings.teacher, preprocessor=None, **classes
        )
    model.preprocessor = None
    return model, classifies


@functools.cache
def preprocessor(settings):
    """The preprocessor of a teacher that is not the embedded one."""
    kind = sources.model_kind(settings.teacher)
    if kind == "keras":
        return _preprocessor_of_saved(settings)
    if kind == "preset":
        _check_known(settings.teacher)
    with as_usage_problem(*LOADING, advice=_advice(settings)):
        return keras_hub.models.TextClassifierPreprocessor.from_preset(
            settings.teacher, sequence_length=settings.sequence_length
        )


def _embedded(settings, corpus):
    layers, width = (1, 32) if settings.smoke else (2, 128)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=corpus.preprocessor.tokenizer.vocabulary_size(),
        num_layers=layers,
        num_heads=2,
        hidden_dim=width,
        intermediate_dim=4 * width,
        max_sequence_length=settings.sequence_length,
    )
    return students.mean_pooled_classifier(
        backbone, corpus.num_classes, name="embedded_teacher"
    )


def _saved_classes(folder):
    """The classes of a KerasHub classifier in a folder, None for others."""
    path = pathlib.Path(folder) / "task.json"
    if not path.is_file():
        return None
    return run_folder.read_json(path)["config"].get("num_classes")


@functools.cache
def _saved(path):
    """The model in a file, and the preprocessor that was in it, or None."""
    advice = f"The teacher {path!r} cannot be loaded."
    with as_usage_problem(*LOADING, advice=advice):
        model = load_model(path)
    layer = getattr(model, "preprocessor", None)
    if layer is not None:
        model.preprocessor = None
    return model, layer


def _preprocessor_of_saved(settings):
    path, length = settings.teacher, settings.sequence_length
    vocabulary = settings.vocabulary
    if vocabulary is None:
        _, layer = _saved(path)
        if layer is not None:
            layer.sequence_length = length
            return layer
        vocabulary = pathlib.Path(path).with_name("vocab.txt")
    if not pathlib.Path(vocabulary).is_file():
        raise UsageProblem(
            "The teacher's file holds no tokenizer, and no vocab.txt is beside "
            "it: pass its WordPiece vocabulary as `--vocabulary vocab.txt`. "
            f"Received: teacher={path!r}"
        )
    return data.bert_preprocessor(str(vocabulary), length)


def _check_classes(model, settings, corpus):
    shape = getattr(model, "output_shape", None)
    if not isinstance(shape, tuple) or shape[1:] != (corpus.num_classes,):
        raise UsageProblem(
            f"The teacher must give {corpus.num_classes} logits, one for each "
            f"class of {settings.data}. Received: teacher="
            f"{settings.teacher!r} with the output shape {shape}"
        )


def _check_known(name):
    if name.startswith(sources.REMOTE):
        return
    known = {
        *keras_hub.models.Backbone.presets,
        *keras_hub.models.TextClassifier.presets,
    }
    if name in known:
        return
    close = difflib.get_close_matches(name, known, n=3)
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    raise UsageProblem(
        f"KerasHub has no preset {name!r}. {hint}`--teacher` must be "
        "'embedded', a preset name of keras.io/keras_hub/presets, a folder "
        f"with a model, or a .keras file. Received: teacher={name!r}"
    )


def _advice(settings):
    if sources.model_kind(settings.teacher) == "folder":
        return (
            "The folder must hold a KerasHub preset or a Hugging Face model of "
            "a text encoder that KerasHub knows. "
            f"Received: teacher={settings.teacher!r}"
        )
    return (
        f"The preset {settings.teacher!r} is not on this machine and could not "
        "be downloaded, or is no text encoder. Without a network, pass a "
        "local folder as `--teacher`, or leave it out for the embedded one."
    )
