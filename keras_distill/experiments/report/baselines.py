"""The rows of a report that no student is in: teacher, linear model."""

from keras_distill.experiments.exports import size
from keras_distill.experiments.report.numbers import count
from keras_distill.experiments.report.numbers import percent
from keras_distill.experiments.report.numbers import plus_minus


def teacher_row(teacher, optional):
    """The teacher's row of the table.

    Args:
        teacher: Dict, its entry in the report.
        optional: Names of the optional columns.
    """
    file = teacher["file"]
    weights = teacher["parameters"]
    values = {
        "Macro F1 %": f"{100 * teacher['macro_f1']:.1f}",
        "MCC": f"{teacher['matthews']:.3f}",
        "Cost": "",
        "Weights": "" if weights is None else f"{weights:,}",
        **measured(file),
    }
    cells = [
        "teacher",
        "",
        f"{100 * teacher['test_accuracy']:.1f}",
        "",
        "",
        f"{100 * teacher['dev_accuracy']:.1f}",
        f"{100 * teacher['ece']:.1f}",
        *[""] * 2,
        *[values[name] for name in optional],
    ]
    return {"cells": cells, "kind": "teacher", "judged": False}


def floor_row(name, floor, optional):
    """The row of a linear model.

    Args:
        name: String, its name in the report.
        floor: Dict, its entry there.
        optional: Names of the optional columns.
    """
    values = {
        "Macro F1 %": percent(floor["macro_f1"]),
        "MCC": plus_minus(floor["matthews"], digits=3),
        "Cost": "",
        "Weights": f"{floor['parameters']:,}",
        **measured(floor),
    }
    cells = [
        name.partition("_")[0],
        f"{count(floor['labels'], 'label')}, {floor['features']}",
        percent(floor["test_accuracy"]),
        "",
        "",
        percent(floor["dev_accuracy"]),
        *[""] * 2,
        f"{floor['seconds']['mean']:,.0f}",
        *[values[name] for name in optional],
    ]
    return {"cells": cells, "kind": "linear", "judged": False}


def measured(file):
    """Size and latency of a file or a linear model, empty without one."""
    if file is None or "refused" in file:
        return {"Size": "", "ms": ""}
    return {
        "Size": size(file["size_bytes"]),
        "ms": f"{file['latency_ms']:.3g}",
    }
