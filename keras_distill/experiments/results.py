"""From finished cells to numbers: means, intervals, tests, calibration."""

import itertools

import numpy as np

from keras_distill.experiments import significance
from keras_distill.experiments.cells import CONTROL
from keras_distill.experiments.cells import REFERENCE
from keras_distill.experiments.cells import TRIAL
from keras_distill.tasks import measures


def of_arms(finished, further=(), cost_per_hour=None):
    """One row for each student and arm, in their order.

    Args:
        finished: List of `Finished`, every student and arm with the same
            seeds.
        further: Names of the task's further scores.
        cost_per_hour: Float, what an hour of training costs, or None.

    Returns:
        List of dicts that JSON can hold.
    """
    rows = []
    for student, group in by_student(finished):
        arms = dict(by_arm(group))
        control = control_of(group)
        for name, cells in arms.items():
            row = {"student": student, "arm": name}
            row |= _row(cells, further, cost_per_hour)
            if not row["is_control"] and paired(control, cells):
                row["against_control"] = difference(control, cells)
            rows.append(row)
    return rows


def control_of(cells):
    """The cells that the others of a student are compared with."""
    return [f for f in cells if f.cell.role == CONTROL]


def whole(cells):
    """The cells that did not fail."""
    return [f for f in cells if not f.failed]


def paired(first, second):
    """Pairs of cells of the same seed, of which neither failed."""
    theirs = {f.cell.seed: f for f in whole(second)}
    return [
        (f, theirs[f.cell.seed])
        for f in sorted(whole(first), key=lambda f: f.cell.seed)
        if f.cell.seed in theirs
    ]


def difference(first, second):
    """How much better the cells `second` are than `first`.

    Args:
        first: List of `Finished`, one a seed.
        second: Likewise, of which at least one seed is the same.

    Returns:
        Dict: `value`, `low`, `high` (shares of 1), `shown`, `mcnemar`.
    """
    pairs = paired(first, second)
    return between(
        *(np.stack([f.statistics for f in side]) for side in zip(*pairs)),
        pairs[0][0].of_means,
    )


def between(first, second, of_means=None):
    """The difference between two models' predictions.

    Args:
        first: Array `[seeds, examples, ...]`, `Task.statistics` of each seed.
        second: Likewise.
        of_means: `Task.of_means`.

    Returns:
        As `difference`; `mcnemar` is None where predictions are not simply
        right or wrong.
    """
    found = significance.paired_bootstrap(first, second, of_means)
    countable = of_means is None and all(
        map(significance.is_right_or_wrong, (first, second))
    )
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "shown": found.is_shown,
        "mcnemar": significance.mcnemar(first, second) if countable else None,
    }


def left_out(finished, folder):
    """Titles of the finished cells beside these in their folder.

    Trials, which choose how the others are trained, are none of them.
    """
    told = {f.cell.name for f in finished}
    return [
        record["title"]
        for name, record in folder.records().items()
        if name not in told
        and "recipe" in record["options"]
        and not name.startswith(TRIAL)
    ]


def against_floor(floor, cells):
    """How much better cells are than the linear model.

    Args:
        floor: `floor.Floor`.
        cells: List of `Finished` of one arm, not all of them failed.

    Returns:
        As `difference`.
    """
    sound = whole(cells)
    return between(
        np.stack([floor.statistics_of(f.cell.seed) for f in sound]),
        np.stack([f.statistics for f in sound]),
        sound[0].of_means,
    )


def best_on_dev(cells):
    """The cell with the highest score on dev; of equals the first."""
    return max(whole(cells), key=lambda f: f.result["dev_score"])


def best_arm_on_dev(cells):
    """The cells of the arm whose mean score on dev is highest, or None.

    References, which see more labels than the others, are left out.
    """
    asked = [f for f in cells if f.cell.role != REFERENCE]
    arms = [whole(group) for _, group in by_arm(asked) if whole(group)]
    if not arms:
        return None
    return max(
        arms,
        key=lambda group: np.mean([f.result["dev_score"] for f in group]),
    )


def to_ship(cells):
    """The `Cell` that is best on dev, of the best arm; None if all failed."""
    best = best_arm_on_dev(cells)
    return None if best is None else best_on_dev(best).cell


def _row(cells, further, cost_per_hour):
    cell, results = cells[0].cell, [f.result for f in cells]
    row = {
        "learns_from": cell.learns_from,
        "role": cell.role,
        "is_control": cell.role == CONTROL,
        "is_distilled": cell.recipe.is_distilled,
        "transfer": cell.recipe.transfer,
        "seeds": [f.cell.seed for f in cells],
        "failed": {str(f.cell.seed): f.failed for f in cells if f.failed},
    }
    for name in ("labels", "texts", "steps", "parameters"):
        row[name] = results[0][name]
    row["seconds"] = spread([result["seconds"] for result in results])
    if cost_per_hour is not None:
        row["cost"] = row["seconds"]["mean"] / 3600 * cost_per_hour
    sound = whole(cells)
    for name in ("dev_score", "test_score", "ece", "agreement"):
        values = [f.result[name] for f in sound]
        row[name] = spread([value for value in values if value is not None])
    for name in further:
        row[name] = spread([f.result[name] for f in sound])
    row["parameters_by_seed"] = [result["parameters"] for result in results]
    row["best_epochs"] = [result["best_epoch"] for result in results]
    row["linear_parts"] = [result.get("linear_part") for result in results]
    row["curves"] = [f.result["curves"] for f in sound]
    row["details"] = [f.result["details"] for f in sound]
    diagrams = [f.reliability for f in sound if f.reliability]
    if diagrams:
        # The predictions of all seeds are one sample for the diagram.
        row["reliability"] = measures.pooled(diagrams)
    return row


def spread(values):
    """Values with mean and standard deviation; None where there are none."""
    mean, sd = significance.mean_and_sd(values) if values else (None, None)
    return {"values": list(values), "mean": mean, "sd": sd}


def _grouped(finished, key):
    """Pairs of a key and its list, in the order of first appearance."""
    order = {}
    for item in finished:
        order.setdefault(key(item), []).append(item)
    return list(order.items())


def by_arm(cells):
    """Pairs of an arm's name and its finished cells."""
    return _grouped(cells, lambda f: f.cell.arm)


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
