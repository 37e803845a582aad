"""One small encoder for both texts of a pair, and what compares them."""

import functools

import keras
import keras_hub
import numpy as np
from keras import ops

from keras_distill.students._inputs import has_pooler
from keras_distill.students._inputs import masked_mean
from keras_distill.students._inputs import token_inputs

# In how many ways the tokens of a text are weighed, the units that read what
# comes of it, and by how much less other tokens weigh: no more than leaves an
# int8 file steps for the weights themselves.
WEIGHINGS, UNITS, LESS = 8, 32, 30.0
# By how much a standard deviation of what compares two texts is more than that
# of a state: a head at the small rate of copied layers learns it first.
GAIN = 80.0
# Of comparisons that hardly vary, as those of a new encoder, noise is not more.
LEAST, MEASURED = 0.02, 512


def siamese(model, separators, name=None):
    """A classifier of pairs from a classifier of texts.

    Both texts of a row go through the same weights, each without the other and
    without the tokens that begin and end them: `u` and `v` are what the last
    layer of `model` would read, and the new last layer reads `[u, v, |u - v|,
    u * v]`.

    Two vectors do not tell which words both texts have. So it also reads how
    well each token is matched, the largest of its cosines with the tokens of
    the other text, as eight weighted means for each text, of weights that each
    token has learnt, and 32 units on these 16 numbers.

    A functional `keras.Model` of stock layers, from the `token_ids` and
    `padding_mask` `[batch, length]` of a packed pair.

    Args:
        model: What `text_cnn`, `bilstm` or `ngram` gives, with its layers
            `token_embedding`, `dropout` and `logits`.
        separators: Integers, the ids that begin, part and end the texts of a
            row. The first text ends where one follows a token that is none.
        name: String, the model's name. Defaults to that of `model`.

    Returns:
        A `keras.Model` from token ids to logits `[batch, num_classes]`.

    Example:

    >>> import keras_distill as kd
    >>> import numpy as np
    >>> one = kd.students.text_cnn(2, embeddings=(50, 8), filters=4)
    >>> student = kd.students.siamese(one, separators=(2, 3))
    >>> ids = np.array([[2, 7, 9, 3, 8, 3, 0]])
    >>> tuple(student({"token_ids": ids, "padding_mask": ids > 0}).shape)
    (1, 2)

    Reference:
        Mou et al., 2016, https://arxiv.org/abs/1512.08422, section 3.2;
        Conneau et al., 2017, https://arxiv.org/abs/1705.02364, section 3.1;
        Zhang et al., 2020, https://arxiv.org/abs/1904.09675, section 3
        (recall and precision of tokens, importance weighting).
    """
    dropout, last = model.get_layer("dropout"), model.get_layer("logits")
    encoder = keras.Model(
        model.inputs,
        [dropout.input, model.get_layer("token_embedding").output],
        name="encoder",
    )
    token_ids, padding_mask = token_inputs()
    masks = _masks(token_ids, padding_mask, separators)
    (first, tokens), (second, _) = [
        encoder([token_ids, mask]) for mask in masks
    ]
    compared = ops.concatenate(
        [first, second, ops.abs(ops.subtract(first, second)), first * second],
        axis=-1,
    )
    x = keras.layers.Dropout.from_config(dropout.get_config())(compared)
    x = ops.concatenate([x, *_matched(tokens, masks, last.dtype_policy)], -1)
    logits = keras.layers.Dense.from_config(last.get_config())(x)
    return keras.Model(
        [token_ids, padding_mask], logits, name=name or model.name
    )


def bi_encoder(backbone, num_outputs, separators, rows=None, dropout=0.1):
    """A model of pairs from an encoder that reads each text by itself.

    The texts stay in one row, and cost what they did: no token attends to one
    of the other text, the second one's positions begin anew, and what stands
    before it is the token that begins a text. Segments, where the encoder has
    them, are those of a single text.

    `u` and `v` are the means of each text's states, divided by their lengths.
    The logits read their cosine; how well the tokens of each text are matched
    by states of the other one, on average and at worst; and, from zero on,
    `[u, v, |u - v|, u * v]`.

    Args:
        backbone: KerasHub encoder of `keras_hub.layers.TransformerEncoder`,
            whose layers become the model's own.
        num_outputs: Integer, the number of logits.
        separators: Integers, the ids that begin a text and end it.
        rows: Dict of arrays, rows of inputs, some of which tell mean and
            deviation of the comparisons. None: 0.5 and 0.25.
        dropout: Float, on the vectors.

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
    kind = keras_hub.layers.TransformerEncoder
    if kind not in map(type, backbone.layers):
        raise ValueError(
            "The texts of a pair can be read one by one (`cross_encoder` is "
            f"False) by encoders of `keras_hub.layers.{kind.__name__}` alone. "
            "Let the student read both in a row: `--cross-encoder`. Received: "
            f"a teacher with {type(backbone).__name__}"
        )
    token_ids, padding_mask = token_inputs()
    words = _masks(token_ids, padding_mask, separators)
    side, states = _read_apart(
        backbone, token_ids, padding_mask, words[1], separators[0]
    )
    unit = keras.layers.UnitNormalization(dtype="float32", name="unit")
    first, second = [
        unit(masked_mean(states, _column(padding_mask * own)))
        for own in (ops.subtract(1, side), side)
    ]
    product = first * second
    words = [ops.cast(mask, "float32") for mask in words]
    found = [ops.sum(product, axis=-1, keepdims=True)]
    for own, best in zip(words, _best_cosines(unit(states), words)):
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
        keras_hub.layers.TransformerEncoder: {
            "attention_mask": ops.cast(same, "int32")
        },
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


def _best_cosines(units, masks):
    """How near each token's nearest of the other text is, for both texts.

    Args:
        units: Keras tensor `[batch, length, dim]`, of length 1.
        masks: Two Keras tensors `[batch, length]`, floats.

    Returns:
        Two Keras tensors `[batch, length, 1]`: of tokens of the first text
        those to the second, and the other way round.
    """
    cosines = ops.matmul(units, ops.transpose(units, (0, 2, 1)))
    best = []
    for other in masks[::-1]:
        # A cosine is at least -1: no token elsewhere is nearer.
        elsewhere = 2.0 * (1.0 - ops.expand_dims(other, axis=1))
        best.append(ops.max(cosines - elsewhere, axis=-1, keepdims=True))
    return best


def _matched(tokens, masks, dtype):
    """How much of each text the other one says, too.

    Args:
        tokens: Keras tensor of shape `[batch, length, dim]`.
        masks: Two Keras tensors of shape `[batch, length]`.
        dtype: The layers' dtype policy.

    Returns:
        Keras tensors of shapes `[batch, 2 * WEIGHINGS]`, within [-1, 1] where
        both texts have tokens, and `[batch, UNITS]`.
    """
    dense = functools.partial(keras.layers.Dense, dtype=dtype)
    width = tokens.shape[-1]
    turned = dense(width, use_bias=False, name="match")(tokens)
    # A row of zeros is divided by 1e-12, which is 0 in float16.
    wide = keras.backend.result_type(dtype.compute_dtype, "float32")
    turned = keras.layers.UnitNormalization(dtype=wide)(turned)
    weights = dense(WEIGHINGS, name="importance")(tokens)
    masks = [ops.cast(mask, turned.dtype) for mask in masks]
    means = []
    for own, best in zip(masks, _best_cosines(turned, masks)):
        # TensorFlow would make a sum here a `BiasAdd`, which LiteRT has not.
        less = LESS * (1.0 - ops.expand_dims(own, axis=-1))
        shares = ops.softmax(ops.subtract(weights, less), axis=1)
        means.append(ops.sum(shares * best, axis=1))
    means = ops.concatenate(means, axis=-1)
    return means, dense(UNITS, activation="relu", name="matched")(means)


def _masks(token_ids, padding_mask, separators):
    """Which tokens are those of the first text, and which of the second.

    Returns:
        Two Keras tensors of shape `[batch, length]`, int32.
    """
    said = padding_mask
    for separator in separators:
        said = said * ops.cast(ops.not_equal(token_ids, separator), "int32")
    # A text begins at a token that follows none: families part the two by one
    # separator or by two.
    before = ops.pad(said[:, :-1], ((0, 0), (1, 0)))
    begins = said * ops.subtract(1, before)
    begun = ops.cumsum(begins, axis=1)
    first = said * ops.cast(ops.equal(begun, 1), "int32")
    return first, ops.subtract(said, first)
