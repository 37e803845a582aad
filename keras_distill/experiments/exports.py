"""The files that ship, scored on the test part as they are."""

import functools
import pathlib

import keras

from keras_distill._watcher import Watcher
from keras_distill.experiments import file_forms
from keras_distill.experiments import on_tensorflow
from keras_distill.experiments import training
from keras_distill.experiments.phases import Phase

EXPORT = pathlib.Path("export")
# A card goes into a SavedModel afterwards, so its parts are what is kept.
SAVED_MODEL_PARTS = ("saved_model.pb", "variables")
ADVICE = (
    "Load a `student.keras` of `cells` where KERAS_BACKEND is tensorflow, and "
    "see `kd.export`"
)


def phase(
    name, title, load, place, task, folder, needs, forms=(file_forms.FLOAT32,)
):
    """The `Phase` that exports one model.

    Args:
        name: String.
        title: String.
        load: Callable that gives the model, and can be pickled.
        place: Path of the files, relative to the run's folder, without the
            ending of each form: `export/distilled`.
        task: `Task`.
        folder: Path of the run's folder.
        needs: Names of the phases that made the model.
        forms: Which of `file_forms.ENDINGS`.
    """
    return Phase(
        name=name,
        title=f"export: {title}",
        options={"forms": list(forms)},
        needs=needs,
        run=functools.partial(_make, load, forms, folder, place, task),
        summary=summary,
        files=functools.partial(_parts, place.parent),
        cheap=True,
    )


def _make(load, forms, folder, place, task):
    model = load()
    return {
        form: file_forms.exported(
            model, form, folder / f"{place}{file_forms.ENDINGS[form]}", task
        )
        for form in forms
    }


def _itself(model):
    return model


def _parts(parent, files):
    """The paths of what was exported."""
    for form, file in files.items():
        if "refused" in file:
            continue
        path = parent / file["path"]
        if form == file_forms.SAVED_MODEL:
            yield from (path / part for part in SAVED_MODEL_PARTS)
        else:
            yield path


def teacher_phase(teacher, task, folder, place, forms):
    """The `Phase` that exports the teacher, to compare with."""
    found = phase(
        "export_teacher",
        "the teacher, to compare with",
        functools.partial(_itself, teacher.model),
        place,
        task,
        folder,
        needs=(),
        forms=forms,
    )
    found.options["teacher"] = teacher.hash()
    # Its file is scored on test.
    found.options["texts"] = task.hashes()["texts"]
    return found


def student_phase(cell, name, place, task, folder, forms):
    """The `Phase` that exports the student of a finished cell."""
    found = phase(
        f"export_{name}",
        f"{name}, the seed that is best on dev",
        functools.partial(training.load, cell.model_file(folder)),
        place,
        task,
        folder,
        needs=(cell.name,),
        forms=_forms(cell.student, forms),
    )
    found.options["cell"] = cell.name
    return found


def _forms(student, usual):
    """What a student has: one that was trained for a file, that file."""
    if student.quantization is None:
        return (*usual, *student.export_forms)
    return (
        student.quantization,
        *(f for f in usual if f == file_forms.SAVED_MODEL),
    )


def ship(
    students,
    task,
    teacher,
    folder,
    watcher,
    place=EXPORT / "teacher",
    forms=(file_forms.FLOAT32,),
):
    """Exports finished cells, and the teacher beside them.

    Args:
        students: Dict from names to what makes a phase: the `Cell`, the place
            of its files, and their forms.
        task: `Task`.
        teacher: `Teacher`.
        folder: `RunFolder`.
        watcher: `Watcher`, or None.
        place: Path, where the teacher goes.
        forms: Of the teacher.

    Returns:
        Dict from `"teacher"` and the names to their files by form. Nothing if
        the run is on another backend than TensorFlow, which makes them, and
        its parts cannot go to a process there; the watcher is told why.
    """
    phases = {}
    if teacher.model is not None:
        phases["teacher"] = teacher_phase(
            teacher, task, folder.path, place, forms
        )
    for name, (cell, where, how) in students.items():
        phases[name] = student_phase(cell, name, where, task, folder.path, how)
    planned = list(phases.values())
    if keras.backend.backend() != "tensorflow" and folder.missing(planned):
        watcher = watcher or Watcher()
        watcher.line("export: on TensorFlow, in a process of its own")
        failure = on_tensorflow.execute(planned, folder.path)
        if failure is not None:
            watcher.line(f"not exported: {failure}. {ADVICE}")
            return {}
    folder.execute(planned, watcher)
    return {name: folder.result(one.name) for name, one in phases.items()}


def main_file(files):
    """The first of a dict of exports: what the model was trained for."""
    return next(iter(files.values()), None)


def summary(files):
    """One line on a dict of exports."""
    return ", ".join(
        f"{name}: not exported ({file['refused'][:200]})"
        if "refused" in file
        else f"{name} {size(file['size_bytes'])}"
        for name, file in files.items()
    )


def size(count):
    """A number of bytes for people.

    Example:

    >>> size(2_345_678), size(45_600)
    ('2.35 MB', '45.6 kB')
    """
    if count < 1e6:
        return f"{count / 1e3:.1f} kB"
    return f"{count / 1e6:.2f} MB"
