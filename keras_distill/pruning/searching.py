"""A model within a budget: cut, trained, cut again."""

import collections.abc
import functools
import pathlib

import keras

from keras_distill._checks import check_integer
from keras_distill._checks import check_positive
from keras_distill._files import complete_file
from keras_distill._files import content_hash
from keras_distill._files import read_json
from keras_distill._files import write_json
from keras_distill.pruning import budgets
from keras_distill.pruning import costs
from keras_distill.pruning import cutting
from keras_distill.pruning import graph
from keras_distill.pruning import importances


def search(  # noqa: PLR0913 - What is asked for, and how it is got.
    model,
    budget,
    data=None,
    importance=None,
    steps=1,
    train=None,
    folder=None,
    freeze=(),
    least=0.1,
    verbose=1,
):
    """Cuts a model to a budget: what is worth least for its cost goes first.

    In several steps a model loses less: each is cut by what the one before
    has learnt, and trained by `train`, by distillation from `model` as a rule.
    The same arguments give the same cuts; where a latency is measured, nearly.

    Args:
        model: Functional or `Sequential` `keras.Model`; stays as it is.
        budget: Dict from one of these names to the most that the result may
            take, of the first three also a share of the model's, up to 1.

            * `"parameters"`;
            * `"multiplications"`: for one row of data, in dense layers,
              convolutions and whatever else holds matrices; where a length is
              not known, for one position;
            * `"size_bytes"`: of the float32 LiteRT file;
            * `"latency_ms"`: of that file, one thread, one row, on this
              machine. Files are measured until one is within the budget, and
              near it.
        data: As of `importance`. The files are tried on its first rows.
        importance: Dict from names of groups to arrays `[size]`, or a function
            that makes one of the model of each step. Defaults to Taylor's on
            `data`, without data to that by weights.
        steps: Integer, over which the budget falls by the same factor.
        train: Function, called with the model after each cut. Optional.
        folder: Path, where each step leaves its model and its plan, as of
            `cut`: `step-1.keras`, `step-1.json`. The same call goes on there
            (`data` and functions are not compared). Optional.
        freeze: Names of layers whose units stay.
        least: Float in (0, 1], the share of each group that stays.
        verbose: 0 or 1, whether a bar shows the steps.

    Returns:
        `keras.Model`.

    Raises:
        ValueError: An argument is wrong; the budget is below what can be
            reached, which is told; the folder is of another search.

    Example:

    >>> model = keras.Sequential(
    ...     [keras.Input((8,)), keras.layers.Dense(64, name="hidden"),
    ...      keras.layers.Dense(2, name="logits")])
    >>> search(model, {"multiplications": 0.5}, verbose=0).layers[0].units
    32
    """
    kind, asked = costs.check_budget(budget)
    check_integer("steps", steps, minimum=1)
    check_positive("least", least, maximum=1)
    _check_readable(data, kind in costs.MEASURED or steps > 1)
    values_of = _importance(importance, data, freeze, steps)
    cost = costs.of_kind(kind, model, data)
    whole, limit, groups = _limits(model, cost, kind, asked, freeze, least)
    given = importance if isinstance(importance, dict) else {}
    settings = [repr((kind, asked, steps, least, *sorted(freeze), *given))]
    kept = _Kept(folder, [*settings, *given.values()], model)
    progress = keras.utils.Progbar(
        steps, verbose=verbose, stateful_metrics=[kind], unit_name="cut"
    )
    for step in range(1, steps + 1):
        smaller = kept.load(step)
        if smaller is None:
            values = values_of(model)
            share = least ** (step / steps)
            cuts = _Cuts(model, values, cost.counted, freeze, share, groups)
            # Powers are rounded, the budget itself is not.
            most = max(limit, whole * min(1, limit / whole) ** (step / steps))
            count, left = cost.within(cuts, most)
            smaller = cuts.cut(count)
            if train is not None:
                train(smaller)
            kept.save(step, smaller, cuts.plan(count))
            progress.update(step, [(kind, left)])
        model = smaller
    return model


class _Cuts:
    """The cuts of a model, from none to the most, in one order of units.

    `share` of each group stays, of those of the whole model if they are given:
    rounded up in each step, shares of what the step before has left would end
    above the budget.
    """

    def __init__(self, model, values, cost, freeze, share, groups=None):
        self._model, self._freeze = model, freeze
        self._found = graph.structure(model, freeze)
        self.groups = self._found.groups
        whole = (groups or self.groups).items()
        stay = {name: group.count(share) for name, group in whole}
        values = {
            name: cutting.checked_values(group, values)
            for name, group in self.groups.items()
        }
        self._order, self.costs = budgets.removals(
            model, self._found, values, cost, stay
        )

    def __len__(self):
        return len(self.costs)

    def first(self, limit):
        """The count of units that are gone when so much is left, or less."""
        return sum(cost > limit for cost in self.costs)

    def plan(self, count):
        return budgets.kept(self._found, self._order[:count])

    def cut(self, count):
        return cutting.cut(self._model, self.plan(count), self._freeze)


def check_reachable(model, budget, data=None, freeze=(), least=0.1):
    """Raises `ValueError` if `search` could not reach a budget.

    Args:
        model: As of `search`, like all others.
        budget: Dict.
        data: For what is measured.
        freeze: Names of layers.
        least: Float.
    """
    kind, most = costs.check_budget(budget)
    cost = costs.of_kind(kind, model, data)
    _limits(model, cost, kind, most, freeze, least)


def _limits(model, cost, kind, most, freeze, least):
    """What a model takes, the most that it may in the end, its groups."""
    # Units of the same groups cost the same, whichever they are.
    values = importances.importance(model, method="weight", freeze=freeze)
    cuts = _Cuts(model, values, cost.counted, freeze, least)
    whole, reached = cost.of(cuts, 0), cost.of(cuts, len(cuts) - 1)
    most *= whole if costs.is_share(kind, most) else 1
    if reached > most:
        raise ValueError(
            f"`budget` must be what can be reached: {kind} {reached:,.6g} at "
            "least with these groups, their `least` share, and what stays "
            f"frozen. Received: {most:,.6g}"
        )
    return whole, most, cuts.groups


def _importance(importance, data, freeze, steps):
    """A function from a model to the importance of its units."""
    if isinstance(importance, dict):
        if steps > 1:
            raise ValueError(
                "`importance` must be a function from a model to such a dict "
                "for several steps, whose models have fewer units. Received: "
                f"a dict and steps={steps}"
            )
        return lambda _: importance
    if importance is not None:
        return importance
    method = "weight" if data is None else "taylor"
    return functools.partial(
        importances.importance, data=data, method=method, freeze=freeze
    )


def _check_readable(data, again):
    if again and isinstance(data, collections.abc.Iterator):
        raise ValueError(
            "`data` is read more than once, and must be `(x, y)`, a list of "
            "batches or a dataset. Received: an iterator, which is empty after "
            f"once ({type(data).__name__})"
        )


class _Kept:
    """What the steps of a search leave in a folder, if there is one."""

    def __init__(self, folder, settings, model):
        self._folder = folder and pathlib.Path(folder)
        if folder is None:
            return
        made = {"made_with": content_hash([*settings, *model.get_weights()])}
        path = self._folder / "search.json"
        if path.exists() and read_json(path) != made:
            raise ValueError(
                "`folder` must be empty, or of the same search: the model, "
                "its budget, steps, `least`, `freeze` and importance. "
                f"Received: {str(folder)!r}, made with others"
            )
        write_json(path, made)

    def load(self, step):
        path = self._path(step, "keras")
        if path is None or not path.exists():
            return None
        return keras.models.load_model(path)

    def save(self, step, model, plan):
        if self._folder is None:
            return
        write_json(self._path(step, "json"), plan)
        with complete_file(self._path(step, "keras")) as draft:
            model.save(draft)

    def _path(self, step, suffix):
        return self._folder and self._folder / f"step-{step}.{suffix}"
