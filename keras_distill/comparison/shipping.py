"""The files that ship, scored on the test part as they are."""

from keras_distill import export
from keras_distill.comparison import training
from keras_distill.export.latency import LiteRTModel

EXAMPLES = 200


def litert(model, path, corpus, quantization=None):
    """Exports to TFLite, and scores the file on the test part.

    Args:
        model: `keras.Model`.
        path: Path of the file.
        corpus: `Task`, or what has its `encoded`, `splits` and
            `preprocessor`.
        quantization: As in `export.litert`.

    Returns:
        Dict: path, size, latency, agreement, test accuracy; or `refused`, why
        there is no file.
    """
    examples = training.rows(corpus.encoded["dev"], slice(EXAMPLES)).inputs
    try:
        report = export.litert(
            model,
            path,
            quantization,
            examples=examples,
            labels=corpus.splits.label_names,
            tokenizer=getattr(corpus.preprocessor, "tokenizer", None),
        )
    except export.ExportError as error:
        return {"path": path.name, "refused": " ".join(str(error).split())}
    test = corpus.encoded["test"]
    logits = LiteRTModel(path).predict(test.inputs)["logits"]
    return {
        **_facts(report),
        "test_accuracy": training.accuracy_of(logits, test.labels),
    }


def saved_model(model, path, corpus):
    """Exports to a SavedModel that takes strings, or ids without tokenizer.

    Args:
        model: `keras.Model`.
        path: Path of the folder.
        corpus: `Task`, or what has its `encoded`, `splits` and
            `preprocessor`.

    Returns:
        As `litert`, without a test accuracy.
    """
    examples = corpus.splits.dev.texts[:EXAMPLES]
    if corpus.preprocessor is None:
        examples = training.rows(corpus.encoded["dev"], slice(EXAMPLES)).inputs
    try:
        report = export.saved_model(
            model,
            path,
            corpus.preprocessor,
            examples=examples,
            labels=corpus.splits.label_names,
        )
    except export.ExportError as error:
        return {"path": path.name, "refused": " ".join(str(error).split())}
    return _facts(report)


def all_forms(model, folder, corpus):
    """Exports to all forms: TFLite in float32 and int8, and SavedModel.

    Args:
        model: `keras.Model`.
        folder: Path.
        corpus: As in `litert`.

    Returns:
        Dict from the form to what `litert` and `saved_model` return.
    """
    return {
        "float32": litert(model, folder / "student.tflite", corpus),
        "int8": litert(
            model, folder / "student_int8.tflite", corpus, "dynamic"
        ),
        "SavedModel": saved_model(model, folder / "saved_model", corpus),
    }


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
