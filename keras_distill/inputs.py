"""What a batch's inputs hold for a model, and how a model is called."""

import keras

from keras_distill._backend import get_mask
from keras_distill._backend import set_mask
from keras_distill._backend import symbolic_inputs
from keras_distill._masks import padding_mask

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


def with_signal(inputs, signal):
    """What `split` takes apart again, of a teacher that ran before.

    Args:
        inputs: What the student reads.
        signal: Dict of tensors, `"logits"` and one entry for each match.
    """
    return {"student": inputs, "teacher_signal": signal}


def call_model(model, inputs, training=False):
    """Calls `model` with those of `inputs` that it knows.

    Args:
        model: `keras.Model`.
        inputs: Tensor or nested structure of tensors. Of a dict, a functional
            model with named inputs gets the entries it has names for.
        training: Boolean or None. Keras drops it where `call` takes none.
    """
    if isinstance(inputs, dict):
        inputs = _known_entries(model, inputs)
    return model(inputs, training=training)


def _known_entries(model, inputs):
    known = symbolic_inputs(model)
    if not isinstance(known, dict):
        return inputs
    missing = sorted(set(known) - set(inputs))
    if missing:
        raise ValueError(
            f"Model {model.name!r} expects the inputs {sorted(known)}. "
            f"Received: {sorted(inputs)}; missing: {missing}"
        )
    return {name: inputs[name] for name in known}


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
