"""The floor: a linear model on the same labels, which students must beat."""

import dataclasses
import functools
import time

import numpy as np

from keras_distill import data
from keras_distill.experiments import teaching
from keras_distill.experiments.cells import CELLS
from keras_distill.experiments.cells import PREDICTIONS
from keras_distill.experiments.cells import read_predictions
from keras_distill.experiments.cells import write_predictions
from keras_distill.experiments.phases import Phase

LINEAR, ALL_LABELS = "linear", "linear_all_labels"


@dataclasses.dataclass(frozen=True)
class Floor:
    """What a linear model reaches.

    Args:
        results: List of dicts, one a seed; a single one where all labels are
            seen, as nothing is drawn then.
        statistics: Array `[seeds, rows, ...]`, `Task.statistics` of test.
        seeds: List of integers, the seeds of `results`; empty for a single
            one.
    """

    results: list
    statistics: np.ndarray
    seeds: list

    def scores(self, name):
        """List of the values of a result."""
        return [result[name] for result in self.results]

    def mean(self, name):
        """Float, the mean of a result."""
        return float(np.mean(self.scores(name)))

    def statistics_of(self, seed):
        """Array `[rows, ...]`: of the model that saw a seed's labels."""
        return self.statistics[self.seeds.index(seed) if self.seeds else 0]


def ways(cells, seeds):
    """Which linear models belong to cells.

    Args:
        cells: List of `Cell`.
        seeds: List of integers.

    Returns:
        Dict from `"linear"` and, where students see a part of the labels,
        `"linear_all_labels"` to lists of pairs of labels and seed.
    """
    labels = cells[0].labels
    everything = [(None, None)]
    if labels is None:
        return {LINEAR: everything}
    return {LINEAR: [(labels, s) for s in seeds], ALL_LABELS: everything}


def phases(task, folder, ways, texts):
    """A `Phase` for each of `ways`.

    Args:
        task: `Task`.
        folder: Path of the run's folder.
        ways: What `ways` gave.
        texts: String, the hash of the task's texts.
    """
    return [
        Phase(
            name=_name(labels, seed),
            title="linear: a linear model on the same labels, the floor",
            options={
                "labels": labels,
                "seed": seed,
                "measure": task.measure,
                "texts": texts,
            },
            run=functools.partial(_fit, task, folder, labels, seed),
            summary=_summary,
            files=functools.partial(_files_of, _name(labels, seed)),
        )
        for pairs in ways.values()
        for labels, seed in pairs
    ]


def restore(task, folder, ways):
    """What `phases` left in a `RunFolder`: dict from names to `Floor`."""
    found = {}
    for name, pairs in ways.items():
        names = [_name(labels, seed) for labels, seed in pairs]
        results = [folder.result(each) for each in names]
        if any("missing" in result for result in results):
            continue
        logits = [read_predictions(folder.path / _file(n)) for n in names]
        statistics = [task.statistics(each, "test") for each in logits]
        seeds = [seed for _, seed in pairs if seed is not None]
        found[name] = Floor(results, np.stack(statistics), seeds)
    return found


def _name(labels, seed):
    return ALL_LABELS if labels is None else f"{LINEAR}_seed_{seed}"


def _file(name):
    return CELLS / name / PREDICTIONS


def _files_of(name, result):
    return () if "missing" in result else (_file(name),)


def _fit(task, folder, labels, seed):
    begin = time.perf_counter()
    seen = task.labels(labels, seed)
    model = task.linear_model(seen)
    if model is None:
        return {"missing": "no linear model for this task"}
    write_predictions(folder / _file(_name(labels, seed)), model.logits)
    return {
        "labels": int(data.has_label(seen).sum()),
        **task.scores(model.logits),
        **task.further_scores(model.logits),
        **model.facts,
        "seconds": round(time.perf_counter() - begin, 2),
    }


def _summary(found):
    if "missing" in found:
        return found["missing"]
    return f"{teaching.scores(found)}, {found['features']}"
