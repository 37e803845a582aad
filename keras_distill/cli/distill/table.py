"""What `keras-distill distill` prints at the end."""

import statistics

from keras_distill.experiments.exports import main_file
from keras_distill.experiments.exports import size
from keras_distill.experiments.report import verdict

COLUMNS = ("model", "dev %", "test %", "weights", "size", "ms")


def show(report, what, screen):
    """Prints the table, the verdict, and where the files are.

    Args:
        report: Dict, the contents of `report.json`.
        what: The options `What`.
        screen: `Screen`.
    """
    name = report["settings"]["student"]
    screen.table(
        f"Student {name}, alone and distilled ({report['settings']['method']})."
        f"\nDev, test: {report['task']['measure']}, mean ± sd over seeds. "
        f"Size, ms: as TFLite, one {report['task']['noun']}, one thread.",
        COLUMNS,
        rows(report),
    )
    (told,) = report["verdicts"]
    words = told["headline"]
    if report["difference"] is not None:
        words = verdict.headline(report["difference"])
    screen.line(f"{words[0].upper()}{words[1:]}")
    for sentence in (*told["failures"], *told["warnings"]):
        screen.line(sentence)
    written = f"Written: {what.output / 'report.json'}"
    if report["exports"]:
        written += f", files in {what.output / 'export'}"
    screen.line(written)


def rows(report):
    """The rows of the table, lists of strings as `COLUMNS`."""
    found = []
    for model in report["models"]:
        # A linear model has no file, but says what one would.
        files = model["files"]
        main = main_file(files)
        file = model if "size_bytes" in model else main
        found.append(
            [
                model["description"],
                percent(model["dev_score"]),
                percent(model["test_score"]),
                f"{model['parameters']:,}",
                *_measured(file),
            ]
        )
        file = files.get("int8", main)
        if file is not main:
            test = "" if "refused" in file else percent([file["test_score"]])
            found.append(["  as int8", "", test, "", *_measured(file)])
    return found


def percent(shares):
    """Mean, and standard deviation where there are several.

    Example:

    >>> percent([0.672]), percent([0.6, 0.8]), percent([])
    ('67.2', '70.0 ± 14.1', 'failed')
    """
    if not shares:
        return "failed"
    mean = f"{100 * statistics.mean(shares):.1f}"
    if len(shares) == 1:
        return mean
    return f"{mean} ± {100 * statistics.stdev(shares):.1f}"


def _measured(file):
    if file is None or "refused" in file:
        return ["not exported", ""]
    return [size(file["size_bytes"]), f"{file['latency_ms']:.3g}"]
