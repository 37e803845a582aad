"""One small encoder for both texts of a pair, and what compares them."""

import keras
from keras import ops

from keras_distill.students._inputs import token_inputs


def siamese(model, separators, name=None):
    """A classifier of pairs from a classifier of texts.

    Both texts of a row go through the same weights, each without the other and
    without the tokens that begin and end them: `u` and `v` are what the last
    layer of `model` would read, and the new last layer reads `[u, v, |u - v|,
    u * v]`.

    A functional `keras.Model` of stock layers, from the `token_ids` and
    `padding_mask` `[batch, length]` of a packed pair.

    Args:
        model: What `text_cnn`, `bilstm` or `ngram` gives.
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
        Conneau et al., 2017, https://arxiv.org/abs/1705.02364, section 3.1.
    """
    dropout, last = model.get_layer("dropout"), model.get_layer("logits")
    encoder = keras.Model(model.inputs, dropout.input, name="encoder")
    token_ids, padding_mask = token_inputs()
    first, second = [
        encoder([token_ids, mask])
        for mask in _masks(token_ids, padding_mask, separators)
    ]
    compared = ops.concatenate(
        [first, second, ops.abs(ops.subtract(first, second)), first * second],
        axis=-1,
    )
    x = keras.layers.Dropout.from_config(dropout.get_config())(compared)
    logits = keras.layers.Dense.from_config(last.get_config())(x)
    return keras.Model(
        [token_ids, padding_mask], logits, name=name or model.name
    )


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
