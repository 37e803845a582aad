"""A smaller model: layers with fewer units, their weights sliced."""

import math
import warnings

import keras
import keras_hub
import numpy as np

from keras_distill._backend import nested_layers
from keras_distill._checks import check_between
from keras_distill.pruning import graph
from keras_distill.pruning.copies import KERAS_HUB
from keras_distill.pruning.copies import Copy
from keras_distill.pruning.importances import by_weights

FEWEST_WITH_STRIDES = 16


def prune(model, keep=0.5, importance=None, freeze=()):
    """Cuts units out of a model.

    Of each group the most important units stay, and at least one. The result
    is really smaller: plain Keras layers with fewer units and the weights that
    are left. `model` stays as it is. What is lost comes back by distillation
    from `model`, or by training.

    Args:
        model: Functional or `Sequential` `keras.Model`.
        keep: Float in (0, 1], the share of each group's units that stay, or a
            dict from names of groups to such; other groups stay whole.
        importance: Dict from names of groups to arrays `[size]`, as of
            `importance`. Defaults to the size of the weights.
        freeze: Names of layers whose units stay.

    Returns:
        `keras.Model` with the same inputs and outputs.

    Raises:
        ValueError: The model has no graph, or nothing that can be cut; a
            share, a group, or an importance is wrong.

    Example:

    >>> model = keras.Sequential(
    ...     [keras.Input((8,)), keras.layers.Dense(6, name="hidden"),
    ...      keras.layers.Dense(2, name="logits")])
    >>> smaller = prune(model, keep=0.5)
    >>> smaller.layers[0].units, smaller.count_params()
    (3, 35)
    """
    found = graph.structure(model, freeze)
    shares = _shares(found, keep)
    if importance is None:
        importance = by_weights(found)
    kept = {
        name: _best(group, shares.get(name, 1.0), importance)
        for name, group in found.groups.items()
    }
    return _without_others(model, found, kept)


def cut(model, kept, freeze=()):
    """Keeps the units that a plan names.

    Args:
        model: As of `prune`.
        kept: Dict from names of groups to the positions of the units that
            stay; other groups stay whole. JSON can hold it.
        freeze: As of `prune`.

    Returns:
        As `prune`.

    Raises:
        ValueError: There is no such group, or a position is not in it.

    Example:

    >>> model = keras.Sequential(
    ...     [keras.Input((8,)), keras.layers.Dense(6, name="hidden"),
    ...      keras.layers.Dense(2, name="logits")])
    >>> cut(model, {"hidden": [0, 5]}).layers[0].units
    2
    """
    found = graph.structure(model, freeze)
    _check_names(found, kept)
    return _without_others(model, found, kept)


def _without_others(model, found, kept):
    """The copy of a model with the units of a plan."""
    gone = set()
    for name, positions in kept.items():
        group = found.groups[name]
        positions = np.unique(np.asarray(positions, int))
        if not len(positions) or not 0 <= positions[0] <= positions[-1] < len(
            group
        ):
            raise ValueError(
                f"At least one unit of a group must stay, and {name!r} has "
                f"those from 0 to {len(group) - 1}. Received: "
                f"{positions[:8].tolist()}"
            )
        gone |= set(np.delete(group.units, positions).tolist())

    def stays(units):
        return ~np.isin(found.units.roots(units), list(gone))

    smaller = _Cut(found, stays).of(model)
    _warn_of_strides(smaller)
    return smaller


def _warn_of_strides(model):
    """Tells what TensorFlow cannot train, and dies of.

    Seen with 2.21 on processors with AVX-512: the gradient of such a layer, by
    oneDNN, writes past its memory.
    """
    if keras.backend.backend() != "tensorflow":
        return
    names = [
        layer.name
        for layer in nested_layers(model)
        if isinstance(layer, keras.layers.Conv2D)
        and math.prod(layer.kernel_size) == 1
        and math.prod(layer.strides) > 1
        and layer.kernel.shape[-2] < FEWEST_WITH_STRIDES
    ]
    if names:
        warnings.warn(
            f"Training with {names[:3]}, strided convolutions of one pixel "
            f"that now read fewer than {FEWEST_WITH_STRIDES} channels, can end "
            "in a crash of TensorFlow on a CPU: freeze what they read, or set "
            "TF_ENABLE_ONEDNN_OPTS=0",
            stacklevel=3,
        )


class _Cut(Copy):
    """A model of the same layers with the units that stay."""

    def __init__(self, found, stays):
        super().__init__()
        self._found, self._stays = found, stays
        self._weights = {id(w.variable): w for w in found.weights}
        self._as_one = {}

    def stays(self, model):
        if id(model) not in self._as_one:
            self._as_one[id(model)] = self._made_as_one(model)
        return self._as_one[id(model)] is not None

    def _made_as_one(self, model):
        """KerasHub's model by a configuration of its own, or None."""
        settings = self._settings(model)
        if settings is None:
            return None
        copy = super().changed(model, model.get_config() | settings)
        # Layers of the same setting that are not understood keep their width.
        expected = [self._shape(weight) for weight in model.weights]
        return copy if expected == [w.shape for w in copy.weights] else None

    def _shape(self, variable):
        weight = self._weights.get(id(variable))
        if weight is None:
            return variable.shape
        return tuple(
            size if units is None else int(self._stays(units).sum())
            for size, units in zip(variable.shape, weight.axes)
        )

    def _settings(self, model):
        """What a cut changes in the configuration of KerasHub's model.

        None where that cannot say it: layers of several widths, or a width
        that no setting tells. A task has none itself, but a backbone.
        """
        is_task = isinstance(model, keras_hub.models.Task)
        config = (model.backbone if is_task else model).get_config()
        widths = {}
        for layer in nested_layers(model):
            for name, size in self._sizes(layer).items():
                before = size(lambda units: np.ones(len(units), bool))
                widths.setdefault(name, set()).add((before, size(self._stays)))
        found = {}
        for name, pairs in widths.items():
            if all(before == after for before, after in pairs):
                continue
            (before, found[name]), *others = pairs
            if others or config.get(name) != before:
                return None
        return {} if is_task else found

    def changed(self, layer, config):
        if isinstance(layer, KERAS_HUB) and self.stays(layer):
            return self._as_one[id(layer)]
        sizes = self._sizes(layer).items()
        sizes = {name: size(self._stays) for name, size in sizes}
        return super().changed(layer, config | sizes)

    def _sizes(self, layer):
        reading = self._found.readings.get(id(layer))
        return {} if reading is None else reading.sizes

    def enters(self, model):
        weights = (self._weights.get(id(v)) for v in model.weights)
        return any(
            not self._stays(units).all()
            for weight in weights
            if weight is not None
            for units in weight.axes
            if units is not None
        )

    def inputs_of(self, model):
        """Inputs of a model in a model, without the channels that go."""
        found = []
        for x in model.inputs:
            units = self._found.inputs[id(x)]
            shape = (*x.shape[:-1], int(self._stays(units).sum()))
            shape = shape if len(units) else x.shape
            found.append(
                keras.Input(batch_shape=shape, dtype=x.dtype, name=x.name)
            )
        return keras.tree.pack_sequence_as(model.input, found)

    def value(self, old, new):
        value = super().value(old, new)
        weight = self._weights.get(id(old))
        axes = () if weight is None else weight.axes
        for axis, units in enumerate(axes):
            if units is not None:
                value = np.compress(self._stays(units), value, axis)
        return value


def _shares(found, keep):
    if not found.groups:
        raise ValueError(
            "`model` must have units that can be cut. Received: a model in "
            f"which all stay:\n{found}"
        )
    if not isinstance(keep, dict):
        keep = dict.fromkeys(found.groups, keep)
    _check_names(found, keep)
    for name, share in keep.items():
        check_between(f"keep[{name!r}]", share, 0, 1)
        if share == 0:
            raise ValueError("`keep` must be above 0. Received: 0")
    return keep


def _check_names(found, names):
    missing = [name for name in names if name not in found.groups]
    if missing:
        raise ValueError(
            f"There is no group {missing[0]!r}. There are {list(found.groups)}"
        )


def _best(group, share, importance):
    count = group.count(share)
    if count == len(group):
        return list(range(count))
    order = np.argsort(-checked_values(group, importance), kind="stable")
    return sorted(order[:count].tolist())


def checked_values(group, importance):
    """The importance of a group's units, float64 `[size]`."""
    if not isinstance(importance, dict):
        raise ValueError(
            "`importance` must be a dict from groups to arrays, as "
            "`kd.pruning.importance(model, data, method=...)` gives it. "
            f"Received: {importance!r}"
        )
    if group.name not in importance:
        raise ValueError(
            "`importance` must hold an array for each group. Received: none "
            f"for {group.name!r}"
        )
    values = np.asarray(importance[group.name], "float64")
    if values.shape != (len(group),) or not np.isfinite(values).all():
        raise ValueError(
            f"`importance[{group.name!r}]` must hold {len(group)} finite "
            f"numbers. Received: an array of shape {values.shape}"
        )
    return values
