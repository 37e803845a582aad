"""A classifier on the mean of an encoder's states."""

import keras
import keras_hub
from keras import ops

from keras_distill._checks import check_integer
from keras_distill.students._inputs import check_dropout
from keras_distill.students._inputs import has_pooler
from keras_distill.students._inputs import head
from keras_distill.students._inputs import masked_mean
from keras_distill.students._ngrams import check_ngrams
from keras_distill.students._ngrams import ngram_mean


def mean_pooled_classifier(
    backbone,
    num_classes,
    dropout=0.1,
    name="mean_pooled_classifier",
    ngram_buckets=None,
):
    """A KerasHub encoder, the mean over its tokens' states, a linear head.

    A small encoder without pretraining learns from the mean of all states
    where it does not from the state of [CLS] alone.

    Args:
        backbone: A KerasHub encoder backbone, which becomes part of the model.
            Its pooler of the [CLS] state, unused here, is frozen.
        num_classes: Integer, the number of logits.
        dropout: Float, `0 <= dropout < 1`, on the mean.
        name: String, the model's name.
        ngram_buckets: Integer, rows of a table of hashed n-grams of two and
            three tokens, whose mean stands beside that of the states: what a
            new encoder takes many texts to find, it reads off at once. None:
            states alone.

    Returns:
        A `keras.Model` from the backbone's dict of inputs to logits
        `[batch, num_classes]`.

    Raises:
        ValueError: If a number is out of its range, or if `backbone` has no
            input `padding_mask`.

    Example:

    >>> import keras_hub
    >>> import numpy as np
    >>> backbone = keras_hub.models.DistilBertBackbone(50, 2, 2, 16, 32)
    >>> model = mean_pooled_classifier(backbone, num_classes=3)
    >>> token_ids = np.array([[7, 9, 0]])
    >>> logits = model({"token_ids": token_ids, "padding_mask": token_ids > 0})
    >>> tuple(logits.shape)
    (1, 3)
    """
    check_integer("num_classes", num_classes, minimum=1)
    check_dropout(dropout)
    if ngram_buckets is not None:
        check_ngrams("ngram_buckets", ngram_buckets)
    inputs, states = encoder_states(backbone)
    freeze_pooler(backbone)
    mask = ops.cast(inputs["padding_mask"], states.dtype)
    x = masked_mean(states, ops.expand_dims(mask, axis=-1))
    dtype = backbone.dtype_policy
    if ngram_buckets is not None:
        found = ngram_mean(
            inputs["token_ids"], inputs["padding_mask"], ngram_buckets, dtype
        )
        x = ops.concatenate([x, found], axis=-1)
    logits = head(x, num_classes, dropout, dtype)
    return keras.Model(inputs, logits, name=name)


def freeze_pooler(backbone):
    """Freezes the pooler of the [CLS] state, which feeds nothing that is used.

    Args:
        backbone: A KerasHub encoder backbone, with a pooler or without.
    """
    if has_pooler(backbone):
        backbone.pooled_dense.trainable = False


def encoder_states(backbone):
    """The inputs of an encoder, and the states of its tokens.

    Args:
        backbone: A KerasHub encoder backbone.

    Returns:
        Pair of a dict of `keras.Input` and a Keras tensor
        `[batch, length, width]`.

    Raises:
        ValueError: It has no input `padding_mask`.
    """
    if (
        not isinstance(backbone, keras_hub.models.Backbone)
        or "padding_mask" not in backbone.input
    ):
        raise ValueError(
            "`backbone` must be a KerasHub encoder with an input "
            f"`padding_mask`. Received: backbone={backbone}"
        )
    inputs = {
        key: keras.Input(source.shape[1:], dtype=source.dtype, name=key)
        for key, source in backbone.input.items()
    }
    states = backbone(inputs)
    if has_pooler(backbone):
        states = states["sequence_output"]
    return inputs, states
