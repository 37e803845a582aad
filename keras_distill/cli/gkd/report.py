"""`report.json` of `gkd`, and the tables and texts that say the same."""

from keras_distill.cli import report
from keras_distill.cli import run_folder

COLUMNS = ("nats per token", "start", "distilled")
ROWS = (
    ("student", "reverse_kl", "own text: KL(student || teacher)"),
    ("student", "forward_kl", "own text: KL(teacher || student)"),
    ("student", "jsd", "own text: Jensen-Shannon"),
    ("student", "teacher_nll", "own text: the teacher's cross-entropy"),
    ("teacher", "forward_kl", "teacher's text: KL(teacher || student)"),
    ("teacher", "student_nll", "teacher's text: the student's cross-entropy"),
)


def write(settings, folder, phases, screen):
    """Writes `report.json`, prints the table and what the models write.

    Args:
        settings: `Settings`.
        folder: `RunFolder`, all phases finished.
        phases: List of `Phase`.
        screen: `Screen`.

    Returns:
        Dict, the contents of `report.json`.
    """
    before, after = folder.result("before"), folder.result("after")
    contents = {
        "command": "gkd",
        "settings": settings.of(*vars(settings)),
        "data": folder.result("data"),
        "teacher": folder.result("teacher"),
        "student": folder.result("start") | folder.result("export"),
        "before": before,
        "gkd": folder.result("gkd"),
        "after": after,
        "seconds": {p.name: folder.record(p.name)["seconds"] for p in phases},
        "machine": report.machine(),
    }
    run_folder.write_json(folder.path / report.FILE, contents)
    screen.table(
        f"Student of {contents['student']['parameters']:,} weights, teacher of "
        f"{contents['teacher']['parameters']:,}. Held-out prompts.",
        COLUMNS,
        rows(before, after),
    )
    _print_samples(before, after, screen)
    screen.line(
        f"Written: {folder.path / report.FILE}, the student in "
        f"{folder.path / contents['student']['path']}"
    )
    return contents


def rows(before, after):
    """The rows of the table, lists of strings as `COLUMNS`."""
    return [
        [title, f"{before[writer][name]:.3f}", f"{after[writer][name]:.3f}"]
        for writer, name, title in ROWS
    ]


def _print_samples(before, after, screen):
    writers = {
        "teacher": before["samples"]["teacher"],
        "start": before["samples"]["student"],
        "distilled": after["samples"]["student"],
    }
    for number, (prompt, _) in enumerate(writers["teacher"]):
        screen.line(f"\n{prompt} ...")
        for name, samples in writers.items():
            screen.line(f"  {name + ':':<11}{samples[number][1]}")
    screen.line("")
