"""Units: what is cut as one, however many axes of weights it appears on."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class Channels:
    """A tensor of a model, its last axis told by units.

    Args:
        shape: Tuple, the tensor's, with None for what is not known.
        units: Integer array `[shape[-1]]`, one unit for each channel.
        dtype: String.
    """

    shape: tuple
    units: np.ndarray
    dtype: str


class Units:
    """All units of a model, those that must go together being one.

    Adding two tensors makes one unit of the two channels at each position:
    neither can go without the other. (Disjoint sets with path halving.)

    Args:
        names: Dict from layers, by `id`, to names for their own.

    Example:

    >>> units = Units()
    >>> a, b = units.new(2, "a"), units.new(2, "b")
    >>> units.join(a, b)
    >>> units.roots(a).tolist() == units.roots(b).tolist()
    True
    """

    def __init__(self, names=()):
        self._names = dict(names)
        self._parents = []
        self._makers = []
        self._frozen = {}
        self._of_layers = {}

    def __len__(self):
        return len(self._parents)

    def of_layer(self, layer, count, part=None):
        """The units that a layer makes: the same ones whenever it is called.

        Args:
            layer: `keras.Layer`.
            count: Integer.
            part: String, of units inside it that nobody else reads.
        """
        key = id(layer), part
        if key not in self._of_layers:
            name = self._names.get(id(layer), layer.name)
            maker = name if part is None else f"{name}/{part}"
            self._of_layers[key] = self.new(count, maker)
        return self._of_layers[key]

    def parts(self, layer):
        """The units inside a layer, which it does not give.

        Args:
            layer: Integer, the layer's `id`.

        Returns:
            List of integer arrays.
        """
        return [
            units
            for (of, part), units in self._of_layers.items()
            if of == layer and part is not None
        ]

    def new(self, count, maker):
        """So many new units.

        Args:
            count: Integer.
            maker: String, the layer whose outputs they are.

        Returns:
            Integer array `[count]`.
        """
        first = len(self._parents)
        self._parents.extend(range(first, first + count))
        self._makers.extend([maker] * count)
        return np.arange(first, first + count)

    def join(self, first, second):
        """Makes one unit of the two at each position of two arrays."""
        for a, b in zip(self.roots(first), self.roots(second)):
            a, b = self._root(a), self._root(b)
            low, high = min(a, b), max(a, b)
            self._parents[high] = low
            if high in self._frozen:
                self._frozen.setdefault(low, self._frozen[high])

    def freeze(self, units, why):
        """Makes units stay.

        Args:
            units: Integer array.
            why: String, in words.
        """
        for root in self.roots(units):
            self._frozen.setdefault(root, why)

    def why_frozen(self, root):
        """The reason why a unit stays, or None."""
        return self._frozen.get(root)

    def roots(self, units):
        """The one unit that each has become, integer array."""
        return np.array([self._root(unit) for unit in units], int)

    def _root(self, unit):
        parents = self._parents
        while parents[unit] != unit:
            parents[unit] = parents[parents[unit]]
            unit = parents[unit]
        return int(unit)

    def makers(self):
        """Dict from each unit to the layers that make it, a tuple of names."""
        found = {}
        for unit, maker in enumerate(self._makers):
            held = found.setdefault(self._root(unit), {})
            held[maker] = None
        return {root: tuple(held) for root, held in found.items()}
