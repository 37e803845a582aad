"""The rows of a report that no student is in: teacher, linear model."""

from keras_distill.experiments.exports import size
from keras_distill.experiments.report.numbers import count
from keras_distill.experiments.report.numbers import further
from keras_distill.experiments.report.numbers import percent
from keras_distill.experiments.report.numbers import share


def teacher_row(teacher, names):
    """The teacher's row of the table.

    Args:
        teacher: Dict, its entry in the report.
        names: Dict from the further scores to their titles and meanings.
    """
    weights = teacher["parameters"]
    cells = [
        "teacher",
        "",
        share(teacher["test_score"]),
        "",
        "",
        share(teacher["dev_score"]),
        share(teacher["ece"]),
        *[""] * 2,
        *(
            further(title, {"mean": teacher[name], "sd": None})
            for name, (title, _) in names.items()
        ),
        "",
        "" if weights is None else f"{weights:,}",
        *measured(teacher["file"]),
    ]
    return {"cells": cells, "kind": "teacher", "judged": False}


def floor_row(name, floor, names, with_size, label_noun):
    """The row of a linear model.

    Args:
        name: String, its name in the report.
        floor: Dict, its entry there.
        names: As in `teacher_row`.
        with_size: Boolean. Whether there are files to compare its size with.
        label_noun: String, what a label is called.
    """
    cells = [
        name.partition("_")[0],
        f"{count(floor['labels'], label_noun)}, {floor['features']}",
        percent(floor["test_score"]),
        "",
        "",
        percent(floor["dev_score"]),
        *[""] * 2,
        f"{floor['seconds']['mean']:,.0f}",
        *(further(title, floor[name]) for name, (title, _) in names.items()),
        "",
        f"{floor['parameters']:,}",
        *measured(floor if with_size else None),
    ]
    return {"cells": cells, "kind": "linear", "judged": False}


def measured(file):
    """Size and latency of a file or a linear model, empty without one."""
    if file is None or "refused" in file:
        return ["", ""]
    return [size(file["size_bytes"]), f"{file['latency_ms']:.3g}"]
