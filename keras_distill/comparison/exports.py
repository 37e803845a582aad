"""The best student of each kind, and the teacher, as files."""

import pathlib

from keras_distill._files import read_json
from keras_distill._files import write_json
from keras_distill.comparison import results
from keras_distill.comparison import shipping
from keras_distill.comparison import training
from keras_distill.comparison.arms import slug

TEACHER = "teacher"


def export(finished, task, folder, options):
    """Exports the teacher, and of each student the cell best on dev.

    The arm is the one with the best mean on dev, whatever it learns from.
    What is already there, of the same cell, is not made again.

    Args:
        finished: List of `results.Finished`.
        task: `Task`.
        folder: Path.
        options: `CompareOptions`.

    Returns:
        Dict from a student's name, and `"teacher"`, to a dict with `cell`
        (which one it is) and `files`, facts by form.
    """
    found = {}
    if task.teacher is not None:
        made_from = {"teacher": task.hashes["teacher"]}
        found[TEACHER] = _once(
            folder / "teacher",
            made_from,
            options,
            lambda path: _teacher_files(task, path),
        )
    for name, cells in results.by_student(finished):
        best = results.best_on_dev(results.best_arm_on_dev(cells))
        record = best.cell.record()
        made_from = {"cell": record["cell"], **record["made_with"]}
        found[name] = _once(
            folder / slug(name),
            made_from,
            options,
            lambda path, best=best: _student_files(best, task, path),
        )
        found[name]["arm"] = best.cell.arm.name
        found[name]["seed"] = best.cell.seed
    return found


def _once(folder, made_from, options, make):
    path = folder / "export.json"
    if path.exists():
        held = read_json(path)
        if held["made_from"] == made_from and all(
            (folder / file["path"]).exists()
            for file in held["files"].values()
            if "refused" not in file
        ):
            return {"folder": folder.name, "files": held["files"]}
    options.watcher.line(f"export: {folder.name}")
    path.unlink(missing_ok=True)
    files = make(folder)
    write_json(path, {"made_from": made_from, "files": files})
    options.watcher.line(f"      {shipping.summary(files)}")
    return {"folder": folder.name, "files": files}


def _teacher_files(task, folder):
    path = pathlib.Path(folder) / "teacher.tflite"
    return {"float32": shipping.litert(task.teacher, path, task)}


def _student_files(best, task, folder):
    model = training.load(best.cell.file("keras"))
    return shipping.all_forms(model, folder, task)
