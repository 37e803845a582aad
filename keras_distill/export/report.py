"""How well an export agrees with the student it was made from."""

import dataclasses
import pathlib

import numpy as np

from keras_distill._masks import padding_mask

ADVICE = (
    "Use a finer quantization, or more calibration data, or lower "
    "`min_agreement`."
)


class ExportError(RuntimeError):
    """An export that is not the student, or that cannot be made."""


@dataclasses.dataclass(frozen=True)
class ExportReport:
    """The evidence for one export, from its own runtime.

    Args:
        path: Path of the export.
        agreement: Float in `[0, 1]`, the share of predictions that equal the
            Keras student's.
        max_difference: Float, the largest absolute difference of a logit.
        mean_difference: Float, the mean absolute difference of the logits.
        size_bytes: Integer, the size of the model, without its metadata.
        latency_ms: Float, median milliseconds for the first example at batch
            1. LiteRT: on one thread. SavedModel: with this process's threads.
        examples: Integer, the number of examples compared.
    """

    path: pathlib.Path
    agreement: float
    max_difference: float
    mean_difference: float
    size_bytes: int
    latency_ms: float
    examples: int


def valid_tokens(arrays):
    """The boolean `[examples, length]` padding mask among inputs, or `None`."""
    mask = padding_mask(arrays)
    return None if mask is None else mask.astype(bool)


def compare(expected, actual, options, valid=None, advice=None):
    """Compares an export's outputs with the student's.

    Args:
        expected: The student's outputs, arrays `[examples, ..., classes]` by
            name.
        actual: The export's outputs, likewise.
        options: An `ExportOptions`.
        valid: Boolean array `[examples, length]`, the tokens that count where
            there is a prediction for each token. Optional.
        advice: Callable that says what to do where they differ. Optional.

    Returns:
        A dict with `agreement`, `max_difference` and `mean_difference`.

    Raises:
        ExportError: If they agree on less than `options.min_agreement`.
    """
    same, differences = [], []
    for name, y in expected.items():
        difference = np.abs(y - actual[name])
        agrees = _same_prediction(y, actual[name], options)
        agrees = agrees & np.isfinite(actual[name]).all(axis=-1)
        if valid is not None and agrees.shape == valid.shape:
            agrees, difference = agrees[valid], difference[valid]
        same.append(agrees.ravel())
        differences.append(difference.ravel())
    differences = np.concatenate(differences)
    result = {
        "agreement": float(np.concatenate(same).mean()),
        "max_difference": float(differences.max()),
        "mean_difference": float(differences.mean()),
    }
    if result["agreement"] < options.min_agreement:
        raise ExportError(
            f"The export predicts what the student predicts on "
            f"{result['agreement']:.2%} of the examples, less than "
            f"min_agreement={options.min_agreement:.2%}. Differences of the "
            f"logits: at most {result['max_difference']:.3g}, on average "
            f"{result['mean_difference']:.3g}. Nothing was written. "
            f"{advice() if advice else ADVICE}"
        )
    return result


def _same_prediction(expected, actual, options):
    if options.task == "classification":
        return expected.argmax(axis=-1) == actual.argmax(axis=-1)
    if options.task == "multi_label":
        return ((expected > 0) == (actual > 0)).all(axis=-1)
    if options.task == "vectors":
        lengths = [np.linalg.norm(x, axis=-1) for x in (expected, actual)]
        cosine = (expected * actual).sum(axis=-1)
        return cosine >= (1 - options.tolerance) * np.prod(lengths, axis=0)
    return (np.abs(expected - actual) <= options.tolerance).all(axis=-1)
