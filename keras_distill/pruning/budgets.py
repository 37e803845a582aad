"""What a model costs while its units go, one after the other."""

import collections
import heapq
import math
import re

import numpy as np

COSTS = ("parameters", "multiplications")
COUNT = {"%": 0.01, None: 1}
BYTES = {"%": 0.01, "kB": 1e3, "MB": 1e6, "GB": 1e9}
# What people call a budget: its name in `search`, and what its units are worth.
TYPED = {
    "parameters": ("parameters", COUNT),
    "multiplications": ("multiplications", COUNT),
    "size": ("size_bytes", BYTES),
    "latency": ("latency_ms", {"ms": 1, "s": 1000}),
}


def parse(text):
    """The budget that a user has typed.

    Args:
        text: String: `"multiplications=50%"`, `"parameters=200000"`,
            `"size=1.5MB"` or `"latency=2ms"`.

    Returns:
        Dict, as `search` takes it.

    Raises:
        ValueError: It is written in another way.

    Example:

    >>> parse("multiplications=50%"), parse("size=300kB")
    ({'multiplications': 0.5}, {'size_bytes': 300000.0})
    """
    name, _, amount = str(text).replace(" ", "").partition("=")
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(%|ms|s|kB|MB|GB)?", amount)
    kind, units = TYPED.get(name, (None, {}))
    if found is None or found[2] not in units or not float(found[1]):
        raise ValueError(
            "A budget must be such as multiplications=50%, parameters=200000, "
            f"size=1.5MB or latency=2ms. Received: {text!r}"
        )
    # Of 70 % 0.7, not what its product in binary is.
    return {kind: round(float(found[1]) * units[found[2]], 9)}


def total(model, found, cost):
    """What a whole model costs.

    Args:
        model: `keras.Model`.
        found: Its `Structure`.
        cost: `"parameters"` or `"multiplications"`, those of one row of data;
            where a length is not known, of one position.
    """
    if cost == "parameters":
        return model.count_params()
    return found.fixed + sum(
        math.prod(w.variable.shape) * w.uses for w in found.weights
    )


def removals(model, found, importance, cost, stay):
    """The order in which units go, and what the model costs after each.

    The next is always the unit that is worth least for what it costs. What a
    unit costs falls while those go that it is multiplied with: what stood in
    the queue is looked at again when its turn comes.

    Args:
        model: `keras.Model`.
        found: Its `Structure`.
        importance: Dict from names of groups to arrays `[size]`, of numbers
            that compare between groups.
        cost: As of `total`.
        stay: Dict from names of groups to how many of its units stay.

    Returns:
        List of units, and a list of one cost more: of the whole model first.
    """
    sizes = _Sizes(found, cost)
    group_of, left, queue = {}, {}, []
    for name, group in found.groups.items():
        left[name] = len(group) - stay[name]
        for unit, value in zip(group.units.tolist(), importance[name]):
            group_of[unit] = name
            saved = sizes.saved(unit)
            if saved:  # What costs nothing, no budget asks for.
                queue.append((value / saved, unit, value))
    heapq.heapify(queue)
    order, costs = [], [total(model, found, cost)]
    while queue:
        ratio, unit, value = heapq.heappop(queue)
        if not left[group_of[unit]]:
            continue
        saved = sizes.saved(unit)
        if value / saved > ratio:
            heapq.heappush(queue, (value / saved, unit, value))
            continue
        sizes.remove(unit)
        left[group_of[unit]] -= 1
        order.append(unit)
        costs.append(costs[-1] - saved)
    return order, costs


def kept(found, gone):
    """The plan, as of `cut`, without some units."""
    return {
        name: np.flatnonzero(~np.isin(group.units, gone)).tolist()
        for name, group in found.groups.items()
    }


class _Sizes:
    """The shapes of all weights while units go."""

    def __init__(self, found, cost):
        self._shapes = [list(w.variable.shape) for w in found.weights]
        self._uses = [
            w.uses if cost == "multiplications" else 1 for w in found.weights
        ]
        self._places = collections.defaultdict(list)
        for i, weight in enumerate(found.weights):
            for axis, units in enumerate(weight.axes):
                roots = () if units is None else found.units.roots(units)
                for unit, count in collections.Counter(roots).items():
                    self._places[int(unit)].append((i, axis, count))

    def _without(self, unit):
        shapes = {}
        for i, axis, count in self._places[unit]:
            shapes.setdefault(i, list(self._shapes[i]))[axis] -= count
        return shapes

    def saved(self, unit):
        return sum(
            self._uses[i] * (math.prod(self._shapes[i]) - math.prod(shape))
            for i, shape in self._without(unit).items()
        )

    def remove(self, unit):
        for i, shape in self._without(unit).items():
            self._shapes[i] = shape
