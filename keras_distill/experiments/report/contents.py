"""`report.json` and `report.md`: the numbers, and how they were measured."""

import dataclasses
import datetime

from keras_distill import _files
from keras_distill.experiments import exports
from keras_distill.experiments import results
from keras_distill.experiments.environment import environment
from keras_distill.experiments.floor import LINEAR
from keras_distill.experiments.report import cards
from keras_distill.experiments.report import entries
from keras_distill.experiments.report import html
from keras_distill.experiments.report import tables
from keras_distill.experiments.report import verdict
from keras_distill.experiments.report.entries import TEACHER
from keras_distill.experiments.report.numbers import count
from keras_distill.tasks.base import TRANSFER


@dataclasses.dataclass(frozen=True)
class About:
    """What a report says beside its cells.

    Args:
        command: String, what made the run.
        labels: Integer, how many train labels the students see, or None.
        cost_per_hour: Float, what an hour of training costs, or None.
        export: Boolean. Whether exports were asked for.
        settings: Dict that JSON can hold: what is needed to repeat the run.
    """

    command: str
    labels: int | None = None
    cost_per_hour: float | None = None
    export: bool = True
    settings: dict = dataclasses.field(default_factory=dict)


def build(outcome, task, teacher, files, folder, about):
    """All that the reports say.

    Args:
        outcome: `engine.Outcome`.
        task: `Task`.
        teacher: `Teacher`.
        files: Dict from a student's name, and `"teacher"`, to what was
            exported: `folder`, `files` and, of a student, `arm` and `seed`.
        folder: `RunFolder`.
        about: `About`.

    Returns:
        Dict that JSON can hold.
    """
    finished = outcome.finished
    facts = _teacher(task, teacher, files)
    found = {
        "command": about.command,
        "title": f"Does distillation help on {task.name}?",
        "date": datetime.datetime.now().astimezone().date().isoformat(),
        "task": _task(task),
        "teacher": facts,
        "floors": {
            name: _floor(floor, task) for name, floor in outcome.floors.items()
        },
        "weak_teacher": outcome.weak_teacher,
        "skipped": [cell.title for cell in outcome.skipped],
        "verdicts": verdict.verdicts(
            outcome, facts["test_score"], task.measure
        ),
        "rows": results.of_arms(
            finished, list(task.further), about.cost_per_hour
        ),
        "left_out": results.left_out(finished, folder),
        "exports": files,
        "settings": about.settings,
        "students": {
            name: _student(cells[0].cell.student, teacher.model)
            for name, cells in results.by_student(finished)
        },
        "seconds": folder.seconds(),
        "environment": environment(),
    }
    found["rows"] = [task.named(row) for row in found["rows"]]
    found["models"] = [task.named(model) for model in entries.models(found)]
    found["measured"] = measured(found, task, about)
    return found


def write(found, task, output, with_html=False):
    """Writes `report.json`, `report.md`, the cards, if asked `report.html`.

    Args:
        found: Dict, from `build`.
        task: `Task`.
        output: Path of the folder.
        with_html: Boolean.
    """
    _files.write_json(output / "report.json", found)
    texts = {"report.md": tables.markdown(found)}
    if with_html:
        texts["report.html"] = html.page(found)
    for name, text in texts.items():
        _files.write_text(output / name, text)
    cards.write(found, task, output / exports.EXPORT)


def measured(found, task, about):
    """How it was measured, in sentences.

    Args:
        found: Dict, from `build`.
        task: `Task`.
        about: `About`.
    """
    rows = found["rows"]
    arms = {row["arm"] for row in rows}
    seeds = rows[0]["seeds"]
    cells = sum(len(row["seeds"]) for row in rows)
    sizes = found["task"]["rows"]
    told = [
        f"Data: {task.name}; {sizes['train']:,} train, {sizes['dev']:,} dev "
        f"and {sizes['test']:,} test {task.noun}s; "
        f"{task.outputs_in_words(task.splits.label_names)}.",
        *found["task"]["notes"],
        f"{count(len(found['students']), 'student')} x "
        f"{count(len(arms), 'arm')} x "
        f"{count(len(seeds), 'seed')} "
        f"({', '.join(map(str, seeds))}) = {count(cells, 'training')}. "
        + _left_out(found["left_out"]),
        "All arms of a student start from the same weights with the same "
        "seed and take the same number of steps: "
        + "; ".join(
            f"{name}: {max(row['steps'] for row in rows_of):,} steps of "
            f"{found['students'][name]['batch_size']} {task.noun}s, dev scored "
            f"after each of {found['students'][name]['epochs']} epochs"
            for name, rows_of in _by_student(rows)
        )
        + ".",
        f"Dev and test: {task.measure}, x 100. The epoch with the best one on "
        "dev is kept. Test is scored once for each training.",
        "Intervals: paired bootstrap, 10,000 replicates over the test rows and "
        "seeds, both drawn with replacement. They are not corrected for the "
        "number of arms.",
        "ECE: expected calibration error, 15 bins of equal width. Agreement: "
        "share of predictions for test that student and teacher share; of "
        "scores their correlation, of vectors their mean cosine.",
        "Seconds: the training of the student, dev included, without the "
        "teacher's passes over the data, on the machine below.",
    ]
    told += [
        f"{name}: trained, and exported, under the rounding of an {how} file."
        for name, student in found["students"].items()
        if (how := student["quantization"])
    ]
    told += [
        f"{name}: starts from weights of {student['starts_from']} in every "
        "arm, with labels alone, too. What it knows from there is no "
        "difference between the arms."
        for name, student in found["students"].items()
        if student["starts_from"]
    ]
    if about.labels is not None:
        told.insert(
            2,
            f"Students see {about.labels:,} of the train labels, chosen by "
            "the seed; arms with transfer also see the other train "
            f"{task.noun}s, without their labels.",
        )
    if about.cost_per_hour is not None:
        told.append(f"Cost: at {about.cost_per_hour:g} an hour.")
    floor = found["floors"].get(LINEAR)
    if floor:
        told.append(
            f"Linear: {floor['model']} (scikit-learn), features and penalty "
            "chosen on dev, on the labels that the students see; size: weights "
            "and names of features; ms: in Python."
        )
    if found["skipped"]:
        told.append(
            "Left out because of the weak teacher: "
            f"{'; '.join(found['skipped'])}."
        )
    told.append(_on_exports(found, task, about))
    return told


def _on_exports(found, task, about):
    if found["exports"]:
        return (
            "Size and latency: the TFLite file of each student, float32 or "
            f"what it was trained for; {task.one_row()}, one thread, median of "
            "50 runs. The arms of a student that have as many weights share "
            "one measurement."
        )
    if not about.export:
        return "Not exported: no file sizes and no latencies."
    return (
        "Not exported, which needs Keras' TensorFlow backend: no file sizes "
        "and no latencies."
    )


def _left_out(names):
    if not names:
        return "All of them are in this report; none was left out."
    return (
        f"{count(len(names), 'further training')} in this folder "
        f"{'was' if len(names) == 1 else 'were'} not asked for in this "
        f"report: {'; '.join(names)}."
    )


def _by_student(rows):
    found = {}
    for row in rows:
        found.setdefault(row["student"], []).append(row)
    return found.items()


def _task(task):
    rows = {part: len(encoded) for part, encoded in task.encoded.items()}
    return {
        "name": task.name,
        "rows": rows,
        "noun": task.noun,
        "labelled_train_rows": task.labelled_train_rows,
        "transfer_rows": rows.get(TRANSFER, 0),
        "measure": task.measure,
        "further": {name: [*told] for name, told in task.further.items()},
        "label_noun": task.label_noun,
        "label_names": list(task.output_names or ()),
        "notes": [*task.splits.notes, *task.notes],
    }


def _floor(floor, task):
    first = floor.results[0]
    told = {
        "labels": first["labels"],
        "seeds": floor.seeds,
        **{
            name: results.spread(floor.scores(name))
            for name in ("dev_score", "test_score", *task.further, "seconds")
        },
        **{
            name: first[name]
            for name in (
                "model",
                "features",
                "parameters",
                "size_bytes",
                "latency_ms",
            )
        },
    }
    return task.named(told)


def _student(student, teacher):
    names = ("epochs", "batch_size", "learning_rate", "quantization")
    return {
        **{name: getattr(student, name) for name in names},
        "starts_from": student.starts_from(teacher),
    }


def _teacher(task, teacher, files):
    reliability = task.reliability(teacher.logits, "test")
    model = teacher.model
    return {
        "source": teacher.source,
        **task.scores(teacher.logits),
        **task.further_scores(teacher.logits),
        "ece": reliability and reliability["ece"],
        "reliability": reliability,
        "details": task.details(teacher.logits),
        "parameters": None if model is None else model.count_params(),
        "file": files.get(TEACHER, {}).get("files", {}).get("float32"),
    }
