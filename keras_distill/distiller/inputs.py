"""What a batch's inputs hold for the teacher and for the student."""

import keras

from keras_distill._backend import can_infer
from keras_distill._backend import get_mask
from keras_distill._backend import set_mask

ROLES = {"teacher", "student", "teacher_signal"}


def split(inputs):
    """Splits inputs into the teacher's, the student's and a teacher signal.

    Args:
        inputs: What both models read, or a dict with `"student"` and, if
            they differ, `"teacher"` and, when the teacher ran before,
            `"teacher_signal"`: a dict with `"logits"` and one entry for each
            match, under its name.

    Returns:
        Tuple `(teacher_inputs, student_inputs, teacher_signal or None)`.
    """
    roles = isinstance(inputs, dict) and "student" in inputs
    if roles and set(inputs) <= ROLES:
        return (
            inputs.get("teacher"),
            inputs["student"],
            inputs.get("teacher_signal"),
        )
    return inputs, inputs, None


def padding_mask(inputs):
    """The `padding_mask` of KerasHub inputs `[batch, length]`, or None."""
    return inputs.get("padding_mask") if isinstance(inputs, dict) else None


def attach_padding_mask(outputs, inputs):
    """Gives token-level outputs the padding mask as their Keras mask.

    Keras' losses and metrics then leave the padding out. Outputs that carry a
    mask already, or have no length axis, stay as they are.
    """
    mask = padding_mask(inputs)
    if mask is None:
        return outputs
    for output in keras.tree.flatten(outputs):
        shape = tuple(output.shape)
        token_level = len(shape) == 3 and shape[1] == tuple(mask.shape)[1]
        if token_level and get_mask(output) is None:
            set_mask(output, keras.ops.cast(mask, "bool"))
    return outputs


def specs(tensors):
    """`KerasTensor`s of the same shapes and dtypes, batch size unknown."""
    return keras.tree.map_structure(
        lambda t: keras.KerasTensor(
            (None, *tuple(t.shape)[1:]),
            keras.backend.standardize_dtype(t.dtype),
        ),
        tensors,
    )


def first_batch_specs(x):
    """Specs of the inputs that `fit(x)` will see, without using any up.

    Args:
        x: `tf.data.Dataset`, `keras.utils.PyDataset`, or nested arrays.

    Raises:
        ValueError: if `x` can only be read once, as a generator.
    """
    if hasattr(x, "element_spec"):
        element = x.element_spec
        if not can_infer(element):
            element = next(iter(x))
        return specs(element[0] if isinstance(element, tuple) else element)
    if isinstance(x, keras.utils.PyDataset):
        return specs(x[0][0])
    if all(hasattr(leaf, "shape") for leaf in keras.tree.flatten(x)):
        return specs(x)
    raise ValueError(
        "The matches of models that are not functional are built from a "
        "batch, and this data can be read only once. Call "
        "`distiller.prepare(inputs)` with one batch of inputs first. "
        f"Received: x={type(x).__name__}"
    )
