"""A recurrent text classifier."""

import dataclasses

import keras
from keras import ops

from keras_distill._checks import check_choice
from keras_distill._checks import check_integer
from keras_distill.students._inputs import check_dropout
from keras_distill.students._inputs import embed
from keras_distill.students._inputs import head
from keras_distill.students._inputs import masked_mean
from keras_distill.students._inputs import token_inputs
from keras_distill.students.of_tokens import PRETRAINED
from keras_distill.students.of_tokens import TokenStudent
from keras_distill.students.taggers import bilstm_tagger


@dataclasses.dataclass(frozen=True, kw_only=True)
class BiLSTM(TokenStudent):
    """`bilstm` for any task: `width` units in each direction.

    Example:

    >>> BiLSTM(epochs=3).width
    64
    """

    title = "BiLSTM"
    learns_states = True
    with_pretrained = PRETRAINED

    def of_text(self, task, teacher):
        return bilstm(
            task.num_outputs,
            *self.table(task, teacher),
            units=self.width,
        )

    def of_tokens(self, task, teacher):
        return bilstm_tagger(
            task.num_outputs, *self.table(task, teacher), units=self.width
        )

    def hidden_states(self, model):
        # One for pairs has them in its encoder, twice a row.
        return [layer for layer in model.layers if layer.name == "bilstm"]


def bilstm(
    num_classes,
    embeddings,
    embedding_rank=None,
    units=128,
    pooling="max",
    dropout=0.5,
    name="bilstm",
    dtype=None,
):
    """A bidirectional LSTM over token embeddings, pooled over the tokens.

    A functional `keras.Model` of stock layers: its `.keras` file loads without
    this package. It reads the teacher's `token_ids` and `padding_mask`, each
    of shape `[batch, length]`, from a dict, which may hold more entries, or
    from a list. Neither direction steps over padding, nor does the pooling.

    Args:
        num_classes: Integer, the number of logits.
        embeddings: As in `text_cnn`: a KerasHub model, an array
            `[vocabulary, dim]`, or a tuple `(vocabulary, dim)`.
        embedding_rank: As in `text_cnn`: the rank of a factorised table.
        units: Integer, the width of each direction.
        pooling: `"max"` or `"mean"`, over the tokens' states.
        dropout: Float, `0 <= dropout < 1`, before the last layer.
        name: String, the model's name.
        dtype: The layers' dtype or dtype policy. Defaults to the global one.

    Returns:
        A `keras.Model` from token ids to logits `[batch, num_classes]`.

    Raises:
        ValueError: If a number is out of its range, if `pooling` is unknown,
            or if `embeddings` holds no table.

    Example:

    >>> import numpy as np
    >>> student = bilstm(3, embeddings=(50, 16), units=8, pooling="mean")
    >>> ids = np.array([[7, 9, 0]])
    >>> logits = student({"token_ids": ids, "padding_mask": ids > 0})
    >>> tuple(logits.shape)
    (1, 3)

    Reference:
        Tang et al., 2019, https://arxiv.org/abs/1903.12136, section 3.1.
    """
    check_integer("num_classes", num_classes, minimum=1)
    check_integer("units", units, minimum=1)
    check_dropout(dropout)
    check_choice("pooling", pooling, ("max", "mean"))
    token_ids, padding_mask = token_inputs()
    x, mask = embed(token_ids, padding_mask, embeddings, embedding_rank, dtype)
    lstm = keras.layers.LSTM(units, return_sequences=True, dtype=dtype)
    lstm = keras.layers.Bidirectional(lstm, dtype=dtype, name="bilstm")
    x = lstm(x, mask=ops.cast(padding_mask, "bool"))
    # States lie within (-1, 1): at -2 or less, padding wins no maximum.
    x = (
        masked_mean(x, mask)
        if pooling == "mean"
        else ops.max(x - 2.0 * (1.0 - mask), axis=1)
    )
    logits = head(x, num_classes, dropout, dtype)
    return keras.Model([token_ids, padding_mask], logits, name=name)
