"""All that is private in Keras, with a public face, in one place.

Nothing else in the package names what is private to Keras, KerasHub or
TensorFlow (`tests/test_private_names.py`); `gkd/decoding/families.py` alone
names the layers inside KerasHub's. The upper bounds in `pyproject.toml` hold
the versions that were tested: when one is raised, this is the file to read.
"""

import contextlib
import warnings

import keras

# A loss that is not of Keras' shape must honour the mask that Keras hangs on
# a tensor, and a match must hang its own on one: Keras has no function for it.
from keras.src.backend import get_keras_mask
from keras.src.backend import set_keras_mask

# A functional model knows its inputs, a subclassed one does not: the class has
# no public name.
from keras.src.models.functional import Functional

# What `compile(loss=...)` makes of strings, lists and dicts of losses, when a
# stage replaces them.
from keras.src.trainers.compile_utils import CompileLoss

SUPPORTED = ("tensorflow", "jax")
OPEN_SIZES = 64, 32, 16, 8, 4, 2, 1

get_mask = get_keras_mask
set_mask = set_keras_mask


def output_spec(function, *arguments):
    """What `function` gives, as `KerasTensor`s, without computing it.

    Args:
        function: Callable.
        *arguments: Nested `KerasTensor`s.
    """
    operation = keras.Operation()
    operation.call = function
    return operation.compute_output_spec(*arguments)


def check_backend():
    """Raises `RuntimeError` on a Keras backend that is not supported."""
    if keras.backend.backend() not in SUPPORTED:
        raise RuntimeError(
            "keras_distill trains on the Keras backends "
            f"{' and '.join(SUPPORTED)}. Received: KERAS_BACKEND="
            f"{keras.backend.backend()}. Set it before importing keras"
        )


def load_model(path):
    """The model in a `.keras` file, not compiled.

    KerasHub compiles its tasks as it builds them, and then warns that the state
    of the file's optimizer does not fit.

    Raises:
        ValueError: It cannot be loaded, or has Python code in it.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Skipping variable loading")
        try:
            return keras.models.load_model(path, compile=False, safe_mode=True)
        except ValueError as error:
            if "safe_mode" not in str(error):
                raise
            raise ValueError(
                "A model in a file may hold no Python code, as a `Lambda` "
                "layer does: whoever made it could run anything here. Use "
                "layers, or classes of your own that are registered with "
                "`keras.saving.register_keras_serializable`. Received: "
                f"{str(path)!r}"
            ) from error


def accelerators():
    """The names of the devices other than processors, as `"gpu:0"`."""
    devices = map(str.lower, keras.distribution.list_devices())
    return [device for device in devices if not device.startswith("cpu")]


def can_infer(specs):
    """Whether `output_spec` works: JAX needs all sizes but the batch's."""
    return keras.backend.backend() != "jax" or all(
        None not in tuple(spec.shape)[1:] for spec in keras.tree.flatten(specs)
    )


def trace(function, inputs):
    """`output_spec` for what `function` does besides, whatever is open.

    A model that leaves sizes open may take a few only, as many positions as
    it counts. Where all must be known, the largest that it takes is tried.

    Args:
        function: Callable.
        inputs: Nested `KerasTensor`s.
    """
    sizes = () if can_infer(inputs) else OPEN_SIZES
    for size in sizes:
        filled = keras.tree.map_structure(
            lambda x, size=size: keras.KerasTensor(
                (None, *(size if n is None else n for n in x.shape[1:])),
                x.dtype,
            ),
            inputs,
        )
        with contextlib.suppress(Exception):
            return output_spec(function, filled)
    return output_spec(function, inputs)


def symbolic_inputs(model):
    """The structure of `KerasTensor` that `model` was built from, or None.

    A subclassed model does not know its own. `Sequential.input` is there only
    once the model was a layer of another; what it was built from is in
    `inputs`.
    """
    if isinstance(model, keras.Sequential):
        return model.inputs[0] if model.built else None
    return model.input if isinstance(model, Functional) else None


def freeze(concrete):
    """A concrete function of TensorFlow with its variables as constants."""
    from tensorflow.python.framework import convert_to_constants as constants

    return constants.convert_variables_to_constants_v2(
        concrete, lower_control_flow=False
    )


def hard_loss(model):
    """The loss of labels and outputs that `compile` made, or None."""
    return model._compile_loss


def replace_hard_loss(model, loss, loss_weights):
    """Puts `loss`, as `compile` takes it, in the place of the compiled one."""
    names = getattr(model, "output_names", None)
    model._compile_loss = (
        None
        if loss is None
        else CompileLoss(loss, loss_weights, output_names=names)
    )


def replace_layers(model, name, layers):
    """Sets the attribute `name`; Keras would go on saving the old layers."""
    model._tracker.unlock()
    for layer in keras.tree.flatten(vars(model)[name]):
        model._tracker.untrack(layer)
    setattr(model, name, layers)
    model._tracker.lock()


def scale_updates(optimizer, multipliers):
    """Makes `optimizer` scale the learning rate of some variables.

    A scaled gradient would not do: Adam divides by its size.

    Args:
        optimizer: `keras.optimizers.Optimizer`, also one wrapped for loss
            scaling.
        multipliers: List of pairs, a variable and a number. With `0` a
            variable is frozen: neither it nor its slots change, nor does it
            decay. Where all are 1 the optimizer is left alone.
    """
    if all(number == 1 for _, number in multipliers):
        return
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        optimizer = optimizer.inner_optimizer
    # On TensorFlow Keras passes on the variable inside its own.
    key = optimizer._var_key
    by_key = {key(variable): number for variable, number in multipliers}
    update_step = type(optimizer).update_step
    decays = type(optimizer)._use_weight_decay

    def scaled_update_step(gradient, variable, learning_rate):
        multiplier = by_key.get(key(variable), 1.0)
        if multiplier:
            learning_rate = learning_rate * multiplier
            update_step(optimizer, gradient, variable, learning_rate)

    def decays_unless_frozen(variable):
        frozen = by_key.get(key(variable), 1.0) == 0
        return not frozen and decays(optimizer, variable)

    optimizer.update_step = scaled_update_step
    optimizer._use_weight_decay = decays_unless_frozen


def variables_of(optimizer):
    """The variables that `optimizer` was built to train."""
    return optimizer._trainable_variables


def producer(tensor):
    """The layer or operation whose output a symbolic tensor is.

    Keras keeps it on the tensor and shows it only in a model's config.
    """
    return tensor._keras_history.operation


def reads_output(model, layer, index):
    """Whether `model` uses output `index` of `layer`, one of its operations.

    A functional model knows its layers but not, in public, which output of
    theirs goes where.

    Args:
        model: Functional `keras.Model`.
        layer: Operation with several outputs.
        index: Integer, of its outputs as they are flattened.
    """
    nodes = graph_nodes(model)
    read = set(map(id, model.outputs))
    read.update(id(x) for node in nodes for x in node.input_tensors)
    return any(
        node.operation is layer and id(node.outputs[index]) in read
        for node in nodes
    )


def graph_nodes(model):
    """The nodes of a functional or Sequential model, in the order they run.

    In public a model tells its operations, not how often each is called.

    Args:
        model: `keras.Model`.

    Returns:
        List of nodes with `operation`, `input_tensors` and `outputs`, without
        those of the model's inputs.
    """
    graph = getattr(model, "_functional", None) or model
    known = {id(x) for x in graph.inputs}
    found = []
    for depth in sorted(graph._nodes_by_depth, reverse=True):
        for node in graph._nodes_by_depth[depth]:
            computable = all(id(x) in known for x in node.input_tensors)
            if node.operation is None or node.is_input or not computable:
                continue
            known.update(id(x) for x in node.outputs)
            found.append(node)
    return found


def read_by(node):
    """The tensors that a node reads; of a model in the order of its inputs.

    Keras takes a dict for inputs that are none, by their names, and a node
    lists the tensors in the dict's order.

    Args:
        node: One of `graph_nodes`.

    Returns:
        List of `KerasTensor`.
    """
    known = symbolic_inputs(node.operation)
    if known is None:
        return node.input_tensors
    arguments = node.arguments
    given = arguments.args[0] if arguments.args else arguments.kwargs["inputs"]
    if isinstance(given, dict) and not isinstance(known, dict):
        given = [given[x.name] for x in keras.tree.flatten(known)]
    return keras.tree.flatten(given)


def nested_layers(model):
    """`model` and all layers in it, at any depth, each once.

    In public only a `keras.Model` lists its layers, a layer does not.
    """
    return list(model._flatten_layers())


def value_layer(attention):
    """The dense layer of a `MultiHeadAttention` that gives what it averages."""
    return attention._value_dense


def seed_states(model):
    """The variables in which the random layers of `model` count their draws."""
    generators = [
        generator
        for layer in nested_layers(model)
        for generator in layer._seed_generators
    ]
    return [generator.state for generator in dict.fromkeys(generators)]


def child_layers(layer):
    """The layers that are attributes of `layer`, not those below them."""
    return layer._flatten_layers(include_self=False, recursive=False)
