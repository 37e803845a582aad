"""One small encoder for both texts of a pair, and what compares them."""

import functools

import keras
from keras import ops

from keras_distill.students._inputs import token_inputs
from keras_distill.students._sides import best_cosines
from keras_distill.students._sides import word_masks

# In how many ways the tokens of a text are weighed, the units that read what
# comes of it, and by how much less other tokens weigh: no more than leaves an
# int8 file steps for the weights themselves.
WEIGHINGS, UNITS, LESS = 8, 32, 30.0


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
    masks = word_masks(token_ids, padding_mask, separators)
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
    for own, best in zip(masks, best_cosines(turned, masks)):
        # TensorFlow would make a sum here a `BiasAdd`, which LiteRT has not.
        less = LESS * (1.0 - ops.expand_dims(own, axis=-1))
        shares = ops.softmax(ops.subtract(weights, less), axis=1)
        means.append(ops.sum(shares * best, axis=1))
    means = ops.concatenate(means, axis=-1)
    return means, dense(UNITS, activation="relu", name="matched")(means)
