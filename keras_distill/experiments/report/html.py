"""`report.html`: one page that needs nothing else."""

import importlib.resources
import json

from keras_distill.experiments.report import exported
from keras_distill.experiments.report import figures
from keras_distill.experiments.report import tables
from keras_distill.experiments.report.numbers import percent

TEMPLATE = "report.html.j2"


def require():
    """The package jinja2.

    Raises:
        ImportError: What makes the page is missing.
    """
    try:
        import jinja2
        import matplotlib.figure  # noqa: F401 - figures.py needs it later.
    except ImportError as error:
        raise ImportError(
            "report.html needs jinja2 and matplotlib: "
            "pip install 'keras-distill[report]'. Or leave the page out: "
            "`html=False`"
        ) from error
    return jinja2


def page(found):
    """The page.

    Args:
        found: Dict, from `report.build`.

    Returns:
        String. It loads nothing from anywhere.

    Raises:
        ImportError: jinja2 or matplotlib is missing.
    """
    jinja2 = require()
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    package = importlib.resources.files("keras_distill.experiments.report")
    source = (package / TEMPLATE).read_text(encoding="utf-8")
    columns, body = tables.table(found)
    arms = dict.fromkeys(row["arm"] for row in found["rows"])
    return environment.from_string(source).render(
        found=found,
        columns=columns[1:],
        groups=_groups(body),
        table_legend=tables.legend(found),
        students=_students(found),
        pareto=figures.accuracy_and_latency(found),
        diagrams=_diagrams(found),
        details=tables.in_detail(found),
        plain=tables.plain,
        files=exported.rows(exported.by_folder(found)),
        file_columns=exported.COLUMNS,
        arms=tables.arms(found),
        legend=figures.legend(list(arms)),
        machine=tables.machine(found["environment"]),
        settings=json.dumps(found["settings"], indent=2, ensure_ascii=False),
    )


def _groups(body):
    """The rows of the table by student, the teacher's first."""
    grouped = {}
    for row in body:
        grouped.setdefault(row["cells"][0], []).append(row)
    return list(grouped.items())


def _students(found):
    """Figures of each student, with the legend of the arms."""
    grouped = {}
    for row in tables.sound(found["rows"]):
        grouped.setdefault(row["student"], []).append(row)
    return [
        {
            "name": name,
            "differences": figures.differences(rows),
            "curves": figures.learning_curves(rows, found["task"]["measure"]),
            "legend": figures.legend([row["arm"] for row in rows]),
        }
        for name, rows in grouped.items()
    ]


def _diagrams(found):
    """Reliability diagrams with their captions, the teacher's first."""
    if found["teacher"]["reliability"] is None:
        return []
    diagrams = [
        {
            "name": "teacher",
            "ece": f"{100 * found['teacher']['ece']:.1f}",
            "figure": figures.reliability(found["teacher"]["reliability"]),
        }
    ]
    rows = tables.sound(found["rows"])
    several = len({row["student"] for row in rows}) > 1
    for row in rows:
        name = f"{row['student']}, {row['arm']}" if several else row["arm"]
        diagrams.append(
            {
                "name": name,
                "ece": percent(row["ece"]),
                "figure": figures.reliability(row["reliability"]),
            }
        )
    return diagrams
