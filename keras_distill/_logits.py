"""What a model says before an activation makes probabilities of it."""

import keras
import numpy as np
from keras import ops

from keras_distill._backend import graph_nodes
from keras_distill._backend import symbolic_inputs

# The activations that make probabilities of logits over what.
OF_UNITS = {"classes": "softmax", "labels": "sigmoid"}
PROBABILITIES = tuple(OF_UNITS.values())
CLOSE = 1e-2


def last_activation(operation):
    """`"softmax"`, `"sigmoid"`, or `""` for one that ends in neither.

    Args:
        operation: Layer, or operation of `keras.ops` in a model's graph.
    """
    own = getattr(operation, "activation", None)
    name = getattr(own, "__name__", type(operation).__name__.lower())
    return name if name in PROBABILITIES else ""


def logits_of(model, over, num_outputs):
    """A classifier as a model of logits, itself where it is one.

    Most classifiers in Keras' own examples end in a softmax, or of two classes
    in one unit with a sigmoid, whose logit `z` stands for the two `[0, z]`:
    `softmax([0, z]) = [1 - sigmoid(z), sigmoid(z)]`.

    Args:
        model: `keras.Model`. Of a subclassed one nothing is known.
        over: String, `"classes"`, `"labels"` or `"anything"`, as losses on
            logits have it.
        num_outputs: Integer, how many logits there should be.

    Returns:
        `keras.Model`; a new one shares all layers but the last.

    Example:

    >>> x = keras.Input((3,))
    >>> y = keras.layers.Dense(1, activation="sigmoid")(x)
    >>> logits_of(keras.Model(x, y), "classes", 2).output_shape
    (None, 2)
    """
    inputs = symbolic_inputs(model)
    if over not in OF_UNITS or inputs is None or len(model.outputs) != 1:
        return model
    is_one_unit = (
        over == "classes"
        and num_outputs == 2
        and tuple(model.outputs[0].shape[1:]) == (1,)
    )
    activation = "sigmoid" if is_one_unit else OF_UNITS[over]
    logits = _before(model, activation)
    if is_one_unit:
        logits = ops.concatenate([ops.zeros_like(logits), logits], axis=-1)
    if logits is model.outputs[0]:
        return model
    return keras.Model(inputs, logits, name=model.name)


def are_probabilities(outputs, over):
    """Whether outputs are probabilities of classes: logits do not sum to 1.

    Args:
        outputs: Array `[rows, ..., classes]`.
        over: As in `logits_of`.
    """
    outputs = ops.convert_to_numpy(outputs)
    if over != "classes" or outputs.size == 0 or outputs.min() < 0:
        return False
    # As exact as a softmax in half precision is.
    return bool(np.abs(outputs.sum(axis=-1) - 1).max() < CLOSE)


def _before(model, activation):
    """The tensor that the activation at a model's end is applied to."""
    (output,) = model.outputs
    node = next(
        node
        for node in graph_nodes(model)
        if any(made is output for made in node.outputs)
    )
    last = node.operation
    if isinstance(last, keras.Model) and symbolic_inputs(last) is not None:
        logits = _before(last, activation)
        if logits is last.outputs[0]:
            return output
        inner = keras.Model(symbolic_inputs(last), logits, name=last.name)
        return inner(*node.arguments.args, **node.arguments.kwargs)
    if last_activation(last) != activation:
        return output
    (read,) = node.input_tensors
    if not getattr(last, "weights", ()):
        return read
    plain = type(last).from_config({**last.get_config(), "activation": None})
    logits = plain(read)
    plain.set_weights(last.get_weights())
    return logits
