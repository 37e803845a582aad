"""Models with logits for each token: two small ones, and around an encoder."""

import keras
from keras import ops

from keras_distill._checks import check_integer
from keras_distill.students._inputs import check_dropout
from keras_distill.students._inputs import embed
from keras_distill.students._inputs import head
from keras_distill.students._inputs import token_inputs
from keras_distill.students.mean_pooled import encoder_states
from keras_distill.students.mean_pooled import freeze_pooler

DILATIONS = (1, 2, 4, 1)


def cnn_tagger(
    num_tags,
    embeddings,
    embedding_rank=None,
    filters=128,
    dilations=DILATIONS,
    dropout=0.3,
    name="cnn_tagger",
    dtype=None,
):
    """Dilated convolutions over token embeddings, logits for each token.

    Convolutions of three tokens, each added to what it reads, whose steps
    widen: with dilations 1, 2, 4 and 1 a token sees eight on either side.
    Padding is zero before each of them, so that it changes nothing. A
    functional `keras.Model` of stock layers, which reads what `text_cnn` reads.

    Args:
        num_tags: Integer, the number of logits of a token.
        embeddings: As in `text_cnn`: a KerasHub model, an array
            `[vocabulary, dim]`, or a tuple `(vocabulary, dim)`.
        embedding_rank: As in `text_cnn`: the rank of a factorised table.
        filters: Integer, the width of the states.
        dilations: Integers, the steps between the three tokens of each
            convolution.
        dropout: Float, `0 <= dropout < 1`, on embeddings and last states.
        name: String, the model's name.
        dtype: The layers' dtype or dtype policy. Defaults to the global one.

    Returns:
        A `keras.Model` from token ids to logits `[batch, length, num_tags]`.

    Raises:
        ValueError: If a number is out of its range, or if `embeddings` holds
            no table.

    Example:

    >>> import numpy as np
    >>> student = cnn_tagger(3, embeddings=(50, 16), filters=8)
    >>> ids = np.array([[7, 9, 0]])
    >>> logits = student({"token_ids": ids, "padding_mask": ids > 0})
    >>> tuple(logits.shape)
    (1, 3, 3)

    Reference:
        Strubell et al., 2017, https://arxiv.org/abs/1702.02098, section 4.
    """
    check_integer("num_tags", num_tags, minimum=1)
    check_integer("filters", filters, minimum=1)
    check_dropout(dropout)
    if not dilations:
        raise ValueError(
            "`dilations` must hold at least one integer. "
            f"Received: dilations={dilations}"
        )
    for dilation in dilations:
        check_integer("dilations", dilation, minimum=1)
    token_ids, padding_mask = token_inputs()
    x, mask = embed(token_ids, padding_mask, embeddings, embedding_rank, dtype)
    x = keras.layers.Dropout(dropout, dtype=dtype, name="embedding_dropout")(x)
    x = keras.layers.Dense(filters, dtype=dtype, name="widen")(x)
    for i, dilation in enumerate(dilations):
        convolve = keras.layers.Conv1D(
            filters,
            3,
            padding="same",
            activation="relu",
            dilation_rate=dilation,
            dtype=dtype,
            name=f"convolution_{i}",
        )
        x = x + convolve(x * mask)
    logits = head(x, num_tags, dropout, dtype)
    return keras.Model([token_ids, padding_mask], logits, name=name)


def bilstm_tagger(
    num_tags,
    embeddings,
    embedding_rank=None,
    units=128,
    dropout=0.3,
    name="bilstm_tagger",
    dtype=None,
):
    """A bidirectional LSTM over token embeddings, logits for each token.

    A functional `keras.Model` of stock layers, which reads what `text_cnn`
    reads. Neither direction steps over padding.

    Args:
        num_tags: Integer, the number of logits of a token.
        embeddings: As in `text_cnn`: a KerasHub model, an array
            `[vocabulary, dim]`, or a tuple `(vocabulary, dim)`.
        embedding_rank: As in `text_cnn`: the rank of a factorised table.
        units: Integer, the width of each direction.
        dropout: Float, `0 <= dropout < 1`, on embeddings and states.
        name: String, the model's name.
        dtype: The layers' dtype or dtype policy. Defaults to the global one.

    Returns:
        A `keras.Model` from token ids to logits `[batch, length, num_tags]`.

    Raises:
        ValueError: If a number is out of its range, or if `embeddings` holds
            no table.

    Example:

    >>> import numpy as np
    >>> student = bilstm_tagger(3, embeddings=(50, 16), units=8)
    >>> ids = np.array([[7, 9, 0]])
    >>> logits = student({"token_ids": ids, "padding_mask": ids > 0})
    >>> tuple(logits.shape)
    (1, 3, 3)

    Reference:
        Huang et al., 2015, https://arxiv.org/abs/1508.01991, without its CRF.
    """
    check_integer("num_tags", num_tags, minimum=1)
    check_integer("units", units, minimum=1)
    check_dropout(dropout)
    token_ids, padding_mask = token_inputs()
    x, _ = embed(token_ids, padding_mask, embeddings, embedding_rank, dtype)
    x = keras.layers.Dropout(dropout, dtype=dtype, name="embedding_dropout")(x)
    lstm = keras.layers.LSTM(units, return_sequences=True, dtype=dtype)
    lstm = keras.layers.Bidirectional(lstm, dtype=dtype, name="bilstm")
    x = lstm(x, mask=ops.cast(padding_mask, "bool"))
    logits = head(x, num_tags, dropout, dtype)
    return keras.Model([token_ids, padding_mask], logits, name=name)


def token_classifier(backbone, num_tags, dropout=0.1, name="token_classifier"):
    """A KerasHub encoder and a linear head on the state of each token.

    Args:
        backbone: A KerasHub encoder backbone, which becomes part of the model.
            Its pooler of the [CLS] state, unused here, is frozen.
        num_tags: Integer, the number of logits of a token.
        dropout: Float, `0 <= dropout < 1`, on the states.
        name: String, the model's name.

    Returns:
        A `keras.Model` from the backbone's dict of inputs to logits
        `[batch, length, num_tags]`.

    Raises:
        ValueError: If a number is out of its range, or if `backbone` has no
            input `padding_mask`.

    Example:

    >>> import keras_hub
    >>> import numpy as np
    >>> backbone = keras_hub.models.DistilBertBackbone(50, 2, 2, 16, 32)
    >>> model = token_classifier(backbone, num_tags=3)
    >>> token_ids = np.array([[7, 9, 0]])
    >>> logits = model({"token_ids": token_ids, "padding_mask": token_ids > 0})
    >>> tuple(logits.shape)
    (1, 3, 3)

    Reference:
        Devlin et al., 2019, https://arxiv.org/abs/1810.04805, section 5.3.
    """
    check_integer("num_tags", num_tags, minimum=1)
    check_dropout(dropout)
    inputs, x = encoder_states(backbone)
    freeze_pooler(backbone)
    dtype = backbone.dtype_policy
    logits = head(x, num_tags, dropout, dtype)
    return keras.Model(inputs, logits, name=name)
