"""What stands behind `teacher=`: one model, several, or none at all."""

import keras
from keras import ops

from keras_distill._checks import check_choice
from keras_distill._checks import check_same_shape
from keras_distill._checks import check_weight

AVERAGES = ("probabilities", "logits")


def symbolic_inputs(model):
    """The structure of `KerasTensor` a functional model was built from.

    Returns None for subclassed models, which do not know theirs.
    """
    if isinstance(model, keras.Sequential) and not model.built:
        return None
    return getattr(model, "input", None) if hasattr(model, "inputs") else None


def call_model(model, inputs, training=False):
    """Calls `model` with those of `inputs` that it knows.

    Args:
        model: `keras.Model`.
        inputs: Tensor or nested structure of tensors. Of a dict, a functional
            model with named inputs gets the entries it has names for.
        training: Boolean or None, passed on where `call` takes one.
    """
    known = symbolic_inputs(model)
    if isinstance(known, dict) and isinstance(inputs, dict):
        missing = sorted(set(known) - set(inputs))
        if missing:
            raise ValueError(
                f"Model {model.name!r} expects the inputs {sorted(known)}. "
                f"Received: {sorted(inputs)}; missing: {missing}"
            )
        inputs = {name: inputs[name] for name in known}
    if getattr(model, "_call_has_training_arg", False):
        return model(inputs, training=training)
    return model(inputs)


class Ensemble:
    """Several teachers that act as one.

    With `average="probabilities"` the result is
    `log(sum_k w_k softmax(logits_k))`, logits of the averaged distribution;
    with `average="logits"` it is `sum_k w_k logits_k`. Outputs may be nested
    (dicts, lists); each leaf is averaged on its own.

    Args:
        models: List of at least one `keras.Model`, all with the same inputs
            and the same output shapes, `[..., classes]`.
        weights: List of numbers, one a model, at least 0, not all 0. They are
            divided by their sum. Defaults to equal weights.
        average: `"probabilities"` or `"logits"`. Use `"logits"` for
            regression and for sigmoid outputs.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> import numpy as np
    >>> first, second = np.log([[0.5, 0.5]]), np.log([[0.25, 0.75]])
    >>> ensemble = Ensemble([lambda x: first, lambda x: second])
    >>> np.round(np.exp(ensemble(None)), 3).tolist()
    [[0.375, 0.625]]

    Reference:
        Hinton et al., 2015, https://arxiv.org/abs/1503.02531, section 5.
    """

    def __init__(self, models, weights=None, average="probabilities"):
        models = list(models)
        if not models:
            raise ValueError("`models` must hold at least one teacher")
        check_choice("average", average, AVERAGES)
        weights = [1.0] * len(models) if weights is None else list(weights)
        if len(weights) != len(models):
            raise ValueError(
                f"`weights` must hold one number for each of the {len(models)} "
                f"teachers. Received: weights={weights}"
            )
        for weight in weights:
            check_weight("weights", weight)
        if not sum(weights) > 0:
            raise ValueError(
                f"`weights` must not all be 0. Received: weights={weights}"
            )
        self.models = models
        self.weights = [weight / sum(weights) for weight in weights]
        self.average = average

    def __call__(self, inputs):
        outputs = [call_model(model, inputs) for model in self.models]
        return keras.tree.map_structure(self._mean, *outputs)

    def _mean(self, *logits):
        for value in logits:
            check_same_shape(
                "an output of the ensemble's first teacher",
                logits[0],
                "the same output of another one",
                value,
            )
        logits = [ops.cast(value, "float32") for value in logits]
        if self.average == "logits":
            return sum(w * value for w, value in zip(self.weights, logits))
        terms = [
            ops.log_softmax(value, axis=-1) + ops.log(w)
            for w, value in zip(self.weights, logits)
            if w > 0
        ]
        return ops.logsumexp(ops.stack(terms), axis=0)


class Teacher:
    """Keeps the teacher out of reach of Keras' tracking and saving.

    Args:
        source: A `keras.Model`, an `Ensemble`, or `None` when the teacher's
            signals come with the batches.
    """

    def __init__(self, source):
        self.source = source
        if source is None:
            self.models = []
        elif isinstance(source, Ensemble):
            self.models = source.models
        else:
            self.models = [source]
        for model in self.models:
            if not isinstance(model, keras.Model):
                raise ValueError(
                    "`teacher` must be a `keras.Model`, an `Ensemble` of "
                    f"models, or None. Received: {model!r}"
                )

    @property
    def variables(self):
        """Variables of all teachers, each once."""
        found = {id(v): v for model in self.models for v in model.variables}
        return list(found.values())

    def __call__(self, inputs):
        if isinstance(self.source, Ensemble):
            return self.source(inputs)
        return call_model(self.source, inputs)
