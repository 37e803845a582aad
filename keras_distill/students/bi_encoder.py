"""Copied layers that read each text of a pair by itself."""

import functools

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_distill.students._inputs import check_dropout
from keras_distill.students._inputs import has_pooler
from keras_distill.students._inputs import masked_mean
from keras_distill.students._inputs import token_inputs
from keras_distill.students._sides import best_cosines
from keras_distill.students._sides import word_masks

# Layers that take a mask of what each token sees.
LAYER = keras_hub.layers.TransformerEncoder
# By how much a standard deviation of what compares two texts is more than that
# of a state: a head at the small rate of copied layers learns it first.
GAIN = 80.0
# Of comparisons that hardly vary, as those of a new encoder, noise is not more.
LEAST, MEASURED = 0.02, 512


def bi_encoder(backbone, num_outputs, separators, rows=None, dropout=0.1):
    """A model of pairs from an encoder that reads each text by itself.

    The texts stay in one row, and cost what they did: no token attends to one
    of the other text, the second one's positions begin anew, and what stands
    before it is the token that begins a text. Segments, where the encoder has
    them, are those of a single text.

    The layers drop nothing in training: two states of which each has lost other
    units are less alike than they are, so that what is learnt of their cosine
    would not be so of the whole states.

    `u` and `v` are the means of each text's states, divided by their lengths.
    The logits read their cosine; how well the tokens of each text are matched
    by states of the other one, on average and at worst; and, from zero on,
    `[u, v, |u - v|, u * v]`.

    Args:
        backbone: KerasHub encoder of `keras_hub.layers.TransformerEncoder`. It
            stays as it is: the model has copies of its layers.
        num_outputs: Integer, the number of logits.
        separators: Integers, the ids that begin a text and end it.
        rows: Dict of arrays, rows of inputs, some of which tell mean and
            deviation of the comparisons. None: 0.5 and 0.25.
        dropout: Float, `0 <= dropout < 1`, on the vectors.

    Returns:
        A `keras.Model` from token ids and padding mask to logits
        `[batch, num_outputs]`.

    Raises:
        ValueError: The encoder has other layers, such as DeBERTa's.

    Example:

    >>> import keras_hub
    >>> import numpy as np
    >>> encoder = keras_hub.models.BertBackbone(50, 1, 2, 16, 32)
    >>> student = bi_encoder(encoder, num_outputs=1, separators=(2, 3))
    >>> ids = np.array([[2, 7, 9, 3, 8, 3, 0]])
    >>> tuple(student({"token_ids": ids, "padding_mask": ids > 0}).shape)
    (1, 1)

    Reference:
        Reimers and Gurevych, 2019, https://arxiv.org/abs/1908.10084, section 3;
        Zhang et al., 2020, https://arxiv.org/abs/1904.09675, section 3.
    """
    check_dropout(dropout)
    if not reads_apart(backbone):
        raise ValueError(
            "The texts of a pair can be read one by one, by a `pair_encoder` "
            f"that is 'bi', where layers are `keras_hub.layers.{LAYER.__name__}"
            "` alone. Let the student read both in a row: `--pair-encoder "
            f"cross`. Received: a teacher with {type(backbone).__name__}"
        )
    token_ids, padding_mask = token_inputs()
    words = word_masks(token_ids, padding_mask, separators)
    side, states = _read_apart(
        _without_dropout(backbone),
        token_ids,
        padding_mask,
        words[1],
        separators[0],
    )
    unit = keras.layers.UnitNormalization(dtype="float32", name="unit")
    first, second = [
        unit(masked_mean(states, _column(padding_mask * own)))
        for own in (ops.subtract(1, side), side)
    ]
    product = first * second
    words = [ops.cast(mask, "float32") for mask in words]
    found = [ops.sum(product, axis=-1, keepdims=True)]
    for own, best in zip(words, best_cosines(unit(states), words)):
        found.append(masked_mean(best, _column(own)))
        # A cosine is at most 1: no token elsewhere is further. As below, a
        # difference, for LiteRT.
        elsewhere = 2.0 * (_column(own) - 1.0)
        found.append(ops.min(ops.subtract(best, elsewhere), axis=1))
    found = ops.concatenate(found, axis=-1)
    mean, deviation = _spread(
        keras.Model([token_ids, padding_mask], found), rows
    )
    comparisons = keras.layers.Rescaling(
        (GAIN / deviation).tolist(),
        (-GAIN * mean / deviation).tolist(),
        dtype="float32",
        name="comparisons",
    )(found)
    vectors = ops.concatenate(
        [first, second, ops.abs(ops.subtract(first, second)), product], axis=-1
    )
    vectors = keras.layers.Dropout(dropout, name="dropout")(vectors)
    # A kernel for each: in one, int8 would round numbers of a vector, 0.05, by
    # the range of a comparison, 200.
    dense = functools.partial(
        keras.layers.Dense,
        num_outputs,
        kernel_initializer="zeros",
        dtype="float32",
    )
    logits = dense(use_bias=False, name="vectors")(vectors)
    logits = logits + dense(name="logits")(comparisons)
    return keras.Model([token_ids, padding_mask], logits, name="bi_encoder")


def reads_apart(backbone):
    """Whether the layers of a KerasHub encoder can be told what a token sees.

    Example:

    >>> import keras_hub
    >>> reads_apart(keras_hub.models.BertBackbone(50, 1, 2, 16, 32))
    True
    """
    return LAYER in map(type, backbone.layers)


def _without_dropout(backbone):
    twin = type(backbone).from_config({**backbone.get_config(), "dropout": 0.0})
    twin.set_weights(backbone.get_weights())
    return twin


def _read_apart(backbone, token_ids, padding_mask, second, begins):
    """Which tokens are the second text's, and the states of all.

    Returns:
        Keras tensors `[batch, length]`, int32, and `[batch, length, dim]`,
        float32.
    """
    begun = ops.minimum(ops.cumsum(second, axis=1), 1)
    side = ops.concatenate([begun[:, 1:], begun[:, -1:]], axis=1)
    before = ops.subtract(side, begun)
    tokens = ops.where(ops.equal(before, 1), begins, token_ids)
    length = ops.sum(ops.subtract(1, side), axis=1, keepdims=True)
    steps = ops.subtract(1, before * length)
    positions = ops.subtract(ops.cumsum(steps, axis=1), 1)
    same = ops.equal(
        ops.expand_dims(side, axis=1), ops.expand_dims(side, axis=2)
    )
    given = {
        LAYER: {"attention_mask": ops.cast(same, "int32")},
        keras_hub.layers.PositionEmbedding: {"positions": positions},
        keras_hub.layers.TokenAndPositionEmbedding: {"positions": positions},
    }
    # A clone begins at inputs alone, so that its layers are told what else.
    inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
    instead = {id(token_ids): tokens}
    if "segment_ids" in backbone.input:
        segments = keras.Input((None,), dtype="int32", name="segment_ids")
        inputs["segment_ids"] = segments
        instead[id(segments)] = ops.zeros_like(token_ids)

    def call(layer, *args, **kwargs):
        args = [instead.get(id(value), value) for value in args]
        return layer(*args, **{**kwargs, **given.get(type(layer), {})})

    states = keras.models.clone_model(
        backbone,
        input_tensors=inputs,
        clone_function=lambda layer: layer,
        call_function=call,
    ).output
    if has_pooler(backbone):
        states = states["sequence_output"]
    return side, ops.cast(states, "float32")


def _column(mask):
    return ops.expand_dims(ops.cast(mask, "float32"), axis=-1)


def _spread(model, rows):
    """Mean and standard deviation of each output over some rows, or a guess."""
    if rows is None:
        return np.float64(0.5), np.float64(0.25)
    # From everywhere: the rows of a file may be sorted.
    step = max(1, len(rows["token_ids"]) // MEASURED)
    some = {key: array[::step] for key, array in rows.items()}
    found = model.predict(some, verbose=0)
    return found.mean(axis=0), np.maximum(found.std(axis=0), LEAST)
