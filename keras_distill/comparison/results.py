"""From finished cells to numbers: means, intervals, tests, calibration."""

import dataclasses
import itertools

import numpy as np

from keras_distill._files import read_json
from keras_distill.comparison import statistics
from keras_distill.comparison.descriptions import describe


@dataclasses.dataclass(frozen=True)
class Finished:
    """A finished cell: what it is, its record, its predictions.

    Args:
        cell: `Cell`.
        result: Dict, from its JSON file.
        test_logits: Float array `[rows, classes]`.
    """

    cell: object
    result: dict
    test_logits: np.ndarray

    def right(self, labels):
        """Boolean array `[rows]`, where its test predictions are right."""
        return self.test_logits.argmax(axis=-1) == labels


def of_arms(finished, labels, cost_per_hour=None):
    """One row for each student and arm, in their order.

    Args:
        finished: List of `Finished`, every student and arm with the same
            seeds.
        labels: Integer array, the labels of the test part.
        cost_per_hour: Float, what an hour of training costs, or None.

    Returns:
        List of dicts that JSON can hold.
    """
    rows = []
    for student, group in _grouped(finished, lambda f: f.cell.student_name):
        arms = dict(_grouped(group, lambda f: f.cell.arm.name))
        control = next(
            cells for cells in arms.values() if cells[0].cell.arm.is_control
        )
        for name, cells in arms.items():
            row = _row(cells, labels, cost_per_hour)
            row |= {"student": student, "arm": name}
            if cells is not control:
                row["against_control"] = difference(control, cells, labels)
            rows.append(row)
    return rows


def difference(first, second, labels):
    """How much more often the cells `second` are right than `first`.

    Args:
        first: List of `Finished`, one a seed.
        second: Likewise, the same seeds.
        labels: Integer array.

    Returns:
        Dict: `value`, `low`, `high` (shares of 1), `shown`, `mcnemar`.
    """
    right = []
    for cells in (first, second):
        cells = sorted(cells, key=lambda f: f.cell.seed)
        right.append(np.stack([f.right(labels) for f in cells]))
    return between(*right)


def between(first, second):
    """The difference between two models' predictions.

    Args:
        first: Boolean array `[seeds, examples]`, where the first is right.
        second: Likewise.

    Returns:
        As `difference`.
    """
    found = statistics.paired_bootstrap(first, second)
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "shown": found.is_shown,
        "mcnemar": statistics.mcnemar(first, second),
    }


def left_out(finished):
    """Names of the finished cells beside these in their folder."""
    told = {f.cell.file("json") for f in finished}
    (folder,) = {f.cell.folder for f in finished}
    beside = sorted(set(folder.glob("*.json")) - told)
    return [read_json(path)["cell"] for path in beside]


def best_on_dev(cells):
    """The cell with the highest accuracy on dev; of equals the first."""
    return max(cells, key=lambda f: f.result["dev_accuracy"])


def best_arm_on_dev(cells):
    """The cells of the arm whose mean accuracy on dev is highest."""
    arms = dict(_grouped(cells, lambda f: f.cell.arm.name))
    return max(
        arms.values(),
        key=lambda group: np.mean([f.result["dev_accuracy"] for f in group]),
    )


def _row(cells, labels, cost_per_hour):
    results = [f.result for f in cells]
    cell = cells[0].cell
    arm = cell.arm
    row = {
        "learns_from": describe(arm, cell.student.epochs),
        "is_control": arm.is_control,
        "is_distilled": arm.is_distilled,
        "transfer": arm.transfer,
        "seeds": [f.cell.seed for f in cells],
        "labels": results[0]["labels"],
        "texts": results[0]["texts"],
        "steps": results[0]["steps"],
        "parameters": results[0]["parameters"],
    }
    for name in ("dev_accuracy", "test_accuracy", "ece", "agreement"):
        row[name] = _spread([result[name] for result in results])
    row["seconds"] = _spread([result["seconds"] for result in results])
    if cost_per_hour is not None:
        row["cost"] = row["seconds"]["mean"] / 3600 * cost_per_hour
    row["best_epochs"] = [result["best_epoch"] for result in results]
    row["curves"] = [result["curves"] for result in results]
    # The predictions of all seeds are one sample for the diagram.
    row["reliability"] = statistics.reliability(
        np.concatenate([f.test_logits for f in cells]),
        np.tile(labels, len(cells)),
    )
    return row


def _spread(values):
    mean, sd = statistics.mean_and_sd(values)
    return {"values": list(values), "mean": mean, "sd": sd}


def _grouped(finished, key):
    """Pairs of a key and its list, in the order of first appearance."""
    order = {}
    for item in finished:
        order.setdefault(key(item), []).append(item)
    return list(order.items())


def by_student(finished):
    """Pairs of a student's name and its finished cells."""
    return _grouped(finished, lambda f: f.cell.student_name)


def pareto(points):
    """Which points no other point beats in both directions.

    Args:
        points: Pairs of a cost, where less is better, and a score, where more
            is better.

    Returns:
        List of positions, by rising cost.

    Example:

    >>> pareto([(2, 0.9), (1, 0.8), (3, 0.85), (1, 0.7)])
    [1, 0]
    """
    order = sorted(
        range(len(points)), key=lambda i: (points[i][0], -points[i][1])
    )
    best = itertools.accumulate((points[i][1] for i in order), max)
    front, highest = [], float("-inf")
    for i, top in zip(order, best):
        if points[i][1] == top and top > highest:
            front.append(i)
            highest = top
    return front
