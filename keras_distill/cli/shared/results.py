"""What commands print of a report at their end."""

from keras_distill.experiments.report import tables

COLUMNS = ("Student", "Learns from", "Test %", "vs control", "Seconds")


def show_students(found, title, screen):
    """Prints the table of students and what they learnt from.

    Args:
        found: Dict, the contents of `report.json`.
        title: String.
        screen: `Screen`.
    """
    columns, body = tables.table(found)
    wanted = [columns.index(name) for name in COLUMNS]
    screen.table(
        f"{title}Test: {found['task']['measure']}, mean ± sd over seeds. "
        "Differences in points, with the 95 % interval.",
        COLUMNS,
        [[row["cells"][i] for i in wanted] for row in body],
        words=2,
    )


def show_verdicts(found, screen):
    """Prints what the report says in words, whatever failed included."""
    several = len(found["verdicts"]) > 1
    for item in found["verdicts"]:
        screen.line(item["headline"])
        about = f"{item['student']}: " if several else ""
        for sentence in (*item["failures"], *item["warnings"]):
            screen.line(f"{about}{sentence}")
