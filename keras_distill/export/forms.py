"""What a `.tflite` file stores in fewer bits, and what forbids it."""

import warnings

from keras_distill._backend import nested_layers
from keras_distill._checks import check_choice
from keras_distill.export import few_bits
from keras_distill.export.conversion import QUANTIZATIONS
from keras_distill.export.recurrence import recurrent_layers
from keras_distill.export.report import ADVICE
from keras_distill.export.tensor_errors import worst_tensors
from keras_distill.quantization import QuantizationAware


def checked(student, quantization, calibration):
    """The form of a student's file, `quantization` unless it knows its own.

    Raises:
        ValueError: It is none, its calibration is missing or needless, or the
            student cannot be stored so.
    """
    if isinstance(student, QuantizationAware):
        _check_known(student, quantization, calibration)
        return student.quantization
    _check_quantization(quantization, calibration)
    _check_recurrence(student, quantization)
    text = _attention_in_int8(student, quantization)
    if text:
        warnings.warn(text, stacklevel=3)
    return quantization


def name(quantization):
    """What a form is called in the metadata."""
    return "recipe" if isinstance(quantization, list) else quantization


def _check_quantization(quantization, calibration):
    if isinstance(quantization, list):
        needed = few_bits.needs_calibration(quantization)
    else:
        check_choice("quantization", quantization, QUANTIZATIONS)
        needed = quantization == "int8"
    if needed != (calibration is not None):
        received = "None" if calibration is None else "given"
        raise ValueError(
            "`calibration` is required for `quantization='int8'` and recipes "
            "of activations, and unused otherwise. Pass some hundred rows of "
            "inputs with them, or leave it out. Received: "
            f"quantization={name(quantization)!r}, calibration={received}"
        )


def _check_known(student, quantization, calibration):
    known = quantization in (None, student.quantization)
    if not known or calibration is not None:
        raise ValueError(
            "`quantization` and `calibration` are known to a student that was "
            "trained under rounding. Leave them out. Received: "
            f"quantization={name(quantization)!r}, trained for "
            f"{student.quantization!r}"
        )


def _check_recurrence(student, quantization):
    layers = [layer.name for layer in recurrent_layers(student)]
    if quantization == "int8" and layers:
        raise ValueError(
            "`quantization` must not be 'int8' for a student with recurrent "
            "layers: LiteRT cannot calibrate their loops. Use 'dynamic', "
            f"which stores int8 weights. Received: layers {layers}"
        )


def _attention_in_int8(student, quantization):
    """What to do instead; nothing where there is none."""
    if quantization != "int8":
        return ""
    layers = [
        layer.name
        for layer in nested_layers(student)
        # KerasHub has attention that is none of Keras' classes.
        if "Attention" in type(layer).__name__
    ]
    if not layers:
        return ""
    return (
        "Attention bears no activations in int8, and runs slower with them: "
        "use quantization='dynamic', which stores int8 weights, or train "
        "under the rounding, by `kd.quantization.QuantizationAware`. "
        f"Received: quantization='int8', layers {layers[:3]}"
    )


def advice(student, quantization, made, file, arrays):
    """What to do where the file's predictions are not the student's."""
    if quantization is None:
        return ADVICE
    reference = file.with_name("float32.tflite")
    reference.write_bytes(made(None))
    worst = worst_tensors(reference, file, arrays)
    instead = _instead(student, quantization)
    return f"The tensors that err most: {worst or 'unknown'}. {instead}"


def _instead(student, quantization):
    if isinstance(student, QuantizationAware):  # It was trained for the file.
        return ADVICE
    if quantization == "int4":
        return (
            "Train the student under this rounding, by "
            "`kd.quantization.QuantizationAware` or `--quantization int4`, or "
            "take 'dynamic'."
        )
    return _attention_in_int8(student, quantization) or ADVICE
