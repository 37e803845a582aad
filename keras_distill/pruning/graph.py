"""The units of a model, found by walking its graph."""

import dataclasses
import math
import numbers

import keras
import keras_hub
import numpy as np

from keras_distill._backend import graph_nodes
from keras_distill._backend import nested_layers
from keras_distill._backend import read_by
from keras_distill._backend import symbolic_inputs
from keras_distill.pruning import rules
from keras_distill.pruning.names import names_of_layers
from keras_distill.pruning.units import Channels
from keras_distill.pruning.units import Units

INPUT, OUTPUT = "an input of the model", "an output of the model"
TABLES = keras.layers.Embedding, keras_hub.layers.PositionEmbedding
# Of no unit, as it is the same for all.
NUMBER = Channels((), np.empty(0, int), "float32")


@dataclasses.dataclass(frozen=True)
class Group:
    """Units of one kind, of which some may go.

    Args:
        name: String, the layers that make them, with `+` between those that
            are added to each other.
        units: Integer array `[size]`.
        weights: Integer array `[size]`, the weights that go with each.
        multiplications: Integer array `[size]`, for one row of data; where a
            length is not known, for one position.
    """

    name: str
    units: np.ndarray
    weights: np.ndarray
    multiplications: np.ndarray

    def __len__(self):
        return len(self.units)

    def count(self, share):
        """How many units a share of them is, at least one."""
        return max(1, math.ceil(share * len(self) - 1e-9))


@dataclasses.dataclass(frozen=True)
class Structure:
    """What can be cut of a model.

    `str` of it is a table.

    Args:
        groups: Dict from names to `Group`, as they come in the model.
        frozen: Dict from the names of what stays to the reason why.
        readings: Dict from layers, by `id`, to their `rules.Reading`.
        inputs: Dict from the inputs of all models in the model, by `id`, to
            the units of their last axis.
        units: `Units`.
        fixed: Integer, the multiplications of layers that are left alone.
    """

    groups: dict
    frozen: dict
    readings: dict
    inputs: dict
    units: Units
    fixed: int

    @property
    def weights(self):
        """The `rules.Weight` of all layers, each variable once."""
        return [w for found in self.readings.values() for w in found.weights]

    def __str__(self):
        head = "group", "units", "weights a unit", "multiplications a unit"
        rows = [
            (
                group.name,
                str(len(group)),
                f"{group.weights.mean():,.0f}",
                f"{group.multiplications.mean():,.0f}",
            )
            for group in self.groups.values()
        ]
        widths = [max(map(len, column)) for column in zip(head, *rows)]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths))
            )
            for row in (head, *rows)
        ]
        stays = [f"{name} stays: {why}" for name, why in self.frozen.items()]
        return "\n".join([*lines, *stays])


def structure(model, freeze=()):
    """Finds which units of a model can be cut, and what goes with each.

    The channels of a tensor are units. What is added to or multiplied with
    each other has the same ones; layers that read them hold weights for each.
    A layer that is not understood keeps all that it reads and gives, as the
    model's inputs and outputs do: the result says which and why.

    Args:
        model: Functional or `Sequential` `keras.Model`, at any nesting.
        freeze: Names of layers whose units stay, those inside them, too: heads
            and inner widths. Of layers of one name all, or one by the models
            around it, as in the name of its group: `"encoder/hidden"`.

    Returns:
        `Structure`.

    Raises:
        ValueError: The model has no graph, or no layer of a name.

    Example:

    >>> model = keras.Sequential(
    ...     [keras.Input((8,)), keras.layers.Dense(4, name="hidden"),
    ...      keras.layers.Dense(2, name="logits")])
    >>> found = structure(model)
    >>> {name: len(group) for name, group in found.groups.items()}
    {'hidden': 4}
    >>> found.groups["hidden"].weights.tolist()  # 8 inputs, a bias, 2 outputs.
    [11, 11, 11, 11]
    """
    check_graph(model)
    walk = _Walk(model)
    inputs = [_new_channels(walk.units, x, x.name) for x in model.inputs]
    for x in inputs:
        walk.units.freeze(x.units, INPUT)
    outputs = walk.through(model, inputs)
    for x in outputs:
        walk.units.freeze(x.units, OUTPUT)
    missing = sorted(set(freeze) - set(walk.made))
    if missing:
        raise ValueError(
            f"`freeze` must name layers that make units. Received: {missing}; "
            f"there are {sorted(walk.made)}"
        )
    for name in freeze:
        for layer, outputs in walk.made[name].items():
            for units in (outputs, *walk.units.parts(layer)):
                walk.units.freeze(units, "it is to be left")
    return _structure(walk)


def check_graph(model):
    """Raises `ValueError` for a model whose graph is not known."""
    if not is_graph(model):
        raise ValueError(
            "`model` must be a functional or Sequential keras.Model that is "
            "built: the units of another model are not known. Build it of "
            "`keras.Input` and layers, or cut the functional models in it. "
            f"Received: {type(model).__name__}"
        )


def is_graph(operation):
    """Whether a layer is a model of layers, whose graph is known."""
    return symbolic_inputs(operation) is not None


def _new_channels(units, tensor, maker):
    shape = tuple(tensor.shape)
    count = (shape[-1] if shape else None) or 0
    return Channels(shape, units.new(count, maker), tensor.dtype)


class _Walk:
    """What is found out while the layers of a graph are visited."""

    def __init__(self, model):
        self.names = names_of_layers(model)
        self.units = Units(self.names)
        self.readings = {}
        self.made = {}
        self.inputs = {}
        self.fixed = 0

    def through(self, model, inputs):
        """The `Channels` of a model's outputs, given those of its inputs."""
        known = {id(x): found for x, found in zip(model.inputs, inputs)}
        for key, found in known.items():
            # A model that is called twice reads the same units in both places.
            before = self.inputs.setdefault(key, found.units)
            self.units.join(before, found.units)
        for node in graph_nodes(model):
            read = [
                known[id(x)] if isinstance(x, keras.KerasTensor) else NUMBER
                for x in _operands(node)
            ]
            given = self._at(node, read)
            known |= {id(x): out for x, out in zip(node.outputs, given)}
        return [known[id(x)] for x in model.outputs]

    def _at(self, node, inputs):
        operation = node.operation
        if is_graph(operation):
            return self.through(operation, inputs)
        try:
            if len(node.outputs) != 1:
                raise rules.NotUnderstood("several outputs")
            found = rules.read(operation, self.units, inputs)
        except rules.NotUnderstood as error:
            return self._left_alone(node, inputs, str(error))
        self._add(operation, found)
        (made,) = node.outputs
        return [Channels(tuple(made.shape), found.outputs, made.dtype)]

    def _left_alone(self, node, inputs, why):
        why = f"{node.operation.name}: {why}"
        outputs = [
            _new_channels(self.units, x, node.operation.name)
            for x in node.outputs
        ]
        for x in (*inputs, *outputs):
            self.units.freeze(x.units, why)
        places = max(rules.places_of(x.shape) for x in (*inputs, *outputs))
        self.fixed += places * sum(
            math.prod(matrix.shape) for matrix in _matrices(node.operation)
        )
        return outputs

    def _add(self, layer, found):
        """Joins what a layer says now with what it said at another place."""
        before = self.readings.setdefault(id(layer), found)
        for name in (layer.name, self.names[id(layer)]):
            self.made.setdefault(name, {}).setdefault(id(layer), found.outputs)
        if before is found:
            return
        for old, new in zip(before.weights, found.weights):
            for a, b in zip(old.axes, new.axes):
                if a is not None:
                    self.units.join(a, b)
        uses = tuple(
            dataclasses.replace(old, uses=old.uses + new.uses)
            for old, new in zip(before.weights, found.weights)
        )
        self.readings[id(layer)] = dataclasses.replace(before, weights=uses)


def _operands(node):
    """The tensors that a node reads, and numbers, which are no arrays."""
    tensors = read_by(node)
    if isinstance(node.operation, keras.Layer):
        return tensors
    found = [
        value
        for value in keras.tree.flatten(node.arguments.args)
        if isinstance(value, (keras.KerasTensor, numbers.Number))
        or math.prod(getattr(value, "shape", (0,))) == 1
    ]
    held = {id(value) for value in found}
    return found if all(id(x) in held for x in tensors) else tensors


def _matrices(operation):
    """Weights that are multiplied with what is read, not looked up."""
    if not isinstance(operation, keras.Layer):
        return []
    tables = {
        id(table)
        for layer in nested_layers(operation)
        if isinstance(layer, TABLES)
        for table in layer.weights
    }
    return [
        variable
        for variable in operation.weights
        if len(variable.shape) > 1 and id(variable) not in tables
    ]


def _structure(walk):
    units = walk.units
    makers = units.makers()
    weights = [w for found in walk.readings.values() for w in found.weights]
    costs = {root: [0, 0] for root in makers}
    for weight in weights:
        for axis, held in enumerate(weight.axes):
            if held is None:
                continue
            others = (
                weight.variable.shape[:axis] + weight.variable.shape[axis + 1 :]
            )
            count = int(np.prod(others))
            for root in units.roots(held):
                costs[root][0] += count
                costs[root][1] += count * weight.uses
    members, frozen = {}, {}
    for root, names in makers.items():
        why = units.why_frozen(root)
        if why is None:
            members.setdefault(names, []).append(root)
        else:
            frozen["+".join(names)] = why
    groups = {}
    for names, roots in members.items():
        name = "+".join(names)
        roots = np.array(roots)
        held = np.array([costs[root] for root in roots])
        groups[name] = Group(name, roots, held[:, 0], held[:, 1])
    return Structure(
        groups, frozen, walk.readings, walk.inputs, units, walk.fixed
    )
