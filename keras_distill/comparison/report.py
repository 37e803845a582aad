"""`report.json` and `report.md`: the numbers, and how they were measured."""

import datetime

import numpy as np

from keras_distill._files import complete_file
from keras_distill._files import write_json
from keras_distill.comparison import html
from keras_distill.comparison import results
from keras_distill.comparison import statistics
from keras_distill.comparison import tables
from keras_distill.comparison import training
from keras_distill.comparison import verdict
from keras_distill.comparison.exports import TEACHER
from keras_distill.comparison.provenance import environment
from keras_distill.comparison.task import TRANSFER


def build(finished, task, files, options):
    """All that the reports say.

    Args:
        finished: List of `results.Finished`, all cells.
        task: `Task`.
        files: Dict from `exports.export`, empty without exports.
        options: `CompareOptions`.

    Returns:
        Dict that JSON can hold.
    """
    labels = task.encoded["test"].labels
    teacher = _teacher(task, files)
    found = {
        "title": f"Does distillation help on {task.name}?",
        "date": datetime.datetime.now().astimezone().date().isoformat(),
        "task": _task(task),
        "teacher": teacher,
        "verdicts": verdict.verdicts(
            finished, labels, teacher["test_accuracy"]
        ),
        "rows": results.of_arms(finished, labels, options.cost_per_hour),
        "left_out": results.left_out(finished),
        "exports": files,
        "settings": options.settings,
        "students": {
            name: cells[0].cell.student.options()
            for name, cells in results.by_student(finished)
        },
        "environment": environment(),
    }
    found["measured"] = measured(found, task, options)
    return found


def write(found, output, with_html):
    """Writes `report.json`, `report.md` and, if asked for, `report.html`.

    Args:
        found: Dict, from `build`.
        output: Path of the folder.
        with_html: Boolean.
    """
    write_json(output / "report.json", found)
    texts = {"report.md": tables.markdown(found)}
    if with_html:
        texts["report.html"] = html.page(found)
    for name, text in texts.items():
        with complete_file(output / name) as draft:
            draft.write_text(text, encoding="utf-8")


def measured(found, task, options):
    """How it was measured, in sentences.

    Args:
        found: Dict, from `build`.
        task: `Task`.
        options: `CompareOptions`.
    """
    rows = found["rows"]
    arms = {row["arm"] for row in rows}
    seeds = rows[0]["seeds"]
    cells = sum(len(row["seeds"]) for row in rows)
    sizes = found["task"]["rows"]
    told = [
        f"Data: {task.name}; {sizes['train']:,} train, {sizes['dev']:,} dev "
        f"and {sizes['test']:,} test texts, {task.num_classes} classes.",
        *task.notes,
        *task.splits.notes,
        f"{tables.count(len(found['students']), 'student')} x "
        f"{tables.count(len(arms), 'arm')} x "
        f"{tables.count(len(seeds), 'seed')} "
        f"({', '.join(map(str, seeds))}) = {tables.count(cells, 'training')}. "
        + _left_out(found["left_out"]),
        "All arms of a student start from the same weights with the same "
        "seed and take the same number of steps: "
        + "; ".join(
            f"{name}: {rows_of[0]['steps']:,} steps of "
            f"{found['students'][name]['batch_size']} texts, dev scored "
            f"after each of {found['students'][name]['epochs']} epochs"
            for name, rows_of in _by_student(rows)
        )
        + ".",
        "The epoch with the best accuracy on dev is kept. Test is scored once "
        "for each training.",
        "Intervals: paired bootstrap, 10,000 replicates over test texts and "
        "seeds, both drawn with replacement. They are not corrected for the "
        "number of arms.",
        "ECE: expected calibration error, 15 bins of equal width. Agreement: "
        "share of test texts where student and teacher predict the same "
        "class.",
        "Seconds: the training of the student, dev included, without the "
        "teacher's passes over the texts, on the machine below.",
    ]
    if options.labels is not None:
        told.insert(
            2,
            f"Students see {options.labels:,} of the train labels, chosen by "
            "the seed; arms with transfer also see the other train texts, "
            "without their labels.",
        )
    if options.cost_per_hour is not None:
        told.append(f"Cost: at {options.cost_per_hour:g} an hour.")
    if found["exports"]:
        told.append(
            "Size and latency: the TFLite file of each student, float32; one "
            f"text of {task.encoded['dev'].width} tokens, one thread, median "
            "of 50 runs. All arms of a student have the same architecture "
            "and so share one measurement."
        )
    elif not options.export:
        told.append("Not exported: no file sizes and no latencies.")
    else:
        told.append(
            "Not exported, which needs Keras' TensorFlow backend: no file "
            "sizes and no latencies."
        )
    return told


def _left_out(names):
    if not names:
        return "All of them are in this report; none was left out."
    return (
        f"{tables.count(len(names), 'further training')} in this folder "
        f"{'was' if len(names) == 1 else 'were'} not asked for in this "
        f"report: {'; '.join(names)}."
    )


def _by_student(rows):
    found = {}
    for row in rows:
        found.setdefault(row["student"], []).append(row)
    return found.items()


def _task(task):
    labels = task.splits.train.labels
    rows = {part: len(encoded) for part, encoded in task.encoded.items()}
    return {
        "name": task.name,
        "rows": rows,
        "labelled_train_rows": int((labels >= 0).sum()),
        "transfer_rows": rows.get(TRANSFER, 0),
        "label_names": list(task.splits.label_names),
        "notes": [*task.splits.notes, *task.notes],
    }


def _teacher(task, files):
    logits = {part: np.asarray(task.logits[part]) for part in ("dev", "test")}
    labels = {part: task.encoded[part].labels for part in logits}
    reliability = statistics.reliability(logits["test"], labels["test"])
    found = {
        "dev_accuracy": training.accuracy_of(logits["dev"], labels["dev"]),
        "test_accuracy": training.accuracy_of(logits["test"], labels["test"]),
        "ece": reliability["ece"],
        "reliability": reliability,
        "parameters": None,
        "file": files.get(TEACHER, {}).get("files", {}).get("float32"),
    }
    if task.teacher is not None:
        found["parameters"] = task.teacher.count_params()
    return found
