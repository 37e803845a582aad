"""LiteRT (TFLite) files."""

import os
import pathlib

import numpy as np

from keras_distill._checks import check_choice
from keras_distill._checks import check_integer
from keras_distill._files import drafts_beside
from keras_distill._files import write_json
from keras_distill.export import forms
from keras_distill.export.conversion import convert
from keras_distill.export.inputs import read_inputs
from keras_distill.export.latency import LiteRTModel
from keras_distill.export.latency import interpreter_class
from keras_distill.export.latency import measure_latency
from keras_distill.export.options import ExportOptions
from keras_distill.export.report import ExportError
from keras_distill.export.report import ExportReport
from keras_distill.export.report import compare
from keras_distill.export.report import valid_tokens
from keras_distill.export.sidecar import check_replaceable
from keras_distill.export.sidecar import describe
from keras_distill.export.sidecar import publish_files
from keras_distill.export.sidecar import save_vocabulary
from keras_distill.export.student_checks import check_examples
from keras_distill.export.student_checks import check_student
from keras_distill.quantization.aware import on_grid
from keras_distill.quantization.aware import plain_student

FORMAT = "litert"


def litert(  # noqa: PLR0913 - What the file is, and what it is held to.
    student,
    path,
    quantization=None,
    calibration=None,
    *,
    examples=None,
    sequence_length="examples",
    labels=None,
    tokenizer=None,
    min_agreement=0.99,
    task="classification",
    tolerance=None,
):
    """Exports the student as a `.tflite` file, and proves that it still is it.

    The signature `"serving_default"` maps the student's inputs by name (int32
    `[1, length]` token ids and masks) to float32 `logits`, one text at a time.
    Only LiteRT's built-in operations are used.

    The file is written beside `path`, run by LiteRT's interpreter on
    `examples`, compared with the student, and moved to `path` only if they
    agree. An earlier export there is replaced then, and kept otherwise. For
    `name.tflite`, `name.metadata.json` holds labels, inputs, outputs and the
    result of the comparison, `name.vocabulary.txt` (as the tokenizer calls
    its files) the vocabulary.

    Args:
        student: A built `keras.Model`, or a `kd.quantization.QuantizationAware`
            one, which knows its `quantization` and its ranges.
        path: Path of the file to make, ending in `.tflite`.
        quantization: What is stored in fewer bits.

            * `None`: nothing; float32.
            * `"float16"`: the weights; half the size.
            * `"dynamic"`: the weights, int8; activations are quantized as the
              model runs. A quarter of the size, and fast.
            * `"int8"`: weights and activations, with the activations' ranges
              from `calibration`. Operations without an int8 kernel stay
              float32. Not for recurrent layers.
            * `"int8_weights"`: weights alone, with one scale for each unit,
              of a table for each row; computed in float32.
            * `"int4"`: as `"dynamic"`, with the weights of dense layers,
              convolutions and tables in 4 bits, and one scale as before.
            * A recipe of ai-edge-quantizer, a list of dicts: what it says, and
              tables as in `"int8_weights"`.
        calibration: Inputs like `examples`, some hundred rows of the training
            set, for `"int8"` and for recipes of activations only.
        examples: Real inputs, arrays `[examples, ...]` by input name.
            Required.
        sequence_length: The length of the inputs in the file. `"examples"`
            (default): fixed, that of `examples`. An integer: the same, stated.
            `None`: any length, resized at run time.
        labels: Strings, the names of the logits in their order; they go into
            the metadata. Optional.
        tokenizer: A KerasHub tokenizer, whose vocabulary is copied beside the
            file. Optional.
        min_agreement: Float in `[0, 1]`. The share of the examples on which
            the export must predict what the student predicts. Defaults to
            `0.99`.
        task: What a prediction is. `"classification"` (default): the largest
            logit. `"multi_label"`: the sign of each logit. `"regression"`: the
            values themselves, up to `tolerance`. `"vectors"`: their direction.
        tolerance: Float, the largest absolute difference that counts as
            agreement, of `"vectors"` by how much their cosine may be below 1;
            required for these two, and only there.

    Returns:
        An `ExportReport`.

    Raises:
        ValueError: If an argument is wrong.
        FileExistsError: If `path` holds something else than an export.
        ExportError: If the export disagrees with the student, or if LiteRT
            lacks an operation of it. Nothing is written then.
        ImportError: If `ai-edge-litert` is missing.

    Example:

    >>> import keras, numpy as np, pathlib, tempfile
    >>> x = keras.Input((3,), name="x")
    >>> student = keras.Model(x, keras.layers.Dense(2)(x))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "student.tflite"
    ...     report = litert(student, path, examples={"x": np.eye(3)})
    >>> report.agreement
    1.0

    Reference:
        Jacob et al., 2018, https://arxiv.org/abs/1712.05877 (int8).
    """
    options = ExportOptions(labels, tokenizer, min_agreement, task, tolerance)
    path = pathlib.Path(os.fspath(path))
    metadata_path = path.with_suffix(".metadata.json")
    _check_path(path)
    plain = plain_student(student)
    check_student(plain)
    quantization = forms.checked(student, quantization, calibration)
    interpreter_class()
    check_examples(examples)
    check_replaceable(path, metadata_path, FORMAT)
    _check_not_text("examples", examples)
    inputs = read_inputs(plain, examples)
    arrays = inputs.arrays(examples)
    shapes = _shapes(inputs, arrays, sequence_length)
    ranges = _calibration(inputs, calibration, shapes)
    with on_grid(student), drafts_beside(path) as folder:
        expected = inputs.predict(student, arrays)
        options.check_labels(expected)
        file = folder / path.name

        def made(form):
            return convert(
                student, inputs, shapes, sorted(expected), form, ranges
            )

        buffer = made(quantization)
        file.write_bytes(buffer)
        result = compare(
            expected,
            _run(file, arrays),
            options,
            valid_tokens(arrays),
            lambda: forms.advice(student, quantization, made, file, arrays),
        )
        report = ExportReport(
            path=path,
            size_bytes=len(buffer),
            examples=len(next(iter(arrays.values()))),
            latency_ms=measure_latency(file, arrays),
            **result,
        )
        contents = describe(
            report,
            _signature(inputs, shapes),
            expected,
            options,
            tokenizer,
            format=FORMAT,
            quantization=forms.name(quantization),
            sequence_length=_fixed_length(shapes),
            vocabulary_files=save_vocabulary(
                tokenizer, folder, prefix=f"{path.stem}."
            ),
        )
        write_json(folder / metadata_path.name, contents)
        publish_files(folder, path, metadata_path)
    return report


def _run(file, arrays):
    """The outputs of a file in its own runtime."""
    try:
        return LiteRTModel(file).predict(arrays)
    except (RuntimeError, ValueError) as error:
        raise ExportError(
            "LiteRT cannot run the file; nothing was written. Take another "
            f"`quantization`. It says: {str(error)[:300]}"
        ) from error


def _shapes(inputs, arrays, sequence_length):
    """The shape of each input in the file, with its batch of 1."""
    if isinstance(sequence_length, str):
        check_choice("sequence_length", sequence_length, ("examples",))
    elif sequence_length is not None:
        check_integer("sequence_length", sequence_length, minimum=1)
    # Beside texts a model may read so many numbers of another kind.
    free = [spec.name for spec in inputs.specs if spec.shape[:1] == (None,)]
    of_texts = free or [spec.name for spec in inputs.specs]
    is_stated = sequence_length not in (None, "examples")
    shapes = {}
    for spec in inputs.specs:
        found = arrays[spec.name].shape[1:]
        shape = spec.shape if sequence_length is None else found
        is_checked = is_stated and spec.name in of_texts
        if is_checked and shape[:1] != (sequence_length,):
            raise ValueError(
                "`sequence_length` must be the length of `examples`, which "
                "the file is tested on. Pad or cut them. Received: "
                f"sequence_length={sequence_length}, "
                f"examples[{spec.name!r}].shape={arrays[spec.name].shape}"
            )
        shapes[spec.name] = (1, *shape)
    return shapes


def _calibration(inputs, calibration, shapes):
    if calibration is None:
        return None
    _check_not_text("calibration", calibration)
    arrays = inputs.arrays(calibration, argument="calibration")
    for name, array in arrays.items():
        expected = shapes[name][1:]
        if any(
            size not in (None, found)
            for size, found in zip(expected, array.shape[1:])
        ):
            raise ValueError(
                "`calibration` must have the shapes of `examples`. Received: "
                f"calibration[{name!r}].shape={array.shape}, expected "
                f"{(None, *expected)}"
            )
    return arrays


def _signature(inputs, shapes):
    return [
        {
            "name": spec.name,
            "dtype": spec.dtype,
            "shape": list(shapes[spec.name]),
        }
        for spec in inputs.specs
    ]


def _fixed_length(shapes):
    shape = shapes.get("token_ids", (1, None))
    return shape[1]


def _check_path(path):
    if path.suffix != ".tflite":
        raise ValueError(
            f"`path` must end in `.tflite`. Received: path={str(path)!r}"
        )


def _check_not_text(name, inputs):
    values = inputs.values() if isinstance(inputs, dict) else [inputs]
    if any(np.asarray(value).dtype.kind in "UOS" for value in values):
        raise ValueError(
            f"`{name}` must be token ids: a `.tflite` file does not tokenise. "
            f"Pass `preprocessor(texts)`. Received: strings"
        )
