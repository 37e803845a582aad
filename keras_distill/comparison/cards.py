"""The model cards of a comparison's exports."""

import json

from keras_distill.comparison import tables
from keras_distill.comparison import verdict
from keras_distill.comparison.exports import TEACHER
from keras_distill.export.card import model_card

LIMITS = (
    "It has been trained and scored on the data named above, and nowhere "
    "else. Other texts, other languages and other times may give other "
    "results.",
    "It inherits what the teacher and the labels get wrong, and what they are "
    "biased towards. Nobody has looked for that here.",
    "The epoch, the seed and the arm were chosen on dev; test was used for "
    "the report alone.",
)


def write(found, task, folder):
    """Writes a card beside the files of each student.

    Args:
        found: Dict, from `report.build`.
        task: `Task`.
        folder: Path of the folder `export`.
    """
    for name, entry in found["exports"].items():
        if name == TEACHER:
            continue
        made = folder / entry["folder"]
        rows = [row for row in found["rows"] if row["student"] == name]
        shipped = next(row for row in rows if row["arm"] == entry["arm"])
        told = next(v for v in found["verdicts"] if v["student"] == name)
        sections = {
            "What it is": _purpose(found, name, shipped),
            "Data": _data(found),
            "Teacher": teacher(found["teacher"], found["settings"]),
            "Training": _training(found, name, shipped, entry),
            "Metrics": _metrics(found, shipped, told, entry),
            "Limits": limits(shipped["ece"]["mean"], task),
            "How to repeat": repeat(found["settings"], found["environment"]),
        }
        write_cards(
            made, f"{name}: {task.name}", sections, entry["files"], task
        )


def write_cards(folder, title, sections, files, corpus):
    """A card in `folder`, and one in each SavedModel, which may travel alone.

    Args:
        folder: Path of the exports.
        title: String.
        sections: Dict, as `export.model_card` takes it.
        files: Dict from forms to facts, of the exports to load.
        corpus: What has a `preprocessor`.
    """
    made = [
        file["path"]
        for form, file in files.items()
        if "refused" not in file and form != "int8"
    ]
    preprocessor = corpus.preprocessor
    model_card(folder, title, sections, made, preprocessor)
    for name in made:
        if (folder / name).is_dir():
            model_card(folder / name, title, sections, ["."])


def teacher(facts, settings):
    """What the student was taught by, in Markdown."""
    source = settings.get("teacher")
    size = facts["parameters"]
    return (
        (f"`{source}`. " if source else "")
        + (f"{size:,} weights. " if size else "")
        + f"Test accuracy {100 * facts['test_accuracy']:.1f} %."
    )


def limits(ece, corpus):
    """What not to expect, in Markdown."""
    width = corpus.encoded["test"].width
    labels = ", ".join(map(str, corpus.splits.label_names))
    told = [
        *LIMITS,
        f"Every text gets one of the labels {labels}, whatever it is about.",
        f"It reads the first {width} tokens of a text.",
    ]
    if ece is not None:
        told.append(
            "Its probabilities are off by "
            f"{100 * ece:.1f} points on average (expected calibration error)."
        )
    return "\n".join(f"- {sentence}" for sentence in told)


def repeat(settings, environment):
    """How to make it again, in Markdown."""
    return (
        f"{tables.machine(environment)}\n\nSettings:\n\n```json\n"
        f"{json.dumps(settings, indent=2, ensure_ascii=False)}\n```\n\n"
        "`report.json` in the run's folder holds them too, with all results."
    )


def _purpose(found, name, row):
    labels = ", ".join(map(str, found["task"]["label_names"]))
    how = (
        "distilled from a larger model"
        if row["is_distilled"]
        else "trained on hard labels, which did best on dev"
    )
    return (
        f"A text classifier ({labels}), {row['parameters']:,} weights: the "
        f"student “{name}”, {how}. Made by keras_distill on {found['date']}."
    )


def _data(found):
    task = found["task"]
    told = [
        f"{task['name']}: {task['rows']['train']:,} train texts "
        f"({task['labelled_train_rows']:,} with a label), "
        f"{task['rows']['dev']:,} dev and {task['rows']['test']:,} test.",
        *task["notes"],
    ]
    return "\n".join(f"- {sentence}" for sentence in told)


def _training(found, name, row, entry):
    options = found["students"][name]
    position = row["seeds"].index(entry["seed"])
    return (
        f"Arm “{row['arm']}”: {row['learns_from']}. {row['labels']:,} labels, "
        f"{row['texts']:,} texts; {row['steps']:,} steps of "
        f"{options['batch_size']} texts, Adam, learning rate "
        f"{options['learning_rate']:g}. Seed {entry['seed']}, epoch "
        f"{row['best_epochs'][position]} of {options['epochs']}, the best on "
        "dev."
    )


def _metrics(found, row, told, entry):
    lines = [
        f"Test accuracy {tables.percent(row['test_accuracy'])} % "
        f"({tables.seeds(row)}); the teacher's "
        f"{100 * found['teacher']['test_accuracy']:.1f} %.",
        "",
    ]
    if "against_control" in row:
        against = row["against_control"]
        lines += [
            "Against the same student on hard labels alone: "
            f"{verdict.signed(against['value'])} points "
            f"({verdict.interval(against)}).",
            "",
        ]
    lines += [told["headline"], ""]
    return "\n".join([*lines, *tables.files_markdown({"": entry["files"]})])
