"""TensorFlow's SavedModel."""

import os
import pathlib

import numpy as np
import tensorflow as tf

from keras_distill import _pairs
from keras_distill._files import complete_folder
from keras_distill._files import write_json
from keras_distill.export.inputs import read_inputs
from keras_distill.export.latency import measure_latency
from keras_distill.export.options import ExportOptions
from keras_distill.export.options import check_tokenizer
from keras_distill.export.recurrence import portable_recurrence
from keras_distill.export.report import ExportReport
from keras_distill.export.report import compare
from keras_distill.export.report import valid_tokens
from keras_distill.export.sidecar import check_replaceable
from keras_distill.export.sidecar import describe
from keras_distill.export.sidecar import save_vocabulary
from keras_distill.export.student_checks import check_examples
from keras_distill.export.student_checks import check_student

FORMAT = "saved_model"
METADATA = pathlib.Path("assets.extra") / "metadata.json"
BATCH = 32
# Inputs of an export that tokenises: a text, and the second one of a pair.
TEXTS = ("text", "text_pair")


def saved_model(  # noqa: PLR0913 - What the file is, and what it is held to.
    student,
    path,
    preprocessor=None,
    *,
    examples=None,
    labels=None,
    tokenizer=None,
    min_agreement=0.99,
    task="classification",
    tolerance=None,
):
    """Exports the student as a SavedModel, and proves that it is the student.

    The signature `"serving_default"` maps the student's inputs by name (int32
    `[batch, length]` token ids and masks, any batch, any length that the
    student takes) to float32 `logits`. With a `preprocessor` its one input is
    `text`, strings `[batch]`, tokenised inside the graph, for pairs beside
    `text_pair`; the process that loads it must `import tensorflow_text` first,
    for its operations.

    The export is written beside `path`, reloaded by `tf.saved_model.load`,
    compared with the student on `examples`, and moved to `path` only if they
    agree. An earlier export there is replaced then, and kept otherwise.
    `assets.extra/metadata.json` holds labels, inputs, outputs and the result
    of the comparison; the vocabulary lies beside it.

    Args:
        student: A built `keras.Model`.
        path: Path of the folder to make.
        preprocessor: A KerasHub preprocessor from strings to the student's
            inputs, or `None` for token ids.
        examples: Real inputs. Strings, or pairs of strings, with a
            `preprocessor`; without, arrays by input name, `[examples, ...]`.
            Required.
        labels: As for `litert`.
        tokenizer: As for `litert`; a `preprocessor` brings its own.
        min_agreement: As for `litert`. Defaults to `0.99`.
        task: As for `litert`. Defaults to `"classification"`.
        tolerance: As for `litert`.

    Returns:
        An `ExportReport`.

    Raises:
        ValueError: If an argument is wrong.
        FileExistsError: If `path` holds something else than an export.
        ExportError: If the export disagrees with the student. Nothing is
            written then.

    Example:

    >>> import keras, numpy as np, pathlib, tempfile
    >>> x = keras.Input((3,), name="x")
    >>> student = keras.Model(x, keras.layers.Dense(2)(x))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "student"
    ...     report = saved_model(student, path, examples={"x": np.eye(3)})
    >>> report.agreement
    1.0
    """
    options = ExportOptions(labels, tokenizer, min_agreement, task, tolerance)
    path = pathlib.Path(os.fspath(path))
    check_student(student)
    check_examples(examples)
    _check_path(path)
    check_replaceable(path, path / METADATA, FORMAT)
    tokenizer = _tokenizer(preprocessor, tokenizer)
    tokens = served = examples
    if preprocessor is not None:
        served = _texts(examples)
        tokens = _tokenise(preprocessor, served)
    inputs = read_inputs(student, tokens)
    arrays = inputs.arrays(tokens)
    if preprocessor is None:
        served = arrays
    expected = inputs.predict(student, arrays)
    options.check_labels(expected)
    with complete_folder(path) as folder:
        specs = _specs(inputs, preprocessor, served)
        _save(student, inputs, preprocessor, specs, folder)
        report = ExportReport(
            path=path,
            size_bytes=_size(folder),
            examples=len(next(iter(served.values()))),
            **_check(folder, served, expected, options, arrays),
        )
        extra = (folder / METADATA).parent
        extra.mkdir()
        contents = describe(
            report,
            _signature(specs),
            expected,
            options,
            tokenizer,
            format=FORMAT,
            quantization=None,
            sequence_length=getattr(preprocessor, "sequence_length", None),
            vocabulary_files=save_vocabulary(tokenizer, extra),
        )
        write_json(folder / METADATA, contents)
    return report


def _save(student, inputs, preprocessor, specs, folder):
    def serve(**tensors):
        if preprocessor is not None:
            parts = [tensors[name] for name in TEXTS if name in tensors]
            tensors = _pairs.preprocess(preprocessor, parts)
        return inputs.call(student, tensors)

    module = tf.Module()
    module.student_variables = [v.value for v in student.variables]
    module.preprocessor = preprocessor
    with portable_recurrence(student):
        # A function that `module` held would be traced again as it is saved.
        signature = tf.function(serve).get_concrete_function(**specs)
    tf.saved_model.save(
        module, str(folder), signatures={"serving_default": signature}
    )


def _check(folder, served, expected, options, arrays):
    """Agreement, differences and latency of the reloaded export."""
    loaded = tf.saved_model.load(str(folder))
    serve = loaded.signatures["serving_default"]
    tensors = {name: tf.constant(array) for name, array in served.items()}
    rows = len(next(iter(served.values())))
    batches = [
        serve(**{name: x[i : i + BATCH] for name, x in tensors.items()})
        for i in range(0, rows, BATCH)
    ]
    actual = {
        name: np.concatenate([batch[name] for batch in batches])
        for name in expected
    }
    result = compare(expected, actual, options, valid_tokens(arrays))
    latency_ms = measure_latency(lambda row: serve(**row), tensors)
    return {**result, "latency_ms": latency_ms}


def _specs(inputs, preprocessor, served):
    if preprocessor is not None:
        return {
            name: tf.TensorSpec((None,), "string", name=name) for name in served
        }
    return {
        spec.name: tf.TensorSpec(
            (None, *spec.shape), spec.dtype, name=spec.name
        )
        for spec in inputs.specs
    }


def _signature(specs):
    return [
        {"name": name, "dtype": spec.dtype.name, "shape": list(spec.shape)}
        for name, spec in specs.items()
    ]


def _size(folder):
    files = [file for file in folder.rglob("*") if file.is_file()]
    return sum(file.stat().st_size for file in files)


def _texts(examples):
    """Arrays of strings by the names of the inputs."""
    texts = np.asarray(examples)
    if (
        texts.shape[1:] not in ((), (len(TEXTS),))
        or texts.dtype.kind not in "UO"
        or not len(texts)
    ):
        raise ValueError(
            "`examples` must be a list of strings, or of pairs of strings, "
            "when `preprocessor` is given. Received: examples of shape "
            f"{texts.shape}, dtype {texts.dtype}"
        )
    columns = texts.astype(object).reshape(len(texts), -1).T
    return dict(zip(TEXTS, columns))


def _tokenise(preprocessor, texts):
    parts = list(texts.values())
    batches = [
        _pairs.preprocess(
            preprocessor, [tf.constant(part[i : i + BATCH]) for part in parts]
        )
        for i in range(0, len(parts[0]), BATCH)
    ]
    if not isinstance(batches[0], dict):
        batches = [{"inputs": batch} for batch in batches]
    return {
        name: np.concatenate([batch[name] for batch in batches])
        for name in batches[0]
    }


def _tokenizer(preprocessor, given):
    if preprocessor is None:
        return given
    if given is not None:
        raise ValueError(
            "`tokenizer` must be left out when `preprocessor` is given, which "
            f"brings its own. Received: tokenizer={given!r}"
        )
    tokenizer = getattr(preprocessor, "tokenizer", None)
    if not callable(preprocessor) or tokenizer is None:
        raise ValueError(
            "`preprocessor` must be a KerasHub preprocessor, with a "
            f"tokenizer. Received: preprocessor={preprocessor!r}"
        )
    check_tokenizer("preprocessor.tokenizer", tokenizer)
    return tokenizer


def _check_path(path):
    if path.suffix in (".keras", ".h5", ".pb", ".tflite"):
        raise ValueError(
            "`path` must be a folder: a SavedModel is one. "
            f"Received: path={str(path)!r}"
        )
