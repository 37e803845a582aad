"""The model cards of a comparison's exports."""

import json

from keras_distill.experiments.report import exported
from keras_distill.experiments.report import tables
from keras_distill.experiments.report.entries import TEACHER
from keras_distill.export.card import model_card
from keras_distill.export.markdown import escape

BESIDE = (
    "Beside the network stands a linear model of its tokens and their pairs, "
    "fitted on the same labels and weighed on dev"
)
LIMITS = (
    "It has been trained and scored on the data named above, and nowhere "
    "else. Other data, other languages and other times may give other "
    "results.",
    "It inherits what the teacher and the labels get wrong, and what they are "
    "biased towards. Nobody has looked for that here.",
    "The epoch, the seed and the arm were chosen on dev; test was used for "
    "the report alone.",
)


def write(found, task, folder):
    """Writes a card beside the files of each student, and into SavedModels.

    Args:
        found: Dict, from `contents.build`.
        task: `Task`.
        folder: Path of the folder `export`.
    """
    for name, entry in found["exports"].items():
        if name == TEACHER:
            continue
        rows = [row for row in found["rows"] if row["student"] == name]
        shipped, position = exported.shipped(found, name)
        told = next(v for v in found["verdicts"] if v["student"] == name)
        sections = {
            "What it is": _purpose(found, name, shipped, position),
            "Data": _data(found["task"], task.noun),
            "Teacher": _teacher(found["teacher"], task.measure),
            "Training": _training(found, name, shipped, position),
            "Metrics": _metrics(found, rows, shipped, told, entry),
            "Limits": limits(shipped["ece"]["mean"], task),
            "How to repeat": repeat(found["settings"], found["environment"]),
        }
        title = f"{name}: {task.name}"
        _write_cards(
            folder / entry["folder"], title, sections, entry["files"], task
        )


def _write_cards(folder, title, sections, files, task):
    """A card in `folder`, and one in each SavedModel, which may go alone."""
    made = [
        file["path"]
        for form, file in files.items()
        if "refused" not in file and form != "int8"
    ]
    tag = task.pipeline_tag
    model_card(
        *(folder, title, sections, made),
        *(task.preprocessor, task.sides, tag),
    )
    for name in made:
        if (folder / name).is_dir():
            model_card(folder / name, title, sections, ["."], pipeline_tag=tag)


def _teacher(facts, measure):
    source, size = facts["source"], facts["parameters"]
    return (
        (f"{escape(source)}. " if source else "")
        + (f"{size:,} weights. " if size else "")
        + f"Test {measure} {100 * facts['test_score']:.1f} %."
    )


def limits(ece, task):
    """What not to expect, in Markdown."""
    told = [
        *LIMITS,
        f"Every {task.noun} gets an answer "
        f"({task.outputs_in_words(task.splits.label_names)}), whatever it is "
        "about.",
        task.reads(),
    ]
    if ece is not None:
        told.append(
            "Its probabilities are off by "
            f"{100 * ece:.1f} points on average (expected calibration error)."
        )
    return tables.listed(told)


def repeat(settings, environment):
    """How to make it again, in Markdown."""
    return (
        f"{tables.machine(environment)}\n\nSettings:\n\n```json\n"
        f"{json.dumps(settings, indent=2, ensure_ascii=False)}\n```\n\n"
        "`report.json` in the run's folder holds them too, with all results."
    )


def _purpose(found, name, row, position):
    names = [*map(str, found["task"]["label_names"])]
    told = "; ".join([", ".join(names), found["task"]["measure"]][not names :])
    how = (
        "distilled from a larger model"
        if row["is_distilled"]
        else f"learnt from {row['learns_from']}, which did best on dev"
    )
    # The linear part may stand beside the network of one seed alone.
    weights = row["parameters_by_seed"][position]
    return escape(
        f"A model of {found['task']['noun']}s ({told}), "
        f"{weights:,} weights: the student “{name}”, {how}. Made by "
        f"keras_distill on {found['date']}."
    )


def _data(task, noun):
    told = [
        f"{task['name']}: {task['rows']['train']:,} train {noun}s "
        f"({task['labelled_train_rows']:,} with a {task['label_noun']}), "
        f"{task['rows']['dev']:,} dev and {task['rows']['test']:,} test.",
        *task["notes"],
    ]
    return tables.listed(told)


def _training(found, name, row, position):
    noun = found["task"]["noun"]
    options = found["students"][name]
    part = row["linear_parts"][position]
    beside = f" {BESIDE} ({part:.2g} to 1 of the network's)." if part else ""
    return escape(
        f"Arm “{row['arm']}”: {row['learns_from']}. "
        f"{tables.count(row['labels'], found['task']['label_noun'])}, "
        f"{row['texts']:,} {noun}s; {row['steps']:,} steps of "
        f"{options['batch_size']} {noun}s, Adam, learning rate "
        f"{options['learning_rate']:g}. Seed {row['seeds'][position]}, epoch "
        f"{row['best_epochs'][position]} of {options['epochs']}, the best on "
        f"dev.{beside}"
    )


def _metrics(found, rows, shipped, told, entry):
    at = [s for s in shipped["seeds"] if str(s) not in shipped["failed"]]
    details = shipped["details"][at.index(entry["seed"])]
    lines = [
        "| Learns from | Labels | Test % | Dev % |",
        "| --- | ---: | ---: | ---: |",
        *(
            f"| {escape(row['arm'])} | {row['labels']:,} | "
            f"{tables.percent(row['test_score'])} | "
            f"{tables.percent(row['dev_score'])} |"
            for row in rows
        ),
        "",
        f"{tables.seeds(rows[0])}; here is “{escape(entry['arm'])}”. The "
        f"teacher's {found['task']['measure']} on test is "
        f"{100 * found['teacher']['test_score']:.1f} %.",
        "",
        escape(told["headline"]),
        "",
    ]
    lines += tables.details(details)
    return "\n".join([*lines, *tables.files_markdown({"": entry["files"]})])
