"""The files that ship, scored on the test part as they are."""

import functools
import pathlib

import keras

from keras_distill import export
from keras_distill.experiments import training
from keras_distill.experiments.phases import Phase
from keras_distill.export.latency import LiteRTModel

EXPORT = pathlib.Path("export")
EXAMPLES, AGREEMENT = 200, 0.99
# Each form by its name in reports: how its file is called, and how it is made.
FLOAT32, INT8, INT4, SAVED_MODEL = "float32", "int8", "int4", "SavedModel"
# What every student has, and one that some have beside them.
ALL_FORMS, NUMPY = (FLOAT32, INT8, SAVED_MODEL), "NumPy"
ENDINGS = {
    FLOAT32: ".tflite",
    INT8: "_int8.tflite",
    INT4: "_int4.tflite",
    SAVED_MODEL: "_saved_model",
    NUMPY: "_vectors.npz",
}
# A card goes into a SavedModel afterwards, so its parts are what is kept.
SAVED_MODEL_PARTS = ("saved_model.pb", "variables")


def phase(name, title, load, place, task, folder, needs, forms=(FLOAT32,)):
    """The `Phase` that exports one model.

    Args:
        name: String.
        title: String.
        load: Callable that gives the model.
        place: Path of the files, relative to the run's folder, without the
            ending of each form: `export/distilled`.
        task: `Task`.
        folder: Path of the run's folder.
        needs: Names of the phases that made the model.
        forms: Which of `ENDINGS`.
    """

    def make():
        model = load()
        return {
            form: exported(
                model, form, folder / f"{place}{ENDINGS[form]}", task
            )
            for form in forms
        }

    return Phase(
        name=name,
        title=f"export: {title}",
        options={"forms": list(forms)},
        needs=needs,
        run=make,
        summary=summary,
        files=functools.partial(_parts, place.parent),
        cheap=True,
    )


def exported(model, form, path, task):
    """Exports a model in one form, and scores it on test where that can be.

    Args:
        model: `keras.Model`.
        form: One of `ENDINGS`.
        path: Path of the file or folder.
        task: `Task`.

    Returns:
        Dict: path, size, latency, agreement, test score; or `refused`, why
        there is no file.
    """
    try:
        return _MAKERS[form](model, path, task)
    except export.ExportError as error:
        return {"path": path.name, "refused": " ".join(str(error).split())}


def least_agreement(task):
    """The share of examples that must agree: one of few may stand at a tie."""
    return min(AGREEMENT, 1 - 1 / min(EXAMPLES, len(task.encoded["dev"])))


def _parts(parent, files):
    """The paths of what was exported."""
    for form, file in files.items():
        if "refused" in file:
            continue
        path = parent / file["path"]
        if form == SAVED_MODEL:
            yield from (path / part for part in SAVED_MODEL_PARTS)
        else:
            yield path


def litert(model, path, task, quantization=None):
    """Exports to TFLite, and scores the file on the test part.

    Args:
        model: `keras.Model`.
        path: Path of the file.
        task: `Task`.
        quantization: As in `export.litert`.

    Returns:
        Dict: path, size, latency, agreement, test accuracy.
    """
    tokenizer = None
    if task.preprocessor is not None:
        tokenizer = task.preprocessor.tokenizer
    report = export.litert(
        model,
        path,
        quantization,
        examples=task.examples(EXAMPLES),
        labels=task.output_names,
        tokenizer=tokenizer,
        min_agreement=least_agreement(task),
        task=task.export_as,
        tolerance=task.tolerance,
    )
    file = LiteRTModel(path)
    (test,) = file.predict(task.encoded["test"].inputs).values()
    logits = {"test": test}
    if task.chooses_on_dev:
        # Thresholds and the like are those of the model.
        logits["dev"] = training.predict(model, task.encoded["dev"])
    score = task.score(logits, "test")
    return {**_facts(report), **task.named({"test_score": score})}


def saved_model(model, path, task):
    """Exports to a SavedModel that takes raw data, or ids without tokenizer.

    Args:
        model: `keras.Model`.
        path: Path of the folder.
        task: `Task`.

    Returns:
        As `litert`, without a test accuracy.
    """
    raw = task.preprocessor is not None
    report = export.saved_model(
        model,
        path,
        task.preprocessor,
        examples=(task.raw_examples if raw else task.examples)(EXAMPLES),
        labels=task.output_names,
        min_agreement=least_agreement(task),
        task=task.export_as,
        tolerance=task.tolerance,
    )
    return _facts(report)


def numpy(model, path, task):
    """Exports static vectors as plain float16 arrays, and scores them as such.

    Args:
        model: `keras.Model`.
        path: Path of the file.
        task: `Task`.

    Returns:
        As `litert`.
    """
    report = export.vectors(
        model,
        path,
        task.preprocessor.tokenizer,
        examples=task.examples(EXAMPLES),
        quantization="float16",
        tolerance=task.tolerance,
    )
    test = task.encoded["test"].inputs
    found = export.StaticVectors(path)(test["token_ids"], test["padding_mask"])
    score = task.score({"test": found}, "test")
    return {**_facts(report), **task.named({"test_score": score})}


_MAKERS = {
    NUMPY: numpy,
    FLOAT32: litert,
    INT8: functools.partial(litert, quantization="dynamic"),
    INT4: functools.partial(litert, quantization="int4"),
    SAVED_MODEL: saved_model,
}


def teacher_phase(teacher, task, folder, place, forms):
    """The `Phase` that exports the teacher, to compare with."""
    found = phase(
        "export_teacher",
        "the teacher, to compare with",
        lambda: teacher.model,
        place,
        task,
        folder,
        needs=(),
        forms=forms,
    )
    found.options["teacher"] = teacher.hash()
    return found


def student_phase(cell, name, place, task, folder, forms):
    """The `Phase` that exports the student of a finished cell."""
    found = phase(
        f"export_{name}",
        f"{name}, the seed that is best on dev",
        lambda: training.load(cell.model_file(folder)),
        place,
        task,
        folder,
        needs=(cell.name,),
        forms=(*forms, *cell.student.export_forms),
    )
    found.options["cell"] = cell.name
    return found


def ship(
    students,
    task,
    teacher,
    folder,
    watcher,
    place=EXPORT / "teacher",
    forms=(FLOAT32,),
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
        Dict from `"teacher"` and the names to their files by form. Nothing on
        another backend than TensorFlow, which makes them.
    """
    if keras.backend.backend() != "tensorflow":
        return {}
    phases = {}
    if teacher.model is not None:
        phases["teacher"] = teacher_phase(
            teacher, task, folder.path, place, forms
        )
    for name, (cell, where, how) in students.items():
        phases[name] = student_phase(cell, name, where, task, folder.path, how)
    folder.execute(list(phases.values()), watcher)
    return {name: folder.result(one.name) for name, one in phases.items()}


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


def _facts(report):
    return {
        "path": report.path.name,
        "size_bytes": report.size_bytes,
        "latency_ms": report.latency_ms,
        "agreement": report.agreement,
        "max_difference": report.max_difference,
        "examples": report.examples,
    }
