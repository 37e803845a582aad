"""Taps: places inside a model whose values a match reads."""

import dataclasses
import difflib

import keras

from keras_distill._backend import child_layers
from keras_distill._backend import nested_layers
from keras_distill._checks import check_choice
from keras_distill._layers import backbones
from keras_distill._layers import sublayers

KINDS = ("output", "input", "attention", "attention_scores")
VECTORS = ("query", "key", "value")
EMBEDDING_OUTPUTS = (
    "embeddings_projection",
    "embeddings_dropout",
    "embeddings_layer_norm",
    "token_embedding",
)


@dataclasses.dataclass(frozen=True)
class Tap:
    """A reference to what one layer computes.

    Args:
        layer: `keras.layers.Layer`, at any nesting depth of the model.
        path: String, where the layer sits, for messages and files.
        call_index: Integer. Which call of a layer that the model calls several
            times in a pass, as ALBERT does. Defaults to `0`.
        kind: `"output"` for the layer's output; `"input"` for what it reads,
            its first argument; of a
            `keras.layers.MultiHeadAttention` also `"attention"` for the
            attention probabilities `[batch, heads, length, length]`, and
            `"attention_scores"` for scores whose softmax they are.
    """

    layer: keras.layers.Layer
    path: str
    call_index: int = 0
    kind: str = "output"

    def __post_init__(self):
        check_choice("kind", self.kind, KINDS)

    def __str__(self):
        call = f"@{self.call_index}" if self.call_index else ""
        kind = "" if self.kind == "output" else f":{self.kind}"
        return f"{self.path}{call}{kind}"


def position(models, tap):
    """Where a tap is, whatever the layers are called, whose names count up.

    Args:
        models: List of `keras.Model`, in one of which it is.
        tap: `Tap`.

    Returns:
        List that JSON can hold: the layer's number, call and kind.
    """
    layers = [id(layer) for model in models for layer in nested_layers(model)]
    return [layers.index(id(tap.layer)), tap.call_index, tap.kind]


def backbone_of(model):
    """The KerasHub backbone in `model`, as `(path, backbone)`.

    Args:
        model: A KerasHub backbone, a KerasHub task, or a model that holds
            exactly one backbone at any depth.

    Raises:
        ValueError: if there is no backbone, or more than one.
    """
    found = backbones(model, "transformer_layers")
    if len(found) != 1:
        raise ValueError(
            "Expected a KerasHub backbone, a task or a model around one "
            "backbone. For other models, pass the layers themselves or their "
            f"paths to `Match`. Received: model={model.name!r} with "
            f"{len(found)} backbones"
        )
    return found[0]


def encoder_layers(model):
    """`(tap, ...)` of the transformer layers, in the order of their calls."""
    prefix, backbone = backbone_of(model)
    layers = backbone.transformer_layers
    repeats = 1
    if layers and isinstance(layers[0], (list, tuple)):  # ALBERT's groups.
        repeats = backbone.num_layers // len(layers)
    calls = []
    for group in layers:
        group = list(group) if isinstance(group, (list, tuple)) else [group]
        for index in range(repeats):
            calls += [
                Tap(layer, f"{prefix}/{layer.name}".strip("/"), index)
                for layer in group
            ]
    return calls


def hidden_states(model):
    """Taps of all hidden states of a KerasHub encoder.

    Args:
        model: A KerasHub backbone or task, or a model around one backbone.

    Returns:
        List of `num_layers + 1` taps: the embeddings' output, then each
        transformer layer's output, `[batch, length, hidden_dim]` each.

    Raises:
        ValueError: if the model holds no backbone, or several.

    Example:

    >>> import keras_hub
    >>> backbone = keras_hub.models.BertBackbone(
    ...     vocabulary_size=9, num_layers=2, num_heads=1, hidden_dim=4,
    ...     intermediate_dim=8, max_sequence_length=8)
    >>> [str(tap) for tap in hidden_states(backbone)]
    ['embeddings_dropout', 'transformer_layer_0', 'transformer_layer_1']
    """
    prefix, backbone = backbone_of(model)
    layers = {layer.name: layer for layer in backbone.layers}
    embeddings = next(
        (layers[name] for name in EMBEDDING_OUTPUTS if name in layers), None
    )
    if embeddings is None:
        raise ValueError(
            "Expected a backbone with one of the layers "
            f"{', '.join(EMBEDDING_OUTPUTS)}. Received: "
            f"{type(backbone).__name__}"
        )
    first = Tap(embeddings, f"{prefix}/{embeddings.name}".strip("/"))
    return [first, *encoder_layers(model)]


def attention_maps(model, scores=False):
    """Taps of all self-attention maps of a KerasHub encoder.

    Args:
        model: A KerasHub backbone or task, or a model around one backbone.
        scores: Boolean. True for scores instead of probabilities, as
            `kd.losses.AttentionCE` wants them: at least 0, and their softmax
            is the probabilities.

    Returns:
        List of `num_layers` taps, `[batch, heads, length, length]` each:
        probabilities over the keys, before dropout, or their scores.

    Raises:
        ValueError: if the transformer layers have no self-attention layer.
    """
    kind = "attention_scores" if scores else "attention"
    return [
        Tap(attention, path, index, kind)
        for attention, path, index in _attention_layers(model)
    ]


def attention_vectors(model, of):
    """Taps of the queries, keys or values of all self-attention layers.

    `kd.losses.MiniLMRelation` compares them.

    Args:
        model: A KerasHub backbone or task, or a model around one backbone.
        of: `"query"`, `"key"` or `"value"`.

    Returns:
        List of `num_layers` taps, `[batch, length, heads, width]` each.

    Raises:
        ValueError: if `of` is unknown or the transformer layers have no
            self-attention layer.

    Example:

    >>> import keras_hub
    >>> backbone = keras_hub.models.BertBackbone(
    ...     vocabulary_size=9, num_layers=1, num_heads=1, hidden_dim=4,
    ...     intermediate_dim=8, max_sequence_length=8)
    >>> [str(tap) for tap in attention_vectors(backbone, "value")]
    ['transformer_layer_0/self_attention_layer/value']

    Reference:
        Wang et al., 2021, https://arxiv.org/abs/2012.15828, section 3.1.
    """
    check_choice("of", of, VECTORS)
    taps = []
    for attention, path, index in _attention_layers(model):
        vectors = {
            "query": attention.query_dense,
            "key": attention.key_dense,
            "value": attention.value_dense,
        }
        layer = vectors[of]
        taps.append(Tap(layer, f"{path}/{layer.name}", index))
    return taps


def _attention_layers(model):
    """Yields `(layer, path, call_index)` of each self-attention layer."""
    for tap in encoder_layers(model):
        found = [
            layer
            for layer in child_layers(tap.layer)
            if isinstance(layer, keras.layers.MultiHeadAttention)
        ]
        if len(found) != 1:
            raise ValueError(
                "Expected transformer layers with one "
                "`keras.layers.MultiHeadAttention`. Received: "
                f"{type(tap.layer).__name__} at {tap.path!r}"
            )
        (attention,) = found
        yield attention, f"{tap.path}/{attention.name}", tap.call_index


def resolve(model, reference):
    """Turns what a user may write into a `Tap` of `model`.

    Args:
        model: `keras.Model`.
        reference: A `Tap`, a layer, a name or `/`-separated path, or an
            integer index into `hidden_states(model)`.

    Raises:
        ValueError: if `model` has no such layer, or several.
    """
    if isinstance(reference, bool) or not isinstance(
        reference, (Tap, keras.layers.Layer, str, int)
    ):
        raise ValueError(
            "A layer must be a `Tap`, a `keras.layers.Layer`, a path or an "
            f"index into `hidden_states(model)`. Received: {reference!r}"
        )
    if isinstance(reference, int):
        states = hidden_states(model)
        if not -len(states) <= reference < len(states):
            raise ValueError(
                f"{model.name!r} has hidden states 0 to {len(states) - 1}. "
                f"Received: {reference}"
            )
        return states[reference]
    if isinstance(reference, str):
        return _resolve_path(model, reference)
    layer = reference.layer if isinstance(reference, Tap) else reference
    for path, candidate in sublayers(model):
        if candidate is layer:
            if isinstance(reference, Tap):
                return dataclasses.replace(reference, path=path)
            return Tap(layer, path)
    raise ValueError(
        f"Layer {layer.name!r} is not a part of model {model.name!r}. "
        "Pass a layer of this model, or its path"
    )


def _resolve_path(model, text):
    path, _, kind = text.partition(":")
    path, _, index = path.partition("@")
    layers = dict(sublayers(model))
    matching = {
        id(layer): (known, layer)
        for known, layer in layers.items()
        if known == path or known.endswith(f"/{path}")
    }
    exact = layers.get(path)
    if exact is not None:
        matching = {id(exact): (path, exact)}
    if len(matching) == 1 and (index or "0").isdigit():
        known, layer = next(iter(matching.values()))
        return Tap(layer, known, int(index or 0), kind or "output")
    if len(matching) > 1:
        paths = sorted(known for known, _ in matching.values())
        raise ValueError(
            f"{text!r} is ambiguous in model {model.name!r}: it may be "
            f"{', '.join(paths)}. Pass the longer path"
        )
    close = difflib.get_close_matches(path, layers, n=3, cutoff=0.3)
    raise ValueError(
        f"Model {model.name!r} has no layer {text!r}. Did you mean "
        f"{', '.join(map(repr, close)) or 'one of ' + repr(list(layers)[:8])}?"
    )
