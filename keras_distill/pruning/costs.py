"""What a model and its cuts take: counted, or measured on LiteRT files."""

import pathlib
import tempfile

from keras_distill._checks import check_choice
from keras_distill._checks import check_positive
from keras_distill.pruning import budgets
from keras_distill.pruning import graph
from keras_distill.pruning import importances

# What only a file tells, and what it is predicted from.
MEASURED = {"size_bytes": "parameters", "latency_ms": "multiplications"}
NEAR = 0.97  # Of a measured budget: more is not worth another file.
TRIES = 8
ROWS = 8  # What a file is tried on.
ROUNDS = 3  # Of a latency the least: what else runs makes it longer.


def check_budget(budget):
    """The name and the number of a budget.

    Raises:
        ValueError: It is none.
    """
    kinds = [*budgets.COSTS, *MEASURED]
    if not isinstance(budget, dict) or len(budget) != 1:
        raise ValueError(
            f"`budget` must be a dict of one of {kinds} and the most that it "
            f"may be. Received: {budget!r}"
        )
    ((kind, most),) = budget.items()
    check_choice("budget", kind, kinds)
    check_positive(f"budget[{kind!r}]", most)
    return kind, most


def is_share(kind, most):
    """Whether the number of a budget is a share of the model's."""
    return most <= 1 and kind != "latency_ms"


def cost(model, kind, data=None):
    """What a model takes, as a budget counts it.

    Args:
        model: `keras.Model`.
        kind: A name of a budget of `search`.
        data: As of `search`, for what is measured.

    Returns:
        Integer, or float of milliseconds.
    """
    if kind in MEASURED:
        return _of_file(model, kind, _examples(model, data))
    return budgets.total(model, graph.structure(model), kind)


def _of_file(model, kind, examples):
    # Files need TensorFlow, which nothing else here does.
    from keras_distill.export import litert
    from keras_distill.export import measure_latency

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.tflite")
        # What it predicts is asked when the model is exported, not here.
        report = litert(model, path, examples=examples, min_agreement=0)
        if kind == "size_bytes":
            return report.size_bytes
        return min(measure_latency(path, examples) for _ in range(ROUNDS))


def of_kind(kind, model, data=None):
    """What tells the cost of cuts: `Counted` or `Measured`."""
    if kind in MEASURED:
        return Measured(kind, model, data)
    return Counted(kind)


class Counted:
    """What is known of a cut without making it."""

    def __init__(self, kind):
        self.counted = kind

    def of(self, cuts, count):
        return cuts.costs[count]

    def within(self, cuts, limit):
        """The first cut that costs no more, else the last; what it costs."""
        count = min(cuts.first(limit), len(cuts) - 1)
        return count, cuts.costs[count]


class Measured:
    """What the LiteRT file of a cut tells: its bytes, or milliseconds."""

    def __init__(self, kind, model, data):
        self._kind, self.counted = kind, MEASURED[kind]
        self._examples = _examples(model, data)
        self._known = {}

    def of(self, cuts, count):
        # Files of the same widths differ in nothing that is measured here.
        widths = [len(kept) for kept in cuts.plan(count).values()]
        key = cuts.costs[count], *widths
        if key not in self._known:
            self._known[key] = _of_file(
                cuts.cut(count), self._kind, self._examples
            )
        return self._known[key]

    def within(self, cuts, limit):
        """As of `Counted`: counts predict which cuts are worth a file."""
        low, high = 0, len(cuts) - 1
        much, little = self.of(cuts, low), self.of(cuts, high)
        if much <= limit or low == high:
            return low, much
        for _ in range(TRIES):
            if little >= NEAR * limit or high - low < 2:
                break
            share = (much - (1 + NEAR) / 2 * limit) / (much - little)
            span = cuts.costs[high] - cuts.costs[low]
            count = cuts.first(cuts.costs[low] + share * span)
            count = min(max(count, low + 1), high - 1)
            found = self.of(cuts, count)
            if found > limit:
                low, much = count, found
            else:
                high, little = count, found
        return high, little


def _examples(model, data):
    if data is None:
        raise ValueError(
            "A budget that is measured needs `data`, whose first rows the "
            "file is tried on. Received: data=None"
        )
    from keras_distill.export.inputs import read_inputs

    x, _ = next(importances.batches_of(data, ROWS))
    return read_inputs(model, x).arrays(x)
