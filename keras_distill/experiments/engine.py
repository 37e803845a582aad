"""Cells in, finished cells out: one engine for every kind of experiment."""

import contextlib
import dataclasses
import gc
from collections.abc import Callable

import numpy as np

from keras_distill._checks import check_integer
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill._watcher import Watcher
from keras_distill.experiments import floor
from keras_distill.experiments import weakness
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import LARGEST_SEED
from keras_distill.experiments.cells import Cell
from keras_distill.experiments.run_folder import RunFolder
from keras_distill.quantization.aware import plain_student
from keras_distill.recipes.base import slug


@dataclasses.dataclass(frozen=True)
class Finished:
    """A finished cell: what it is, its result, its predictions.

    Args:
        cell: `Cell`.
        result: Dict, from its record; with `failed` there are no predictions.
        statistics: Array `[rows, ...]`, `Task.statistics` of test.
        of_means: `Task.of_means`.
        reliability: `Task.reliability` of test, or None.
    """

    cell: Cell
    result: dict
    statistics: np.ndarray | None = None
    of_means: Callable | None = None
    reliability: dict | None = None

    @property
    def failed(self):
        """Why its student is of no use, or None."""
        return self.result.get("failed")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run has found.

    Args:
        finished: List of `Finished`, in the order of their cells.
        floors: Dict from `"linear"`, on the labels that the students see, and
            `"linear_all_labels"`, where they see a part, to `floor.Floor`.
            Empty where the task has no linear model.
        weak_teacher: String, why the teacher is not worth imitating, or None.
        skipped: List of the `Cell` that were not trained therefore.
    """

    finished: list
    floors: dict = dataclasses.field(default_factory=dict)
    weak_teacher: str | None = None
    skipped: list = dataclasses.field(default_factory=list)


def run(
    cells,
    task,
    teacher,
    folder,
    watcher=None,
    redo=False,
    keep_weak_teacher=True,
    grid=None,
):
    """Trains the cells that are not finished, the controls first.

    Args:
        cells: List of `Cell`.
        task: `Task`.
        teacher: `Teacher`.
        folder: `RunFolder`.
        watcher: `Watcher`, or None.
        redo: Boolean. Trains cells anew that were made with other options,
            instead of refusing them.
        keep_weak_teacher: Boolean. Whether a teacher is imitated that is worse
            on dev than the linear model or than a student's control.
        grid: `Grid` that trains the cells, or None: this process does.

    Returns:
        `Outcome`.

    Raises:
        UsageError: A cell cannot be, or was made with other options.
    """
    watcher = watcher or Watcher()
    check(cells, task, teacher.model)
    cells = [cell.for_task(task) for cell in cells]
    bench = Bench(task, teacher)
    phases = {
        cell.name: bench.phase(cell, folder.path, watcher) for cell in cells
    }
    # Models are cycles; without this many of them pile up.
    bench.forget()
    gc.collect()
    seeds = list(dict.fromkeys(cell.seed for cell in cells))
    ways = floor.ways(cells, seeds)
    texts = bench.hashes["texts"]
    floor_phases = floor.phases(task, folder.path, ways, texts)
    folder.check([*floor_phases, *phases.values()], redo)

    def execute(chosen, first=()):
        if grid is not None:
            grid.train(chosen, phases, folder, redo, watcher)
        asked = [*first, *(phases[cell.name] for cell in chosen)]
        folder.execute(asked, watcher, redo)

    controls = [cell for cell in cells if cell.recipe.is_control]
    execute(controls, floor_phases)
    floors = floor.restore(task, folder, ways)
    finished = {c.name: _finished(c, task, folder) for c in controls}
    weak = weakness.of(task, teacher, floors, list(finished.values()))
    others = [cell for cell in cells if cell.name not in finished]
    if weak:
        watcher.line(f"weak teacher: {weak.told}")
    told = weak and weak.told
    if weak and weak.ends and not keep_weak_teacher:
        return Outcome(list(finished.values()), floors, told, others)
    execute(others)
    finished |= {c.name: _finished(c, task, folder) for c in others}
    return Outcome([finished[cell.name] for cell in cells], floors, told)


def _finished(cell, task, folder):
    result = folder.result(cell.name)
    if "failed" in result:
        return Finished(cell, result)
    logits = cell.predictions(folder.path)
    return Finished(
        cell,
        result,
        task.statistics(logits, "test"),
        task.of_means,
        task.reliability(logits, "test"),
    )


def as_seeds(seeds):
    """A tuple of seeds: a count, or the seeds themselves.

    Raises:
        ValueError: They are no such thing, or not different.

    Example:

    >>> as_seeds(3), as_seeds([7, 5])
    ((0, 1, 2), (7, 5))
    """
    if isinstance(seeds, int):
        check_integer("seeds", seeds, 1, 10_000)
        return tuple(range(seeds))
    seeds = tuple(seeds)
    for seed in seeds:
        check_integer("seeds", seed, 0, LARGEST_SEED)
    if not seeds or len(set(seeds)) < len(seeds):
        raise ValueError(
            "`seeds` must be a count, or a list of different integers. "
            f"Received: seeds={seeds}"
        )
    return seeds


def check_names(kind, names):
    """Raises `ValueError` unless names make different file names."""
    if not names or len({slug(name) for name in names}) < len(names):
        raise ValueError(
            f"`{kind}` must have different names, at least one, that differ "
            f"in more than punctuation. Received: {kind} {list(names)}"
        )


def check(cells, task, model):
    """Raises `UsageError` for cells that cannot be, before anything is trained.

    Args:
        cells: List of `Cell`.
        task: `Task`.
        model: The teacher's `keras.Model`, fine-tuned or not; None where only
            its logits are known.
    """
    built = {}
    for cell in cells:
        with as_usage_error(ValueError):
            cell.recipe.check_student(cell.student)
        _check_recipe(cell, task, model)
        name, recipe = cell.student_name, cell.recipe
        advice = f"See {cell.student.own_options()}."
        with as_usage_error(ValueError, advice=advice):
            if name not in built:
                built[name] = cell.student.made(task, model)
        if recipe.matches is not None:
            with as_usage_error(ValueError):
                recipe.matches(cell.student, model, plain_student(built[name]))


def _check_recipe(cell, task, model):
    recipe = cell.recipe
    if recipe.transfer and not task.has_transfer(cell.labels):
        raise UsageError(
            f"The arm {cell.arm!r} needs text without labels: `--transfer "
            "augment:20`, `--unlabelled FILE`, train rows without a label, or "
            f"fewer `--labels`. Received: labels={cell.labels}, no such text"
        )
    needs_model = recipe.needs_model(task) or recipe.signals is not None
    if needs_model and model is None:
        raise UsageError(
            f"The arm {cell.arm!r} has `matches`, or rows that are augmented "
            "in each step, and needs the teacher itself: pass the model, not "
            "its logits alone. Received: teacher=None"
        )


@contextlib.contextmanager
def opened(output, command, inputs=()):
    """The `RunFolder` at a path, closed at the end; an open one stays open."""
    if isinstance(output, RunFolder):
        yield output
        return
    with RunFolder(output, command, inputs) as folder:
        yield folder
