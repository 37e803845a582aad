"""What stands behind `teacher=`: one model, several, or none at all."""

import functools

import keras
from keras import ops

from keras_distill._checks import check_choice
from keras_distill._checks import check_same_shape
from keras_distill._checks import check_weight
from keras_distill.inputs import call_model

AVERAGES = ("probabilities", "logits")


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
    >>> def teacher(*logits):
    ...     inputs = keras.Input((1,))
    ...     start = keras.initializers.Constant(np.log(logits))
    ...     outputs = keras.layers.Dense(2, bias_initializer=start)(inputs)
    ...     return keras.Model(inputs, outputs)
    >>> ensemble = Ensemble([teacher(0.5, 0.5), teacher(0.25, 0.75)])
    >>> np.round(np.exp(ensemble(np.zeros((1, 1)))), 3).tolist()
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

    Attributes:
        models: List of the models, empty when there are none.
        outputs: Callable, inputs of a batch to what the teacher says.
    """

    def __init__(self, source):
        self.source = source
        if isinstance(source, Ensemble):
            self.models, self.outputs = source.models, source
        else:
            self.models = [] if source is None else [source]
            self.outputs = functools.partial(call_model, source)
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
