"""Running a `.tflite` file, and timing it or any other callable."""

import os
import pathlib
import time

import keras
import numpy as np

from keras_distill._checks import check_integer


class LiteRTModel:
    """A `.tflite` file in its own runtime, on one thread.

    Args:
        path: Path of a file with one signature.
        every_tensor: Boolean, whether tensors between inputs and outputs can
            be read, too; slower.
    """

    def __init__(self, path, every_tensor=False):
        options = {}
        if every_tensor:  # Which a delegate keeps to itself.
            options["experimental_op_resolver_type"] = _without_delegates()
            options["experimental_preserve_all_tensors"] = True
        interpreter = interpreter_class()(
            model_path=str(path), num_threads=1, **options
        )
        runner = interpreter.get_signature_runner()
        self.inputs = runner.get_input_details()
        self.outputs = runner.get_output_details()
        self._interpreter = interpreter
        self._shapes = None

    def set_inputs(self, inputs):
        """Copies arrays by name into the input tensors, resizing them."""
        arrays = {
            name: np.asarray(inputs[name]).astype(detail["dtype"])
            for name, detail in self.inputs.items()
        }
        shapes = {name: array.shape for name, array in arrays.items()}
        if shapes != self._shapes:
            for name, shape in shapes.items():
                index = self.inputs[name]["index"]
                self._interpreter.resize_tensor_input(index, shape, strict=True)
            self._interpreter.allocate_tensors()
            self._shapes = shapes
        for name, array in arrays.items():
            self._interpreter.set_tensor(self.inputs[name]["index"], array)

    def invoke(self):
        """Runs the model on the inputs that were set."""
        self._interpreter.invoke()

    def __call__(self, inputs):
        self.set_inputs(inputs)
        self.invoke()
        return {
            name: self._interpreter.get_tensor(detail["index"])
            for name, detail in self.outputs.items()
        }

    def computed(self):
        """Yields details and values, as floats, of what the last run gave."""
        for detail in self._interpreter.get_tensor_details():
            try:
                value = self._interpreter.get_tensor(detail["index"])
            except ValueError:  # A kernel's own, or part of a fused one.
                continue
            scale, zero = detail["quantization"]
            if value.dtype.kind in "iu" and scale:
                value = scale * (value.astype("float32") - zero)
            if value.dtype.kind == "f":
                yield detail, value

    def predict(self, arrays):
        """The outputs for all rows, one row at a time, arrays by name."""
        rows = len(next(iter(arrays.values())))
        outputs = [
            self({name: x[i : i + 1] for name, x in arrays.items()})
            for i in range(rows)
        ]
        return {
            name: np.concatenate([row[name] for row in outputs])
            for name in outputs[0]
        }


def measure_latency(model, inputs, repeats=50, warmup=10):
    """Median time of one prediction at batch 1, in milliseconds.

    Args:
        model: Path of a `.tflite` file, which runs on one thread, timed
            without the copy of its inputs; or a callable, called with
            `inputs`' first row.
        inputs: Array, or dict of arrays by input name, `[rows, ...]`. The
            first row is used.
        repeats: Integer, the number of timed runs.
        warmup: Integer, the number of runs before them.

    Returns:
        Float, the median of `repeats` runs.

    Raises:
        ValueError: If a path does not end in `.tflite`, or if `inputs` lacks
            an input of the file.
        ImportError: If `ai-edge-litert` is missing.

    Example:

    >>> import numpy as np
    >>> measure_latency(np.tanh, np.zeros((1, 4)), repeats=3) < 1000
    True
    """
    check_integer("repeats", repeats, minimum=1)
    check_integer("warmup", warmup, minimum=0)
    row = keras.tree.map_structure(lambda x: x[:1], inputs)
    if callable(model):
        return _median_ms(lambda: _finish(model(row)), repeats, warmup)
    path = pathlib.Path(os.fspath(model))
    if path.suffix != ".tflite":
        raise ValueError(
            "`model` must be a callable or the path of a `.tflite` file. "
            f"Received: model={str(model)!r}"
        )
    runtime = LiteRTModel(path)
    missing = [name for name in runtime.inputs if name not in row]
    if missing:
        raise ValueError(
            f"`inputs` must be a dict with {sorted(runtime.inputs)}. "
            f"Received: inputs without {missing}"
        )
    runtime.set_inputs(row)
    return _median_ms(runtime.invoke, repeats, warmup)


def _finish(outputs):
    """Waits for outputs that are still being computed."""
    keras.tree.map_structure(np.asarray, outputs)


def _median_ms(run, repeats, warmup):
    for _ in range(warmup):
        run()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return 1000 * float(np.median(seconds))


def interpreter_class():
    """LiteRT's `Interpreter`, or an `ImportError` with the pip line."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise ImportError(
            "Running a `.tflite` file needs LiteRT: pip install ai-edge-litert"
        ) from error
    return Interpreter


def _without_delegates():
    """The kernels of LiteRT that leave every tensor where it can be read."""
    from ai_edge_litert.interpreter import OpResolverType

    return OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
