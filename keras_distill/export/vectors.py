"""Static vectors as plain arrays, for programs that have only NumPy."""

import os
import pathlib

import keras
import numpy as np

from keras_distill._checks import check_choice
from keras_distill._files import drafts_beside
from keras_distill._files import write_json
from keras_distill.export.inputs import read_inputs
from keras_distill.export.latency import measure_latency
from keras_distill.export.options import ExportOptions
from keras_distill.export.report import ExportReport
from keras_distill.export.report import compare
from keras_distill.export.sidecar import check_replaceable
from keras_distill.export.sidecar import describe
from keras_distill.export.sidecar import publish_files
from keras_distill.export.sidecar import save_vocabulary
from keras_distill.export.student_checks import check_examples
from keras_distill.export.student_checks import check_student

FORMAT = "npz"
ENDING = ".npz"
QUANTIZATIONS = (None, "float16")
WEIGHTS = ("table", "projection", "bias")
BLOCK = 1024


def vectors(
    student,
    path,
    tokenizer=None,
    examples=None,
    quantization=None,
    tolerance=0.02,
    min_agreement=0.99,
):
    """Writes a student of `kd.students.static` as an `.npz` file.

    `table`, of the tokens, `projection` and `bias`, that follow their mean;
    `StaticVectors` is all that a program needs to use them. Beside the file
    are its metadata, as of `litert`, and the tokenizer's files.

    Args:
        student: `keras.Model` of one `Embedding` and one `Dense`.
        path: Path that ends in `.npz`.
        tokenizer: KerasHub tokenizer, or None.
        examples: Dict of arrays, inputs that the file is compared on.
        quantization: `None` for float32, or `"float16"`: half the size, as
            fast, since `StaticVectors` holds float32.
        tolerance: Float, by how much a cosine may fall short of 1.
        min_agreement: Float, the share of examples within it.

    Returns:
        `ExportReport`.

    Raises:
        ValueError: The student is none of static vectors, or an argument is
            wrong.
        ExportError: The arrays do not say what the student says.

    Example:

    >>> import keras_distill as kd, pathlib, tempfile
    >>> student = kd.students.static(3, embeddings=(9, 4))
    >>> ids = np.array([[1, 5, 0]], "int32")
    >>> rows = {"token_ids": ids, "padding_mask": np.int32(ids > 0)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "vectors.npz"
    ...     report = vectors(student, path, examples=rows)
    ...     found = StaticVectors(path)(**rows)
    >>> report.agreement, found.shape
    (1.0, (1, 3))
    """
    options = ExportOptions(
        None, tokenizer, min_agreement, "vectors", tolerance
    )
    check_choice("quantization", quantization, QUANTIZATIONS)
    path = pathlib.Path(os.fspath(path))
    metadata_path = path.with_suffix(".metadata.json")
    if path.suffix != ENDING:
        raise ValueError(
            f"`path` must end in `{ENDING}`. Received: path={str(path)!r}"
        )
    check_student(student)
    check_examples(examples)
    check_replaceable(path, metadata_path, FORMAT)
    held = _arrays(student)
    inputs = read_inputs(student, examples)
    arrays = inputs.arrays(examples)
    expected = inputs.predict(student, arrays)
    (name,) = expected
    with drafts_beside(path) as folder:
        file = folder / path.name
        np.savez(file, **{k: _stored(v, quantization) for k, v in held.items()})
        model = StaticVectors(file)
        result = compare(expected, {name: model(**arrays)}, options)
        report = ExportReport(
            path=path,
            size_bytes=file.stat().st_size,
            examples=len(arrays["token_ids"]),
            latency_ms=measure_latency(lambda x: model(**x), arrays),
            **result,
        )
        contents = describe(
            report,
            [
                {"name": key, "dtype": "int32", "shape": [None, None]}
                for key in arrays
            ],
            expected,
            options,
            tokenizer,
            format=FORMAT,
            quantization=quantization,
            sequence_length=None,
            vocabulary_files=save_vocabulary(
                tokenizer, folder, prefix=f"{path.stem}."
            ),
        )
        write_json(folder / metadata_path.name, contents)
        publish_files(folder, path, metadata_path)
    return report


class StaticVectors:
    """An `.npz` file of `vectors`, as a function.

    Args:
        path: Path.
    """

    def __init__(self, path):
        with np.load(path) as held:
            self.table, self.projection, self.bias = (
                held[name].astype("float32") for name in WEIGHTS
            )
            self.unit = bool(held["unit"])

    def __call__(self, token_ids, padding_mask):
        """Float32 array `[rows, dimensions]`.

        Args:
            token_ids: Integer array `[rows, length]`.
            padding_mask: Array of the same shape, 0 where there is padding.
        """
        pairs = [
            (token_ids[i : i + BLOCK], padding_mask[i : i + BLOCK])
            for i in range(0, len(token_ids), BLOCK)
        ]
        return np.concatenate([self._of_few(*pair) for pair in pairs])

    def _of_few(self, token_ids, padding_mask):
        mask = np.asarray(padding_mask) > 0
        counts = mask.sum(axis=1)
        # Padding is never looked up; a row of zeros ends the last segment.
        rows = np.zeros((counts.sum() + 1, self.table.shape[1]), "float32")
        np.take(self.table, np.asarray(token_ids)[mask], axis=0, out=rows[:-1])
        sums = np.add.reduceat(rows, np.cumsum(counts) - counts)
        sums[counts == 0] = 0
        mean = sums / np.maximum(counts, 1)[:, None].astype("float32")
        found = mean @ self.projection + self.bias
        if self.unit:
            found /= np.linalg.norm(found, axis=1, keepdims=True) + 1e-12
        return found


def _stored(weights, quantization):
    """The weights as the file holds them; what is no number stays."""
    half = quantization and weights.dtype.kind == "f"
    return weights.astype(quantization) if half else weights


def _arrays(student):
    """What the file holds of a static student."""
    kinds = keras.layers.Embedding, keras.layers.Dense
    found = [[x for x in student.layers if type(x) is kind] for kind in kinds]
    if [len(layers) for layers in found] != [1, 1]:
        raise ValueError(
            "`student` must be one of `kd.students.static`, with one table of "
            "tokens and one map of their mean. Received: "
            f"{student.name} with the layers "
            f"{[layer.name for layer in student.layers][:8]}"
        )
    (table,), (projection, bias) = (one.get_weights() for (one,) in found)
    last = keras.layers.UnitNormalization
    return {
        **dict(zip(WEIGHTS, (table, projection, bias), strict=True)),
        "unit": np.array(any(isinstance(x, last) for x in student.layers)),
    }
