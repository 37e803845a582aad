"""What layers do with the channels of what they read, one rule a kind.

A rule is called with the layer, the units, and the `Channels` of what the layer
reads. It says which units the layer's outputs have, which units each axis of
its weights belongs to, and which of its settings count units. A layer without
a rule, or a case that its rule does not know, raises `NotUnderstood`: all that
it reads and gives then stays as it is.
"""

import dataclasses
import math

import keras
import numpy as np

from keras_distill._layers import adapted_layer

# Functions of one value at a time: of a unit without weights they make the
# same for every text, or image, and of others nothing changes.
ELEMENTWISE = {
    *("linear", "relu", "relu6", "leaky_relu", "elu", "selu", "celu", "gelu"),
    *("silu", "swish", "mish", "tanh", "sigmoid", "hard_sigmoid", "hard_silu"),
    *("hard_swish", "hard_tanh", "softplus", "softsign", "exponential"),
    # KerasHub's own name for one of Keras'.
    "gelu_approximate",
    *("squareplus", "tanh_shrink", "soft_shrink", "hard_shrink", "threshold"),
}


class NotUnderstood(Exception):
    """A layer, or an option of it, that no rule knows."""


@dataclasses.dataclass(frozen=True)
class Weight:
    """A variable of a layer.

    Args:
        variable: `keras.Variable`.
        axes: Tuple, for each axis the units of its positions, an integer
            array, or None for an axis of something else.
        uses: Integer, how many multiplications each value takes for one row
            of data: at how many places it is used.
        reads: Integer, the axis of the units that are read, of a kernel that
            makes others of them; None of other weights.
    """

    variable: keras.Variable
    axes: tuple
    uses: int = 0
    reads: int | None = None


@dataclasses.dataclass(frozen=True)
class Reading:
    """What a rule says.

    Args:
        outputs: Integer array, the units of the output's last axis.
        weights: Tuple of `Weight`.
        sizes: Dict from settings of the layer, as in its config, to a function
            from the kept shares of units: `sizes["units"](kept)`, where `kept`
            gives the boolean mask for an array of units.
    """

    outputs: np.ndarray
    weights: tuple = ()
    sizes: dict = dataclasses.field(default_factory=dict)


_RULES = {}


def rule(*kinds):
    """Registers a rule for kinds of layers, not for their subclasses.

    Args:
        *kinds: Classes; or strings, of an operation's class, or `"keras_hub."`
            and the name of a class that KerasHub gives no public place.
    """

    def register(function):
        _RULES.update(dict.fromkeys(kinds, function))
        return function

    return register


def key_of(operation):
    """What rules are known by: a layer's class, or a name, as of `rule`."""
    kind = type(operation)
    if not isinstance(operation, keras.Layer):
        return kind.__name__
    if kind not in _RULES and kind.__module__.startswith("keras_hub."):
        return f"keras_hub.{kind.__name__}"
    return kind


def read(layer, units, inputs):
    """What the rule for a layer says.

    Args:
        layer: `keras.Layer` or another operation of a graph.
        units: `Units`.
        inputs: List of `Channels`.

    Returns:
        `Reading`.

    Raises:
        NotUnderstood: There is no rule, or the case is not known.
    """
    key = key_of(layer)
    if key not in _RULES:
        raise NotUnderstood(f"no rule for {type(layer).__name__}")
    if isinstance(layer, keras.Layer):
        _check_weights(layer)
    return _RULES[key](layer, units, inputs)


def _check_weights(layer):
    """Raises `NotUnderstood` unless all weights, also inside, are its own."""
    adapted = adapted_layer(layer)
    if adapted is None:
        return
    where = "" if adapted is layer else f"{adapted.name}: "
    if adapted.quantization_mode:
        raise NotUnderstood(f"{where}quantised weights")
    raise NotUnderstood(f"{where}LoRA: merge it first")


def one_of(inputs):
    """The only input of a layer."""
    if len(inputs) != 1:
        raise NotUnderstood(f"{len(inputs)} inputs")
    return inputs[0]


def counted(units):
    """A setting that is the number of these units."""
    return lambda kept: int(kept(units).sum())


def check_activation(layer):
    """Raises `NotUnderstood` for an activation that is not elementwise."""
    activation = getattr(layer, "activation", None)
    name = getattr(activation, "__name__", None)
    if activation is not None and name not in ELEMENTWISE:
        raise NotUnderstood(f"the activation {name!r} sees all units at once")


def places_of(shape):
    """How many positions a tensor has beside its rows and its channels."""
    return math.prod(size or 1 for size in shape[1:-1])


def with_bias(layer, weights, out):
    """The weights and, where the layer has one, the bias of its outputs."""
    if getattr(layer, "use_bias", False):
        weights = (*weights, Weight(layer.bias, (out,)))
    return weights
