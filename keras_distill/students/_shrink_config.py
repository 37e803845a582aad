"""The sizes of a shrunk encoder, and the checks on them."""

import pathlib

import keras
import keras_hub
import numpy as np
from keras_hub.models import Backbone

from keras_distill._backend import load_model
from keras_distill._checks import check_choice
from keras_distill._checks import check_integer
from keras_distill._layers import adapted_layer
from keras_distill._layers import backbones
from keras_distill.layer_maps import LAYER_MAPS

# XLM-RoBERTa's class is one of RoBERTa's.
FAMILIES = (
    keras_hub.models.BertBackbone,
    keras_hub.models.RobertaBackbone,
    keras_hub.models.DebertaV3Backbone,
    keras_hub.models.DistilBertBackbone,
    keras_hub.models.AlbertBackbone,
    keras_hub.models.ElectraBackbone,
    keras_hub.models.RoformerV2Backbone,
)
# What two encoders have alike that can copy each other's layers.
SAME = (
    "class",
    "vocabulary_size",
    "hidden_dim",
    "intermediate_dim",
    "num_heads",
    "num_groups",
    "num_segments",
    "max_sequence_length",
)
# The small BERT of the literature: width, then heads and inner width.
STANDARD_SIZES = {312: (12, 1200)}


def family_names():
    """The classes of encoders that can be shrunk, for messages."""
    return ", ".join(family.__name__ for family in FAMILIES)


def checked_encoder(teacher, name="teacher"):
    """The encoder to shrink, which `teacher` is or is built around.

    Args:
        teacher: `keras.Model`, or what is none.
        name: String, the argument, for messages.

    Raises:
        ValueError: If there is none that can be shrunk, or `teacher` cannot
            be rebuilt around another.
    """
    found = backbones(teacher, "transformer_layers")
    backbone = found[0][1] if len(found) == 1 else None
    rebuildable = (
        teacher is backbone
        or isinstance(teacher, keras_hub.models.Task)
        # Of Keras' models those alone are cloned that know their graph.
        or isinstance(teacher, keras.Function)
        and any(operation is backbone for operation in teacher.operations)
    )
    if not rebuildable or not isinstance(backbone, FAMILIES):
        raise ValueError(
            f"`{name}` must be a KerasHub encoder ({family_names()}), a "
            "KerasHub task with one of them, or a functional model with one of "
            "them among its layers. For another model, pass its backbone and "
            "build the head around the result. "
            f"Received: {name}={teacher} ({type(teacher).__name__})"
        )
    check_plain_weights(backbone, name)
    return backbone


def check_plain_weights(backbone, name="teacher"):
    """Raises `ValueError` if weights are quantized or have LoRA beside them."""
    layer = adapted_layer(backbone)
    if layer is not None:
        raise ValueError(
            f"`{name}` must hold plain weights: shrink it before it is "
            "quantized or given LoRA weights. Received: a teacher with "
            f"such weights in layer {layer.path}"
        )


def check_is_model(name, path):
    """Raises `ValueError` unless a model can be read there.

    Args:
        name: String, the argument.
        path: String: a `.keras` file, or the name or folder of a preset.
    """
    place = pathlib.Path(path)
    if place.suffix == ".keras":
        found = place.is_file()
    elif place.is_dir():
        found = (place / "config.json").is_file()
    else:
        found = "://" in path or path in Backbone.presets
    if not found:
        raise ValueError(
            f"`{name}` must be a .keras file that exists, a folder of a "
            "KerasHub preset or a Hugging Face model, or the name of a preset "
            f"of keras.io/keras_hub/presets. Received: {name}={path!r}"
        )


def encoder_like(small, path):
    """The encoder in a file, which has what a smaller one copies.

    Args:
        small: Backbone.
        path: String, as `check_is_model` has it.

    Raises:
        ValueError: There is none, or it is of another class, vocabulary or
            width, or has fewer layers.
    """
    read = load_model if path.endswith(".keras") else Backbone.from_preset
    source = checked_encoder(read(path), "copy_from")
    wanted, found = ({"class": type(one).__name__} for one in (small, source))
    wanted |= small.get_config()
    found |= source.get_config()
    other = [key for key in SAME if wanted.get(key) != found.get(key)]
    if other or source.num_layers < small.num_layers:
        raise ValueError(
            "`copy_from` must have an encoder of the teacher's class and "
            "sizes, with at least the student's layers. Expected: "
            f"{_sizes(wanted, other)}. Received: {_sizes(found, other)}"
        )
    return source


def _sizes(config, other):
    return {key: config.get(key) for key in [*other, "num_layers"]}


def shrunk_config(
    backbone, num_layers, hidden_dim, intermediate_dim, num_heads
):
    """The student backbone's config: the teacher's, with smaller sizes."""
    config = backbone.get_config()
    check_num_layers(num_layers, config)
    if hidden_dim is None:
        hidden_dim = config["hidden_dim"]
    _check_hidden_dim(hidden_dim, config)
    heads, inner = _default_sizes(hidden_dim, config)
    num_heads = heads if num_heads is None else num_heads
    intermediate_dim = inner if intermediate_dim is None else intermediate_dim
    check_integer("intermediate_dim", intermediate_dim, minimum=1)
    _check_num_heads(num_heads, hidden_dim, config)
    config.update(
        num_layers=num_layers,
        hidden_dim=hidden_dim,
        intermediate_dim=intermediate_dim,
        num_heads=num_heads,
        trainable=True,
    )
    if "head_size" in config:  # Others derive it themselves.
        config["head_size"] = hidden_dim // num_heads
    del config["name"]
    return config


def complete_layer_map(layer_map, backbone, config):
    """The teacher's layer for each of the student's, counted from 1.

    Args:
        layer_map: List of pairs `(teacher_state, student_state)`, or the name
            of one of `LAYER_MAPS`, or `None` for `"even"`.
        backbone: The teacher's backbone.
        config: The student's config.

    Returns:
        Dict from the student's layer to the teacher's.
    """
    layer_map = "even" if layer_map is None else layer_map
    if isinstance(layer_map, str):
        check_choice("layer_map", layer_map, LAYER_MAPS)
        layer_map = LAYER_MAPS[layer_map](
            backbone.num_layers, config["num_layers"]
        )
    else:
        layer_map = list(layer_map)
        _check_layer_map_applies(layer_map, backbone, config)
        _check_layer_map(layer_map, backbone.num_layers, config["num_layers"])
    return {student: teacher for teacher, student in layer_map if student}


def _check_layer_map(layer_map, teacher_layers, student_layers):
    pairs = [tuple(np.atleast_1d(pair)) for pair in layer_map]
    layers = [pair for pair in pairs if pair != (0, 0)]
    if (
        any(len(pair) != 2 for pair in layers)
        or any(pair[0] not in range(1, teacher_layers + 1) for pair in layers)
        or sorted(k for _, k in layers) != list(range(1, student_layers + 1))
    ):
        raise ValueError(
            "`layer_map` must hold one pair `(teacher_layer, student_layer)` "
            f"for each of the student's layers 1 to {student_layers}, with "
            f"teacher layers from 1 to {teacher_layers}; `(0, 0)`, the "
            "embeddings, may be among them. "
            f"Received: layer_map={layer_map}"
        )


def _check_layer_map_applies(layer_map, backbone, config):
    if config.get("num_groups"):
        raise ValueError(
            "`layer_map` must be left out for ALBERT, whose layers share their "
            "weights: each group of the student copies the teacher's group. "
            f"Received: layer_map={layer_map}"
        )
    if config["hidden_dim"] != backbone.hidden_dim:
        raise ValueError(
            "`layer_map` must be left out where `hidden_dim` differs from the "
            "teacher's: no layer can be copied. Received: "
            f"hidden_dim={config['hidden_dim']}, teacher's "
            f"hidden_dim={backbone.hidden_dim}"
        )


def check_num_layers(num_layers, config):
    """Raises `ValueError` unless the teacher has that many layers to give."""
    check_integer("num_layers", num_layers, minimum=1)
    if num_layers > config["num_layers"]:
        raise ValueError(
            "`num_layers` must be at most the teacher's, "
            f"{config['num_layers']}. Received: num_layers={num_layers}"
        )
    groups = config.get("num_groups", 1)
    if num_layers % groups:
        raise ValueError(
            "`num_layers` must be divisible by the teacher's `num_groups`, "
            f"{groups}. Received: num_layers={num_layers}"
        )


def _check_hidden_dim(hidden_dim, config):
    check_integer("hidden_dim", hidden_dim, minimum=1)
    if hidden_dim > config["hidden_dim"]:
        raise ValueError(
            "`hidden_dim` must be at most the teacher's, "
            f"{config['hidden_dim']}. Received: hidden_dim={hidden_dim}"
        )


def _check_num_heads(num_heads, hidden_dim, config):
    if num_heads is None:
        raise ValueError(
            "`num_heads` must be given: neither the teacher's "
            f"{config['num_heads']} heads nor heads of its size, "
            f"{config['hidden_dim'] // config['num_heads']}, divide "
            f"`hidden_dim`. Received: hidden_dim={hidden_dim}, num_heads=None"
        )
    check_integer("num_heads", num_heads, minimum=1)
    if hidden_dim % num_heads:
        raise ValueError(
            "`hidden_dim` must be divisible by `num_heads`. "
            f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}"
        )


def _default_sizes(hidden_dim, config):
    """The number of heads (`None` if there is no rule) and the inner width."""
    teacher_dim, teacher_heads = config["hidden_dim"], config["num_heads"]
    if hidden_dim in STANDARD_SIZES and hidden_dim != teacher_dim:
        return STANDARD_SIZES[hidden_dim]
    inner = round(config["intermediate_dim"] * hidden_dim / teacher_dim)
    head_dim = teacher_dim // teacher_heads
    if hidden_dim % teacher_heads == 0:
        heads = teacher_heads
    elif hidden_dim % head_dim == 0:
        heads = hidden_dim // head_dim
    else:
        heads = None
    return heads, max(1, inner)
