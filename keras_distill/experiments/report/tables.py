"""The table of the arms, as Markdown and as rows of text."""

import itertools
import statistics

from keras_distill.experiments.cells import REFERENCE
from keras_distill.experiments.report import baselines
from keras_distill.experiments.report import exported
from keras_distill.experiments.report import verdict
from keras_distill.experiments.report.numbers import count
from keras_distill.experiments.report.numbers import further
from keras_distill.experiments.report.numbers import percent
from keras_distill.experiments.report.numbers import share
from keras_distill.export.markdown import escape

COLUMNS = (
    "Student",
    "Learns from",
    "Test %",
    "vs control",
    "p",
    "Dev %",
    "ECE %",
    "Agree %",
    "Seconds",
)
MEASURED = ("Cost", "Weights", "Size", "ms")


def sound(rows):
    """The rows of arms of which not every cell failed."""
    return [row for row in rows if row["test_score"]["values"]]


def table(found):
    """The table of a report.

    Args:
        found: Dict, from `report.build`.

    Returns:
        Pair of column titles and rows: dicts with `cells` (strings), `kind`
        (`"teacher"`, `"linear"`, `"control"` or `"arm"`) and `judged`
        (boolean). The first two cells are the student and its arm.
    """
    titles = [title for title, _ in found["task"]["further"].values()]
    columns = (*COLUMNS, *titles, *MEASURED)
    judged = {(v["student"], v["arm"]) for v in found["verdicts"]}
    names = found["task"]["further"]
    label_noun = found["task"]["label_noun"]
    body = [
        baselines.teacher_row(found["teacher"], names),
        *(
            baselines.floor_row(
                name, floor, names, bool(found["exports"]), label_noun
            )
            for name, floor in found["floors"].items()
        ),
    ]
    for row in found["rows"]:
        body.append(
            {
                "cells": _cells(row, names, exported.measured(found, row)),
                "kind": "control" if row["is_control"] else "arm",
                "judged": (row["student"], row["arm"]) in judged,
            }
        )
    # What a task has not, such as a calibration of scores, is no column.
    told = [any(cells) for cells in zip(*(row["cells"] for row in body))]
    for row in body:
        row["cells"] = list(itertools.compress(row["cells"], told))
    return tuple(itertools.compress(columns, told)), body


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
        escape(legend(found)),
        "",
    ]
    for part in in_detail(found):
        lines += [f"## {escape(part['title'])}", "", *details(part["rows"])]
    if found["exports"]:
        lines += [
            "## Files",
            "",
            *files_markdown(exported.by_folder(found)),
            "",
        ]
    lines += ["## What the arms learn from", ""]
    lines += [listed(f"{arm}: {words}" for arm, words in arms(found).items())]
    lines += ["", "## How it was measured", ""]
    lines += [listed([*found["measured"], machine(found["environment"])]), ""]
    return "\n".join(lines)


def legend(found):
    """What the columns of the table mean, in a sentence."""
    against = [row.get("against_control") for row in found["rows"]]
    has_p = any(held and held["mcnemar"] for held in against)
    told = [
        "Mean ± standard deviation over seeds",
        f"Test, Dev: {found['task']['measure']} x 100",
        "“vs control”: points, with the 95 % interval",
        *(["p: McNemar, predictions of all seeds pooled"] if has_p else []),
        "Agree: with the teacher's prediction",
        *(
            f"{title.removesuffix(' %')}: {meaning}"
            for title, meaning in found["task"]["further"].values()
        ),
    ]
    return "; ".join(told) + "."


def in_detail(found):
    """What a task tells of each label, of the best arm of each student.

    References, which see more labels than the others, are left out.

    Args:
        found: Dict, from `report.build`.

    Returns:
        List of dicts: `title`, and `rows`, as of `Task.details`.
    """
    best = {}
    for row in sound(found["rows"]):
        if row["role"] == REFERENCE:
            continue
        held = best.setdefault(row["student"], row)
        if row["dev_score"]["mean"] > held["dev_score"]["mean"]:
            best[row["student"]] = row
    return [
        {
            "title": f"{row['student']}, {row['arm']}, seed {_sound_seed(row)}",
            "rows": row["details"][0],
        }
        for row in best.values()
        if row["details"][0]
    ]


def _sound_seed(row):
    return next(s for s in row["seeds"] if str(s) not in row["failed"])


def details(rows):
    """A table of dicts, lines of Markdown; none for none.

    Args:
        rows: List of dicts with the same keys, from `Task.details`.
    """
    if not rows:
        return []
    return [
        line(map(escape, rows[0])),
        line(["---", *["---:"] * (len(rows[0]) - 1)]),
        *(line([escape(plain(v)) for v in row.values()]) for row in rows),
        "",
    ]


def plain(value):
    """A number or a word of `Task.details`, as a table shows it."""
    return f"{value:.3f}" if isinstance(value, float) else str(value)


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
    """Dict from each arm to what it learns from, in words.

    Where students differ in it, each has an entry of its own.
    """
    noun, label_noun = found["task"]["noun"], found["task"]["label_noun"]
    told = {}
    for row in found["rows"]:
        of_students = told.setdefault(row["arm"], {})
        of_students[row["student"]] = (
            f"{row['learns_from']}. {count(row['labels'], label_noun)}, "
            f"{count(row['texts'], noun)}."
        )
    return {
        arm if len({*of_students.values()}) == 1 else f"{arm}, {name}": words
        for arm, of_students in told.items()
        for name, words in of_students.items()
    }


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
        line(exported.COLUMNS),
        line(["---", *["---:"] * 4]),
        *(
            line([*map(escape, row[:2]), *row[2:]])
            for row in exported.rows(folders)
        ),
    ]


def line(cells):
    """A row of a table in Markdown, of cells that are Markdown."""
    return f"| {' | '.join(cells)} |"


def _cells(row, names, file):
    against = row.get("against_control")
    test = against and against["mcnemar"]
    return [
        row["student"],
        row["arm"],
        percent(row["test_score"]),
        _against(row),
        ""
        if test is None
        else verdict.p_value(test["p_value"])
        .removeprefix("p = ")
        .removeprefix("p "),
        percent(row["dev_score"]),
        share(row["ece"]["mean"]),
        share(row["agreement"]["mean"]),
        f"{statistics.mean(row['seconds']['values']):,.0f}",
        *(further(title, row[name]) for name, (title, _) in names.items()),
        f"{row['cost']:.2f}" if "cost" in row else "",
        f"{row['parameters']:,}",
        *baselines.measured(file),
    ]


def _against(row):
    if row["is_control"]:
        return "control"
    found = row.get("against_control")
    if found is None:
        return "failed"
    low, high = (verdict.signed(found[end]) for end in ("low", "high"))
    return f"{verdict.signed(found['value'])} [{low}, {high}]"
