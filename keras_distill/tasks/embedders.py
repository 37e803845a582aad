"""Teachers of vectors: encoders whose token states are pooled to one vector."""

import pathlib

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_distill import _files
from keras_distill.students.mean_pooled import encoder_states
from keras_distill.students.mean_pooled import freeze_pooler

POOLINGS = ("mean", "cls", "max")
# What sentence-transformers writes in `modules.json`, by the last word.
TRANSFORMER, POOLING, NORMALIZE = "Transformer", "Pooling", "Normalize"
LOWEST = -1e9
MOST_ASKED, ASKED_AT_ONCE = 50_000, 512


def of_preset(preset):
    """An embedder: of KerasHub, of sentence-transformers, or an encoder.

    Args:
        preset: String: the name or folder of a KerasHub `TextEmbedder`; a
            folder of sentence-transformers, whose pooling is read; or any
            encoder, whose token states are then averaged.

    Returns:
        `keras.Model` from tokens to vectors.

    Raises:
        ValueError: The folder holds modules that are not read here.
    """
    kind, folder = keras_hub.models.TextEmbedder, pathlib.Path(preset)
    task = folder / "task.json"
    is_embedder = preset in kind.presets
    if task.is_file():
        name = _files.read_json(task)["registered_name"]
        is_embedder = name.endswith("TextEmbedder")
    if is_embedder:
        model = kind.from_preset(preset, preprocessor=None)
        model.preprocessor = None
        return model
    pooling = _pooling(folder)
    backbone = keras_hub.models.Backbone.from_preset(preset)
    return pooled(backbone, pooling)


def classifier(preset, num_outputs):
    """A linear head on the vectors of a preset's encoder, as yet a new one.

    Args:
        preset: String, as of `of_preset`.
        num_outputs: Integer.

    Returns:
        `keras.Model` from tokens to logits, with the layers `unit` and
        `logits`; None where the encoder is not told what is padding.
    """
    backbone = keras_hub.models.Backbone.from_preset(preset)
    if "padding_mask" not in backbone.input:
        return None
    try:
        pooling = _pooling(pathlib.Path(preset))
    except ValueError:
        # Of other modules the encoder alone is a start to be trained on.
        pooling = "mean"
    vectors = pooled(backbone, pooling)
    freeze_pooler(backbone)
    head = keras.layers.Dense(num_outputs, dtype="float32", name="logits")
    return keras.Model(
        vectors.input, head(vectors.output), name="vectors_classifier"
    )


def pooled(backbone, pooling="mean"):
    """An encoder with one vector of length 1 for each text.

    Args:
        backbone: KerasHub encoder.
        pooling: `"mean"` or `"max"`, of the states of all tokens but padding,
            or `"cls"`, the state of the first.

    Returns:
        Functional `keras.Model`.

    Example:

    >>> backbone = keras_hub.models.BertBackbone(50, 1, 2, 16, 32)
    >>> pooled(backbone).output_shape
    (None, 16)
    """
    if pooling not in POOLINGS:
        raise ValueError(
            f"`pooling` must be one of {POOLINGS}. Received: {pooling!r}"
        )
    inputs, states = encoder_states(backbone)
    mask = ops.expand_dims(inputs["padding_mask"], axis=-1)
    if pooling == "cls":
        x = states[:, 0]
    elif pooling == "max":
        x = ops.max(ops.where(mask > 0, states, LOWEST), axis=1)
    else:
        # The sum, as only the direction counts.
        x = ops.sum(states * ops.cast(mask, states.dtype), axis=1)
    unit = keras.layers.UnitNormalization(name="unit", dtype="float32")
    return keras.Model(inputs, unit(x), name="embedder")


def token_vectors(model, tokenizer, names, counts):
    """What an embedder says of each token as a text of its own.

    Args:
        model: `keras.Model` from tokens to vectors.
        tokenizer: KerasHub tokenizer, of the first and the last token of a
            text.
        names: Names of the model's inputs.
        counts: Integer array `[vocabulary]`, how often each token occurs: of
            a large vocabulary some rare ones are not asked for.

    Returns:
        Float array `[vocabulary, dimensions]`, NaN of what was not asked, as
        of the first and the last token and of padding.
    """
    own = [tokenizer.start_token_id, tokenizer.end_token_id]
    left_out = np.isin(np.arange(len(counts)), [*own, tokenizer.pad_token_id])
    # Of those that do not occur the first: vocabularies begin with the
    # frequent ones.
    order = np.argsort(-counts, kind="stable")
    asked = np.sort(order[~left_out[order]][:MOST_ASKED])
    ids = np.stack(
        [np.full(len(asked), own[0]), asked, np.full(len(asked), own[1])],
        axis=1,
    )
    inputs = {name: np.zeros_like(ids) for name in names}
    inputs |= {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    found = model.predict(
        {name: array.astype("int32") for name, array in inputs.items()},
        batch_size=ASKED_AT_ONCE,
        verbose=0,
    )
    vectors = np.full((len(counts), found.shape[1]), np.nan, "float32")
    vectors[asked] = found
    return vectors


def _pooling(folder):
    """What a folder of sentence-transformers says; the mean of others."""
    modules = folder / "modules.json"
    if not modules.is_file():
        return "mean"
    places = {
        module["type"].rpartition(".")[-1]: module["path"]
        for module in _files.read_json(modules)
    }
    unknown = sorted(set(places) - {TRANSFORMER, POOLING, NORMALIZE})
    if unknown or places.get(TRANSFORMER, "") not in ("", "."):
        raise ValueError(
            "A folder of sentence-transformers must hold an encoder, a "
            "pooling, and perhaps a normalisation. Received: "
            f"{folder / 'modules.json'} with {list(places)}"
        )
    config = _files.read_json(folder / places[POOLING] / "config.json")
    found = [
        mode
        for mode, name in zip(
            POOLINGS, ("mean_tokens", "cls_token", "max_tokens")
        )
        if config.get(f"pooling_mode_{name}")
    ]
    if len(found) != 1:
        raise ValueError(
            f"The pooling must be one of {POOLINGS}. Received: {config}"
        )
    return found[0]
