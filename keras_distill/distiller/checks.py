"""What a Distiller refuses before any training starts."""

import keras

from keras_distill import losses
from keras_distill._backend import CompileLoss

LOGIT_LOSSES = (
    losses.ForwardKL,
    losses.ReverseKL,
    losses.GeneralizedJSD,
    losses.SoftCrossEntropy,
    losses.LogitsMSE,
    losses.AnnealedMSE,
    losses.DKD,
    losses.NKD,
    losses.WSLD,
    losses.DIST,
    losses.StandardizedKL,
    losses.TTM,
    losses.SoftBinaryCrossEntropy,
)
DEFAULT_WEIGHT = 0.5
CROSS_ENTROPIES = {
    "sparse_categorical_crossentropy": "SparseCategoricalCrossentropy",
    "categorical_crossentropy": "CategoricalCrossentropy",
    "binary_crossentropy": "BinaryCrossentropy",
}


def compiled_loss(loss, loss_weights, output_names):
    """The hard loss as `keras.Model.compile` holds it."""
    if loss is None:
        return None
    return CompileLoss(loss, loss_weights, output_names=output_names)


def check_models(teacher, student):
    """Raises `ValueError` unless the student can learn from the teacher."""
    if not isinstance(student, keras.Model):
        raise ValueError(
            f"`student` must be a `keras.Model`. Received: student={student!r}"
        )
    shared = {id(v) for v in student.variables}
    for model in teacher.models:
        if model is student:
            raise ValueError(
                "`teacher` and `student` are the same model: build the "
                "student separately, for example with `kd.students.shrink`"
            )
        if not model.built:
            raise ValueError(
                f"The teacher {model.name!r} has no weights yet. Train it or "
                "load its weights first"
            )
    common = [v.path for v in teacher.variables if id(v) in shared]
    if common:
        raise ValueError(
            "`teacher` and `student` share variables, which training would "
            f"change in both: {common[:3]}. Copy the layers instead"
        )


def output_activations(model):
    """Activation names of a functional model's output layers, by position."""
    for tensor in getattr(model, "outputs", None) or ():
        operation = tensor._keras_history.operation
        activation = getattr(operation, "activation", None)
        if isinstance(operation, keras.layers.Softmax):
            yield "softmax"
        else:
            yield getattr(activation, "__name__", None)


def check_logits(soft_losses, models, side):
    """Raises `ValueError` if a loss on logits would get probabilities."""
    needs_logits = [
        type(loss).__name__
        for loss in soft_losses
        if isinstance(loss, LOGIT_LOSSES)
    ]
    if not needs_logits:
        return
    for model in models:
        for activation in output_activations(model):
            if activation in ("softmax", "sigmoid"):
                raise ValueError(
                    f"`{needs_logits[0]}` needs logits, the {side} "
                    f"{model.name!r} ends in {activation!r}. Build it without "
                    "the last activation"
                )


def check_hard_loss(loss, student):
    """Raises `ValueError` if logits would be taken for probabilities.

    Keras cannot tell: it would clip the logits and train on nonsense.
    """
    activations = set(output_activations(student))
    if not activations or activations & {"softmax", "sigmoid"}:
        return
    for leaf in keras.tree.flatten(loss):
        name = leaf if isinstance(leaf, str) else getattr(leaf, "name", None)
        config = leaf.get_config() if hasattr(leaf, "get_config") else {}
        if name in CROSS_ENTROPIES and not config.get("from_logits", False):
            raise ValueError(
                f"The student outputs logits, the loss {name!r} expects "
                "probabilities. Pass `keras.losses."
                f"{CROSS_ENTROPIES[name]}(from_logits=True)`"
            )


def check_weights_used(loss, hard_weight, soft_loss, soft_weight):
    """Raises `ValueError` for the weight of a term that does not exist."""
    for name, weight, term in (
        ("loss", hard_weight, loss),
        ("soft_loss", soft_weight, soft_loss),
    ):
        kind = "hard" if name == "loss" else "soft"
        if term is None and weight not in (0, DEFAULT_WEIGHT):
            raise ValueError(
                f"`{kind}_weight` has nothing to weigh: expected a `{name}`. "
                f"Received: {kind}_weight={weight}, {name}=None. Pass a "
                f"`{name}`, or leave `{kind}_weight` out"
            )


def check_callbacks(callbacks):
    """Raises `ValueError` for a callback that would save the teacher too."""
    for callback in keras.tree.flatten(callbacks):
        if (
            isinstance(callback, keras.callbacks.ModelCheckpoint)
            and not callback.save_weights_only
        ):
            raise ValueError(
                "A Distiller is not saved as a whole: pass "
                "`keras.callbacks.ModelCheckpoint(..., save_weights_only="
                "True)`. `distiller.student.save` keeps the student"
            )
