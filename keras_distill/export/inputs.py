"""The student's inputs and outputs by name, as the export will have them."""

import dataclasses

import keras
import numpy as np
from keras import ops

from keras_distill._backend import symbolic_inputs


@dataclasses.dataclass(frozen=True)
class Input:
    """One input: its name, its shape without the batch, and its dtypes.

    Token ids and masks enter every export as int32, whatever the model's own
    dtype for them is: one contract for all students. Images stay bytes.
    """

    name: str
    shape: tuple
    dtype: str
    model_dtype: str


@dataclasses.dataclass(frozen=True)
class Inputs:
    """The inputs of a student and how its `call` takes them.

    Args:
        specs: Tuple of `Input`.
        structure: `"dict"`, `"list"` or `"tensor"`.

    Raises:
        ValueError: a name cannot be in the signature of a file.
    """

    specs: tuple
    structure: str

    def __post_init__(self):
        wrong = [name for name in self.names if not name.isidentifier()]
        if wrong:
            raise ValueError(
                "The inputs of a student must have names of letters, digits "
                f"and underscores, as arguments in Python. Received: {wrong}. "
                "Build it with other names, as in `keras.Input((8,), "
                "name='tokens')`"
            )

    @property
    def names(self):
        return [spec.name for spec in self.specs]

    def arrays(self, examples, argument="examples"):
        """The examples as NumPy arrays by input name, in the export's dtypes.

        Further keys (a teacher's `segment_ids`) are left out.
        """
        if not isinstance(examples, dict):
            examples = {self.names[0]: examples}
        missing = [name for name in self.names if name not in examples]
        if missing:
            raise ValueError(
                f"`{argument}` must hold the student's inputs {self.names}. "
                f"Received: keys {sorted(examples)}, without {missing}"
            )
        arrays = {
            spec.name: np.asarray(examples[spec.name]).astype(spec.dtype)
            for spec in self.specs
        }
        rows = {name: len(array) for name, array in arrays.items()}
        if len(set(rows.values())) != 1 or 0 in rows.values():
            raise ValueError(
                f"`{argument}` must hold the same number of rows, at least "
                f"one, for every input. Received: {rows}"
            )
        for spec in self.specs:
            _check_array_shape(argument, spec, arrays[spec.name])
        return arrays

    def call(self, student, tensors):
        """The student's outputs by name, in float32, from inputs by name."""
        cast = {
            spec.name: ops.cast(tensors[spec.name], spec.model_dtype)
            for spec in self.specs
        }
        if self.structure == "list":
            cast = [cast[name] for name in self.names]
        elif self.structure == "tensor":
            (cast,) = cast.values()
        return _named_outputs(student(cast, training=False))

    def predict(self, student, arrays, batch_size=32):
        """The Keras student's own outputs, NumPy arrays by name."""
        rows = len(arrays[self.names[0]])
        batches = []
        for i in range(0, rows, batch_size):
            batch = {name: x[i : i + batch_size] for name, x in arrays.items()}
            outputs = self.call(student, batch)
            batches.append(
                {k: ops.convert_to_numpy(v) for k, v in outputs.items()}
            )
        return {
            name: np.concatenate([batch[name] for batch in batches])
            for name in batches[0]
        }


def read_inputs(student, examples):
    """Reads the inputs of `student`, from `examples` where it has no graph.

    Args:
        student: A built `keras.Model`.
        examples: An array, or a dict of arrays by input name.

    Returns:
        An `Inputs`.

    Raises:
        ValueError: a name cannot be in the signature of a file.
    """
    symbolic = symbolic_inputs(student)
    if symbolic is None:
        return _inputs_of_examples(examples)
    if isinstance(symbolic, dict):
        named, structure = symbolic, "dict"
    else:
        flat = keras.tree.flatten(symbolic)
        named = {tensor.name: tensor for tensor in flat}
        structure = "tensor" if len(flat) == 1 else "list"
    specs = [
        Input(name, tuple(x.shape[1:]), _exported(x.dtype), x.dtype)
        for name, x in named.items()
    ]
    return Inputs(tuple(specs), structure)


def _inputs_of_examples(examples):
    structure = "dict" if isinstance(examples, dict) else "tensor"
    named = examples if structure == "dict" else {"inputs": examples}
    specs = []
    for name, value in named.items():
        array = np.asarray(value)
        exported = _exported(array.dtype.name)
        shape = array.shape[1:]
        if exported == "int32" and shape:
            shape = (None, *shape[1:])
        model_dtype = "bool" if array.dtype == bool else exported
        specs.append(Input(name, shape, exported, model_dtype))
    return Inputs(tuple(specs), structure)


def _exported(dtype):
    if dtype == "uint8":
        return dtype
    return "float32" if "float" in dtype else "int32"


def _check_array_shape(argument, spec, array):
    shape = array.shape[1:]
    if len(shape) != len(spec.shape) or any(
        expected not in (None, size)
        for expected, size in zip(spec.shape, shape)
    ):
        raise ValueError(
            f"`{argument}[{spec.name!r}]` must have the shape "
            f"{(None, *spec.shape)} of the student's input. "
            f"Received: shape {array.shape}"
        )


def _named_outputs(outputs):
    if isinstance(outputs, list | tuple):
        outputs = {f"output_{i}": value for i, value in enumerate(outputs)}
    elif not isinstance(outputs, dict):
        outputs = {"logits": outputs}
    return {name: ops.cast(y, "float32") for name, y in outputs.items()}
