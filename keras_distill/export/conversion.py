"""From a Keras model to the bytes of a `.tflite` file."""

import tempfile
import warnings

import tensorflow as tf
from tensorflow.lite.python.convert_phase import ConverterError

from keras_distill._backend import freeze
from keras_distill.export import few_bits
from keras_distill.export.recurrence import portable_recurrence
from keras_distill.export.report import ExportError
from keras_distill.export.tables import packed_tables

QUANTIZATIONS = (None, "float16", "dynamic", "int8", *few_bits.FORMS)
# The bits of tables, 8 in all other forms.
TABLES = {None: None, "float16": None, "int4": 4}
LOOPS = {"While", "StatelessWhile"}


def convert(student, inputs, shapes, outputs, quantization, calibration):
    """Converts the student.

    Args:
        student: A built `keras.Model`.
        inputs: Its `Inputs`.
        shapes: Shape of each input by name; `None` where it may vary.
        outputs: The sorted names of its outputs.
        quantization: One of `QUANTIZATIONS`, or a recipe.
        calibration: Arrays by input name for what rounds activations, `None`
            for a student that knows their ranges.

    Returns:
        The file's bytes.

    Raises:
        ExportError: If LiteRT cannot run an operation of the student.
    """
    specs = {
        spec.name: tf.TensorSpec(shapes[spec.name], spec.dtype, name=spec.name)
        for spec in inputs.specs
    }
    is_recipe = isinstance(quantization, list)
    bits = 8 if is_recipe else TABLES.get(quantization, 8)
    frozen = _freeze(student, inputs, specs, bits)
    if quantization == "int8":
        _check_no_loop(frozen)
    with tempfile.TemporaryDirectory() as folder:
        _save_frozen(frozen, specs, outputs, folder)
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        if is_recipe or quantization in few_bits.FORMS:
            _configure(converter, None, None)
            return few_bits.quantize(_run(converter), quantization, calibration)
        _configure(converter, quantization, calibration)
        return _run(converter)


def _freeze(student, inputs, specs, bits):
    """The student as one graph that holds its weights as constants.

    LiteRT's interpreter does not find the values of variables that are read
    inside a loop or by the quantizer's calibration.
    """

    def serve(**tensors):
        return inputs.call(student, tensors)

    with portable_recurrence(student), packed_tables(student, bits):
        concrete = tf.function(serve).get_concrete_function(**specs)
    return freeze(concrete)


def _save_frozen(frozen, specs, outputs, folder):
    """Saves the graph with the names of its inputs and outputs."""
    order = [tensor.name.split(":")[0] for tensor in frozen.inputs]

    def serve(**tensors):
        values = frozen(*[tensors[name] for name in order])
        return dict(zip(outputs, tf.nest.flatten(values)))

    signature = tf.function(serve).get_concrete_function(**specs)
    tf.saved_model.save(
        tf.Module(), folder, signatures={"serving_default": signature}
    )


def _configure(converter, quantization, calibration):
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    # It takes the whole file apart, in Python, to note how it was made.
    converter.exclude_conversion_metadata = True
    if quantization is not None:
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if quantization == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if calibration is not None:
        rows = len(next(iter(calibration.values())))
        converter.representative_dataset = lambda: (
            {name: x[i : i + 1] for name, x in calibration.items()}
            for i in range(rows)
        )


def _run(converter):
    with warnings.catch_warnings():
        # The int8 calibrator imports TensorFlow's own old interpreter.
        warnings.filterwarnings(
            "ignore", message=r"\s*Warning: tf.lite.Interpreter is deprecated"
        )
        try:
            return converter.convert()
        except ConverterError as error:
            raise ExportError(
                "LiteRT's built-in operations do not cover the student; "
                "nothing was written. With `sequence_length=None`, try a "
                f"fixed length. The converter says: {str(error)[:500]}"
            ) from error


def _check_no_loop(frozen):
    graph = frozen.graph.as_graph_def()
    nodes = [*graph.node]
    for function in graph.library.function:
        nodes += function.node_def
    loops = sorted(node.name for node in nodes if node.op in LOOPS)
    if loops:
        raise ExportError(
            "`quantization='int8'` cannot calibrate a loop. Use 'dynamic', "
            f"which quantizes the weights. Received: loops {loops}"
        )
