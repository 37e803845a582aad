"""Teacher and student language models, from wherever they come."""

import functools
import pathlib

import keras_hub

from keras_distill import _files
from keras_distill import data
from keras_distill import students
from keras_distill._backend import load_model
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.experiments import places
from keras_distill.experiments import sources
from keras_distill.experiments.language_models.settings import EMBEDDED
from keras_distill.experiments.language_models.settings import SHRINK
from keras_distill.gkd import compatibility

VOCABULARY = pathlib.Path("vocab.txt")
TEACHER = pathlib.Path("teacher.weights.h5")
# Layers, heads and width.
TEACHER_SIZE, STUDENT_SIZE = (4, 4, 128), (2, 2, 64)
SMOKE_SIZES = {TEACHER_SIZE: (2, 2, 16), STUDENT_SIZE: (1, 2, 8)}
EMBEDDED_LENGTH = 64


def tokenizer(settings, folder):
    """The tokenizer of the teacher, which the student shares.

    Args:
        settings: `Settings`.
        folder: Path of the run's folder, with an embedded teacher's
            vocabulary.
    """
    if settings.teacher == EMBEDDED:
        return data.bert_preprocessor(str(folder / VOCABULARY)).tokenizer
    preprocessor = _loaded(settings.teacher).preprocessor
    if preprocessor is None:
        raise UsageError(
            "The teacher must bring its tokenizer: pass a KerasHub preset, or "
            "a folder that `CausalLM.save_to_preset` wrote. "
            f"Received: teacher={settings.teacher!r}"
        )
    return preprocessor.tokenizer


def ids(tokenizer, text):
    """The token ids of a text, a list without special tokens."""
    return [int(token) for token in tokenizer(text)]


def text(tokenizer, token_ids):
    """The text of token ids, without special tokens."""
    special = {
        getattr(tokenizer, f"{name}_token_id", None)
        for name in ("start", "end", "pad", "cls", "sep")
    }
    kept = [int(token) for token in token_ids if int(token) not in special]
    found = tokenizer.detokenize(kept)
    return str(found) if isinstance(found, str) else found.numpy().decode()


def check_pair(settings):
    """Raises `UsageError` if the student cannot learn from the teacher."""
    if not settings.has_own_student:
        return
    with as_usage_error(ValueError):
        compatibility.check_pair(
            _loaded(settings.teacher), _loaded(settings.student)
        )


def longest(settings):
    """The most tokens that both models read, None where there is no limit."""
    if settings.teacher == EMBEDDED:
        return EMBEDDED_LENGTH
    teacher = _loaded(settings.teacher)
    student = teacher
    if settings.student != SHRINK:
        student = _loaded(settings.student)
    lengths = compatibility.max_lengths(teacher, student).values()
    return min((n for n in lengths if n is not None), default=None)


def teacher(settings, corpus):
    """The teacher, not trained yet if it is the embedded one."""
    if settings.teacher == EMBEDDED:
        return _embedded(TEACHER_SIZE, settings, corpus)
    # What is trained is not the one that is kept.
    load = _load if settings.teacher_epochs else _loaded
    return load(settings.teacher)


def trained_teacher(settings, corpus):
    """The teacher as the phase `teacher` left it."""
    model = teacher(settings, corpus)
    if settings.teacher_epochs:
        model.backbone.load_weights(corpus.folder / TEACHER)
    return model


def student(settings, corpus):
    """The student, as it is before its start.

    Raises:
        UsageError: It cannot be loaded or built.
    """
    if settings.student == EMBEDDED:
        return _embedded(STUDENT_SIZE, settings, corpus)
    if settings.student != SHRINK:
        return _load(settings.student)
    return shrunk(trained_teacher(settings, corpus), settings)


def shrunk(model, settings):
    """The student with fewer layers than the teacher `model`."""
    layers = settings.layers or max(1, model.backbone.num_layers // 2)
    with as_usage_error(ValueError, advice="See `--layers`."):
        return students.shrink_causal_lm(model, layers)


def _embedded(size, settings, corpus):
    layers, heads, width = SMOKE_SIZES[size] if settings.smoke else size
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=corpus.tokenizer.vocabulary_size(),
        num_layers=layers,
        num_heads=heads,
        hidden_dim=width,
        intermediate_dim=4 * width,
        max_sequence_length=EMBEDDED_LENGTH,
    )
    return keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)


@functools.cache
def _loaded(source):
    return _load(source)


def forget():
    """Lets go of the models that were loaded: their files may change."""
    _loaded.cache_clear()


def _load(source):
    kind = places.model_kind(source)
    advice = (
        f"The model {source!r} cannot be loaded. It must be a causal language "
        "model that KerasHub knows: a preset name of keras.io/keras_hub/"
        "presets, a folder with a KerasHub preset or a Hugging Face model, or "
        "a .keras file."
    )
    with as_usage_error(*sources.LOADING, advice=advice):
        if kind == "keras":
            model = load_model(source)
        else:
            model = keras_hub.models.CausalLM.from_preset(source)
    if not isinstance(model, keras_hub.models.CausalLM):
        raise UsageError(f"{advice} Received: {type(model).__name__}")
    return model


def save(model, folder):
    """Saves the student as what its user loads it with.

    Args:
        model: `keras_hub.models.CausalLM`.
        folder: Path of the run's folder.

    Returns:
        The path, relative to `folder`.
    """
    if model.preprocessor is None:
        name = pathlib.Path("student.keras")
        with _files.complete_file(folder / name) as draft:
            model.save(draft)
        return name
    name = pathlib.Path("student")
    with _files.complete_folder(folder / name) as draft:
        model.save_to_preset(str(draft))
    return name
