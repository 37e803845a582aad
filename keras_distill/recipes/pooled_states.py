"""The teacher's probabilities, and its states averaged over each text."""

import dataclasses
import functools

import keras
from keras import ops

from keras_distill import matching
from keras_distill import taps
from keras_distill._checks import check_between
from keras_distill._masks import padding_mask
from keras_distill.recipes.base import HEAVIEST
from keras_distill.recipes.logits import kd
from keras_distill.recording import record
from keras_distill.students._inputs import masked_mean

NAME = "states"
# What ends every small model here reads one vector for each text.
PLACE = "dropout:input"


def pooled(temperature=None, hard_weight=0.5, soft_weight=0.5, weight=5.0):
    """`kd`, and the teacher's states, averaged over the tokens of a text.

    Of two classes a logit says one number of a text; what the encoder knows of
    it is hundreds. The student predicts them, by a linear map that is not
    exported, from what its last layer reads: the mean over the tokens of the
    states after two thirds of the teacher's layers and after the last one,
    centred and scaled to a variance of 1. So students without states per
    token, or with tokens of their own, learn from the teacher's too. It runs
    once over the data, not in each step.

    Args:
        temperature: As in `kd`.
        hard_weight: As in `kd`.
        soft_weight: As in `kd`.
        weight: Float, of the mean squared error of these states.

    Returns:
        `Recipe`.

    Raises:
        ValueError: A number is out of its range.

    Example:

    >>> pooled().name
    'KD and averaged states'

    Reference:
        Romero et al., 2014, https://arxiv.org/abs/1412.6550, eq. 3 (hints);
        Jiao et al., 2020, https://arxiv.org/abs/1909.10351, eq. 8.
    """
    check_between("weight", weight, 0, HEAVIEST)
    return dataclasses.replace(
        kd(temperature, hard_weight, soft_weight),
        name="KD and averaged states",
        matches=functools.partial(_matches, weight=weight),
        signals=_signals,
    )


class AveragedStates(keras.Model):
    """The states of an encoder's layers, averaged over the tokens of a row.

    In half precision: there are hundreds for each row of the data.

    Args:
        model: `keras.Model` around a KerasHub encoder.
        layers: List of taps in it.
    """

    def __init__(self, model, layers):
        super().__init__()
        self.model = model
        self.layer_taps = tuple(layers)

    def call(self, inputs):
        with record(self.layer_taps) as recording:
            self.model(inputs, training=False)
        states = [recording.value(tap) for tap in self.layer_taps]
        states = ops.cast(ops.concatenate(states, axis=-1), "float32")
        mask = padding_mask(inputs)
        if mask is None:
            mask = ops.ones_like(states[..., 0])
        mask = ops.expand_dims(ops.cast(mask, states.dtype), axis=-1)
        return ops.cast(masked_mean(states, mask), "float16")


def _signals(teacher):
    return {NAME: AveragedStates(teacher, _layers(teacher))}


def _layers(teacher):
    found = taps.encoder_layers(teacher)
    return [found[(2 * len(found) - 1) // 3], found[-1]]


def _matches(student, teacher, model, weight):
    """The match of a student's text vector with the teacher's states."""
    layers = {layer.name: layer for layer in model.layers}
    last = layers.get(PLACE.partition(":")[0])
    if last is None or len(last.input.shape) != 2:
        raise ValueError(
            "The recipe 'KD and averaged states' needs a student whose last "
            "layer reads one vector for each text: `--student text_cnn`, "
            "`bilstm` or `ngram`, of a task with one answer a row. Received: "
            f"student={student.title}"
        )
    return [
        matching.Match(
            _layers(teacher)[-1],
            PLACE,
            keras.losses.MeanSquaredError(),
            weight=weight,
            projection="linear",
            name=NAME,
        )
    ]
