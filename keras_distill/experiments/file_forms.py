"""The forms of files that ship: how each is made, and scored as it is."""

import functools
import math

from keras_distill import export
from keras_distill.experiments import training
from keras_distill.export.latency import LiteRTModel
from keras_distill.quantization import QuantizationAware

EXAMPLES, AGREEMENT = 1000, 0.99
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
    """The share of examples that must agree, by as much less as is chance.

    Where classes are hard to tell some texts stand at a tie, which rounding
    decides: of a file that agrees on 99.5 % of all texts a twelfth of all draws
    of 200 has three or more of them. One of few may always be one.
    """
    rows = min(EXAMPLES, len(task.encoded["dev"]))
    chance = math.sqrt(AGREEMENT * (1 - AGREEMENT) / rows)
    return min(AGREEMENT - chance, 1 - 1 / rows)


def litert(model, path, task, quantization=None):
    """Exports to TFLite, and scores the file on the test part.

    Args:
        model: `keras.Model`.
        path: Path of the file.
        task: `Task`.
        quantization: As in `export.litert`; a model that was trained under
            rounding knows its own.

    Returns:
        Dict: path, size, latency, agreement, test accuracy.
    """
    if isinstance(model, QuantizationAware):
        quantization = None
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
    if isinstance(model, QuantizationAware):
        model = model.finish()
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


def _facts(report):
    return {
        "path": report.path.name,
        "size_bytes": report.size_bytes,
        "latency_ms": report.latency_ms,
        "agreement": report.agreement,
        "max_difference": report.max_difference,
        "examples": report.examples,
    }
