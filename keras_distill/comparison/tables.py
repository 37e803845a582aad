"""The table of the arms, as Markdown and as rows of text."""

import statistics

from keras_distill.comparison import verdict
from keras_distill.comparison.shipping import size

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
OPTIONAL = ("Cost", "Weights", "Size", "ms")


def percent(spread, digits=1):
    """Mean and standard deviation of shares, in per cent.

    Example:

    >>> percent({"mean": 0.7, "sd": 0.1414}), percent({"mean": 0.5, "sd": None})
    ('70.0 ± 14.1', '50.0')
    """
    return plus_minus(
        {
            k: None if spread[k] is None else 100 * spread[k]
            for k in ("mean", "sd")
        },
        digits,
    )


def plus_minus(spread, digits=1):
    """Mean and standard deviation, where there is one."""
    mean = f"{spread['mean']:.{digits}f}"
    return (
        mean if spread["sd"] is None else f"{mean} ± {spread['sd']:.{digits}f}"
    )


def table(found):
    """The table of a report.

    Args:
        found: Dict, from `report.build`.

    Returns:
        Pair of column titles and rows: dicts with `cells` (strings), `kind`
        (`"teacher"`, `"control"` or `"arm"`) and `judged` (boolean). The first
        two cells are the student and its arm.
    """
    rows = found["rows"]
    optional = [
        name
        for name, there in zip(
            OPTIONAL,
            (
                "cost" in rows[0],
                True,
                bool(found["exports"]),
                bool(found["exports"]),
            ),
        )
        if there
    ]
    judged = {(v["student"], v["arm"]) for v in found["verdicts"]}
    body = [_teacher_row(found["teacher"], optional)]
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
    lines = [f"# {found['title']}", "", found["date"], ""]
    for item in found["verdicts"]:
        lines += [f"**{item['headline']}**", ""]
        lines += [*(f"- {sentence}" for sentence in item["details"]), ""]
    lines += [
        "## Results",
        "",
        _line(columns),
        _line(["---", "---", *["---:"] * (len(columns) - 2)]),
        *(_line(row["cells"]) for row in body),
        "",
        "Mean ± standard deviation over seeds; “vs hard labels”: points, with "
        "the 95 % interval; p: McNemar, predictions of all seeds pooled; "
        "Agree: with the teacher's prediction.",
        "",
    ]
    if found["exports"]:
        lines += ["## Files", "", *files_markdown(exported(found)), ""]
    lines += ["## What the arms learn from", ""]
    lines += [f"- {arm}: {words}" for arm, words in arms(found).items()]
    lines += ["", "## How it was measured", ""]
    lines += [f"- {sentence}" for sentence in found["measured"]]
    lines += [f"- {machine(found['environment'])}", ""]
    return "\n".join(lines)


def count(number, noun):
    """A number of things.

    Example:

    >>> count(1, "seed"), count(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
        _line(FILE_COLUMNS),
        _line(["---", *["---:"] * 4]),
        *(_line(row) for row in files(folders)),
    ]


def _line(cells):
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _teacher_row(teacher, optional):
    file = teacher["file"]
    weights = teacher["parameters"]
    values = {
        "Cost": "",
        "Weights": "" if weights is None else f"{weights:,}",
        **_measured(file),
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


def _cells(row):
    against = row.get("against_control")
    return [
        row["student"],
        row["arm"],
        percent(row["test_accuracy"]),
        "control" if against is None else _against(against),
        ""
        if against is None
        else verdict.p_value(against["mcnemar"]["p_value"])
        .removeprefix("p = ")
        .removeprefix("p "),
        percent(row["dev_accuracy"]),
        f"{100 * row['ece']['mean']:.1f}",
        f"{100 * row['agreement']['mean']:.1f}",
        f"{statistics.mean(row['seconds']['values']):,.0f}",
    ]


def _against(found):
    low, high = (verdict.signed(found[end]) for end in ("low", "high"))
    return f"{verdict.signed(found['value'])} [{low}, {high}]"


def _optional(row, file):
    return {
        "Cost": f"{row['cost']:.2f}" if "cost" in row else "",
        "Weights": f"{row['parameters']:,}",
        **_measured(file),
    }


def _measured(file):
    if file is None or "refused" in file:
        return {"Size": "", "ms": ""}
    return {
        "Size": size(file["size_bytes"]),
        "ms": f"{file['latency_ms']:.3g}",
    }
