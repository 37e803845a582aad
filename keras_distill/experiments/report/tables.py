"""The table of the arms, as Markdown and as rows of text."""

import statistics

from keras_distill.experiments.exports import size
from keras_distill.experiments.report import baselines
from keras_distill.experiments.report import verdict
from keras_distill.experiments.report.numbers import count
from keras_distill.experiments.report.numbers import percent
from keras_distill.experiments.report.numbers import plus_minus
from keras_distill.export.markdown import escape

COLUMNS = (
    "Student",
    "Learns from",
    "Test %",
    "vs hard labels",
    "p",
    "Dev %",
    "ECE %",
    "Agree %",
    "Seconds",
)
OPTIONAL = ("Macro F1 %", "MCC", "Cost", "Weights", "Size", "ms")


def sound(rows):
    """The rows of arms of which not every cell failed."""
    return [row for row in rows if row["test_accuracy"]["values"]]


def table(found):
    """The table of a report.

    Args:
        found: Dict, from `report.build`.

    Returns:
        Pair of column titles and rows: dicts with `cells` (strings), `kind`
        (`"teacher"`, `"linear"`, `"control"` or `"arm"`) and `judged`
        (boolean). The first two cells are the student and its arm.
    """
    rows = found["rows"]
    optional = [
        name
        for name, there in zip(
            OPTIONAL,
            (
                any(row["macro_f1"]["values"] for row in rows),
                any(row["matthews"]["values"] for row in rows),
                "cost" in rows[0],
                True,
                bool(found["exports"]),
                bool(found["exports"]),
            ),
        )
        if there
    ]
    judged = {(v["student"], v["arm"]) for v in found["verdicts"]}
    body = [
        baselines.teacher_row(found["teacher"], optional),
        *(
            baselines.floor_row(name, floor, optional)
            for name, floor in found["floors"].items()
        ),
    ]
    for row in rows:
        files = found["exports"].get(row["student"], {}).get("files", {})
        cells = _cells(row) + [
            _optional(row, files.get("float32"))[name] for name in optional
        ]
        body.append(
            {
                "cells": cells,
                "kind": "control" if row["is_control"] else "arm",
                "judged": (row["student"], row["arm"]) in judged,
            }
        )
    return (*COLUMNS, *optional), body


def markdown(found):
    """`report.md`.

    Args:
        found: Dict, from `report.build`.

    Returns:
        String.
    """
    columns, body = table(found)
    lines = [f"# {escape(found['title'])}", "", found["date"], ""]
    for item in found["verdicts"]:
        lines += [f"**{escape(item['headline'])}**", ""]
        lines += [listed(item["details"]), ""]
    lines += [
        "## Results",
        "",
        line(columns),
        line(["---", "---", *["---:"] * (len(columns) - 2)]),
        *(line([*map(escape, names), *rest]) for names, rest in _split(body)),
        "",
        "Mean ± standard deviation over seeds; “vs hard labels”: points, with "
        "the 95 % interval; p: McNemar, predictions of all seeds pooled; "
        "Agree: with the teacher's prediction; Macro F1: the mean of the "
        "classes' F1; MCC: Matthews' correlation.",
        "",
    ]
    if found["exports"]:
        lines += ["## Files", "", *files_markdown(exported(found)), ""]
    lines += ["## What the arms learn from", ""]
    lines += [listed(f"{arm}: {words}" for arm, words in arms(found).items())]
    lines += ["", "## How it was measured", ""]
    lines += [listed([*found["measured"], machine(found["environment"])]), ""]
    return "\n".join(lines)


def listed(sentences):
    """Sentences as a list in Markdown, with what data contain as it stands."""
    return "\n".join(f"- {escape(sentence)}" for sentence in sentences)


def _split(body):
    """The names and the numbers of each row of the table."""
    return [(row["cells"][:2], row["cells"][2:]) for row in body]


def seeds(row):
    """How many seeds the numbers of a row are from."""
    told = count(len(row["seeds"]), "seed")
    if len(row["seeds"]) == 1:
        return told
    return f"{told}, mean ± standard deviation"


def arms(found):
    """Dict from each arm to what it learns from, in words."""
    return {
        row["arm"]: f"{row['learns_from']}. {count(row['labels'], 'label')}, "
        f"{count(row['texts'], 'text')}."
        for row in found["rows"]
    }


def exported(found):
    """Dict from the folder of each export to its files."""
    return {
        f"export/{entry['folder']}/": entry["files"]
        for entry in found["exports"].values()
    }


def files(folders):
    """Rows on exported files.

    Args:
        folders: Dict from a prefix of the path to facts by form.

    Returns:
        List of lists of strings: path, size, latency, test accuracy,
        agreement with the Keras model.
    """
    found = []
    for prefix, held in folders.items():
        for file in held.values():
            path = f"{prefix}{file['path']}"
            if "refused" in file:
                found.append(
                    [path, f"not exported: {file['refused']}", "", "", ""]
                )
                continue
            test = file.get("test_accuracy")
            found.append(
                [
                    path,
                    size(file["size_bytes"]),
                    f"{file['latency_ms']:.3g}",
                    "" if test is None else f"{100 * test:.1f}",
                    f"{100 * file['agreement']:.1f}",
                ]
            )
    return found


FILE_COLUMNS = ("File", "Size", "Latency ms", "Test %", "As in Keras %")


def machine(environment):
    """One sentence on versions and machine."""
    versions = ", ".join(f"{k} {v}" for k, v in environment["versions"].items())
    accelerators = environment["accelerators"] or ["no accelerator"]
    return (
        f"Machine: {environment['processors']} processors, "
        f"{', '.join(accelerators)}, Python {environment['python']}, "
        f"{environment['backend']} backend; {versions}."
    )


def files_markdown(folders):
    """The table of `files`, lines of Markdown."""
    return [
        line(FILE_COLUMNS),
        line(["---", *["---:"] * 4]),
        *(line([*map(escape, row[:2]), *row[2:]]) for row in files(folders)),
    ]


def line(cells):
    """A row of a table in Markdown, of cells that are Markdown."""
    return f"| {' | '.join(cells)} |"


def _cells(row):
    against = row.get("against_control")
    return [
        row["student"],
        row["arm"],
        percent(row["test_accuracy"]),
        _against(row),
        ""
        if against is None
        else verdict.p_value(against["mcnemar"]["p_value"])
        .removeprefix("p = ")
        .removeprefix("p "),
        percent(row["dev_accuracy"]),
        percent({**row["ece"], "sd": None}),
        percent({**row["agreement"], "sd": None}),
        f"{statistics.mean(row['seconds']['values']):,.0f}",
    ]


def _against(row):
    if row["is_control"]:
        return "control"
    found = row.get("against_control")
    if found is None:
        return "failed"
    low, high = (verdict.signed(found[end]) for end in ("low", "high"))
    return f"{verdict.signed(found['value'])} [{low}, {high}]"


def _optional(row, file):
    return {
        "Macro F1 %": percent(row["macro_f1"]),
        "MCC": plus_minus(row["matthews"], digits=3),
        "Cost": f"{row['cost']:.2f}" if "cost" in row else "",
        "Weights": f"{row['parameters']:,}",
        **baselines.measured(file),
    }
