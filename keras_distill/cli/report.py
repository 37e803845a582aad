"""`report.json`, and the table that says the same."""

import statistics

import numpy as np

from keras_distill.cli import arms
from keras_distill.cli import run_folder
from keras_distill.cli.corpus import Corpus
from keras_distill.comparison import results
from keras_distill.comparison import shipping
from keras_distill.comparison import verdict
from keras_distill.comparison.provenance import environment

FILE = "report.json"
COLUMNS = (
    "model",
    "dev %",
    "test %",
    "weights",
    "size",
    "ms",
)


def write(settings, folder, phases, screen):
    """Writes `report.json` and prints the table that says the same.

    Args:
        settings: `Settings`.
        folder: `RunFolder`, all phases finished.
        phases: List of `Phase`.
        screen: `Screen`.

    Returns:
        Dict: the contents of `report.json`.
    """
    report = {
        "command": "distill",
        "settings": {
            name: str(value) if name == "output" else value
            for name, value in vars(settings).items()
        },
        "data": folder.result("data"),
        "models": models(settings, folder),
        "difference": difference(settings, folder),
        "seconds": {p.name: folder.record(p.name)["seconds"] for p in phases},
        "machine": machine(),
    }
    run_folder.write_json(folder.path / FILE, report)
    screen.table(
        f"Student {settings.student}, alone and distilled ({settings.method})."
        "\nAccuracy: mean ± sd over seeds. Size, ms: as TFLite, one text, one "
        "thread.",
        COLUMNS,
        rows(report),
    )
    told = verdict.headline(report["difference"])
    screen.line(f"{told[0].upper()}{told[1:]}")
    screen.line(
        f"Written: {folder.path / FILE}, files in {folder.path / 'export'}"
    )
    return report


def difference(settings, folder):
    """How much more often the distilled students are right than the control.

    Returns:
        Dict, from `results.between`, over the test texts and the seeds.
    """
    labels = Corpus(folder.path, settings).encoded["test"].labels
    right = []
    for kind in (arms.CONTROL, arms.DISTILLED):
        files = [
            folder.path / arms.Arm(kind, seed).predictions
            for seed in settings.seeds
        ]
        logits = np.stack([np.load(file) for file in files])
        right.append(logits.argmax(axis=-1) == labels)
    return results.between(*right)


def machine():
    """Dict, what the results may depend on beside the options."""
    return environment()


def models(settings, folder):
    """One entry for the teacher and one for each arm.

    Returns:
        List of dicts with `name`, `description`, `labels`, `seeds`, `dev`,
        `test` (lists, one value a seed), `parameters`, `files`.
    """
    teacher = folder.result("teacher")
    found = [
        {
            "name": "teacher",
            "description": "teacher",
            "labels": folder.result("data")["labelled_train_rows"],
            "seeds": [],
            "dev_accuracy": [teacher["dev_accuracy"]],
            "test_accuracy": [teacher["test_accuracy"]],
            "parameters": teacher["parameters"],
            "files": folder.result("export_teacher"),
        }
    ]
    for kind in arms.kinds(settings):
        results = [
            folder.result(arms.Arm(kind, seed).name) for seed in settings.seeds
        ]
        found.append(
            {
                "name": kind,
                "description": _description(kind, results[0]["labels"]),
                "labels": results[0]["labels"],
                "seeds": list(settings.seeds),
                "dev_accuracy": [r["dev_accuracy"] for r in results],
                "test_accuracy": [r["test_accuracy"] for r in results],
                "parameters": results[0]["parameters"],
                "files": folder.result(f"export_{kind}"),
            }
        )
    return found


def rows(report):
    """The rows of the table, lists of strings as `COLUMNS`."""
    found = []
    for model in report["models"]:
        found.append(
            [
                model["description"],
                percent(model["dev_accuracy"]),
                percent(model["test_accuracy"]),
                f"{model['parameters']:,}",
                *_measured(model["files"]["float32"]),
            ]
        )
        if "int8" in model["files"]:
            file = model["files"]["int8"]
            test = "" if "refused" in file else percent([file["test_accuracy"]])
            found.append(["  as int8", "", test, "", *_measured(file)])
    return found


def percent(shares):
    """Mean, and standard deviation where there are several.

    Example:

    >>> percent([0.672]), percent([0.6, 0.8])
    ('67.2', '70.0 ± 14.1')
    """
    mean = f"{100 * statistics.mean(shares):.1f}"
    if len(shares) == 1:
        return mean
    return f"{mean} ± {100 * statistics.stdev(shares):.1f}"


def _measured(file):
    if "refused" in file:
        return ["not exported", ""]
    latency = file["latency_ms"]
    return [shipping.size(file["size_bytes"]), f"{latency:.3g}"]


def _description(kind, labels):
    how = "distilled" if kind == arms.DISTILLED else "student"
    return f"{how}, {labels:,} labels"
