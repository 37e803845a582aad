"""A convolutional text classifier."""

import dataclasses
import types

import keras
from keras import ops

from keras_distill._checks import check_integer
from keras_distill.students._inputs import check_dropout
from keras_distill.students._inputs import embed
from keras_distill.students._inputs import head
from keras_distill.students._inputs import token_inputs
from keras_distill.students._ngrams import check_ngrams
from keras_distill.students._ngrams import ngram_mean
from keras_distill.students.of_tokens import PRETRAINED
from keras_distill.students.of_tokens import TokenStudent
from keras_distill.students.taggers import cnn_tagger


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextCNN(TokenStudent):
    """`text_cnn` for any task: `width` filters of each size.

    Args:
        ngram_buckets: Integer, the rows of a table of n-grams beside the
            convolutions, or None for convolutions alone.

    Example:

    >>> TextCNN(width=128, embeddings="teacher", embedding_rank=64).epochs
    10
    """

    ngram_buckets: int | None = None

    title = "TextCNN"
    learns_states = True
    with_pretrained = types.MappingProxyType(
        {**PRETRAINED, "embeddings": "vectors"}
    )
    # New embeddings know nothing of word pairs that few texts hold; a table of
    # n-grams tells them apart at once, as a linear model does.
    with_embedded = types.MappingProxyType({"ngram_buckets": 2**14})

    def __post_init__(self):
        super().__post_init__()
        if self.ngram_buckets is not None:
            check_ngrams("ngram_buckets", self.ngram_buckets)

    def of_text(self, task, teacher):
        return text_cnn(
            task.num_outputs,
            *self.table(task, teacher),
            filters=self.width,
            ngram_buckets=self.ngram_buckets,
        )

    def of_tokens(self, task, teacher):
        return cnn_tagger(
            task.num_outputs, *self.table(task, teacher), filters=self.width
        )


def text_cnn(  # noqa: PLR0913 - What is convolved, and what stands beside it.
    num_classes,
    embeddings,
    embedding_rank=None,
    filters=128,
    kernel_sizes=(3, 4, 5),
    dropout=0.5,
    name="text_cnn",
    dtype=None,
    ngram_buckets=None,
):
    """TextCNN: parallel convolutions over token embeddings, max over time.

    A functional `keras.Model` of stock layers: its `.keras` file loads without
    this package. It reads the teacher's `token_ids` and `padding_mask`, each
    of shape `[batch, length]`, from a dict, which may hold more entries, or
    from a list.

    Padding changes nothing: padded embeddings are zero and the maximum is
    taken over the windows centred on a token (all windows see zeros beyond
    the text, so that a text may be shorter than a kernel).

    To freeze the table: `student.get_layer("token_embedding").trainable =
    False`.

    Args:
        num_classes: Integer, the number of logits.
        embeddings: The token embeddings. A KerasHub backbone or task (or a
            model around one), whose table is copied; an array of shape
            `[vocabulary, dim]`; or a tuple `(vocabulary, dim)` for a table
            trained from scratch.
        embedding_rank: Integer, or `None` for the whole table. With a rank,
            the table is `[vocabulary, rank]`, followed by a linear map to
            `dim`. Given embeddings are approximated by a truncated SVD.
        filters: Integer, the number of filters of each kernel size.
        kernel_sizes: Integers, the widths of the windows, in tokens.
        dropout: Float, `0 <= dropout < 1`, before the last layer.
        name: String, the model's name.
        dtype: The layers' dtype or dtype policy. Defaults to the global one.
        ngram_buckets: Integer: wide and deep. The mean over hashed n-grams of
            2 and 3 tokens, as `ngram` has them, with as many rows of 32
            columns in their table, goes into the last layer, too. `None`:
            convolutions alone.

    Returns:
        A `keras.Model` from token ids to logits `[batch, num_classes]`.

    Raises:
        ValueError: If a number is out of its range, or if `embeddings` holds
            no table.

    Example:

    >>> import numpy as np
    >>> student = text_cnn(3, embeddings=(50, 16), filters=8)
    >>> ids = np.array([[7, 9, 0]])
    >>> logits = student({"token_ids": ids, "padding_mask": ids > 0})
    >>> tuple(logits.shape)
    (1, 3)

    Reference:
        Kim, 2014, https://arxiv.org/abs/1408.5882, section 2; Cheng et al.,
        2016, https://arxiv.org/abs/1606.07792 (wide and deep).
    """
    check_integer("num_classes", num_classes, minimum=1)
    check_integer("filters", filters, minimum=1)
    check_dropout(dropout)
    _check_kernel_sizes(kernel_sizes)
    if ngram_buckets is not None:
        check_ngrams("ngram_buckets", ngram_buckets)
    token_ids, padding_mask = token_inputs()
    x, mask = embed(token_ids, padding_mask, embeddings, embedding_rank, dtype)
    pooled = []
    for size in kernel_sizes:
        convolve = keras.layers.Conv1D(
            filters,
            size,
            padding="same",
            activation="relu",
            dtype=dtype,
            name=f"convolution_{size}",
        )
        # Never negative: a zero in the place of padding wins no maximum.
        pooled.append(ops.max(convolve(x) * mask, axis=1))
    if ngram_buckets is not None:
        pooled.append(ngram_mean(token_ids, padding_mask, ngram_buckets, dtype))
    x = ops.concatenate(pooled, axis=-1)
    logits = head(x, num_classes, dropout, dtype)
    return keras.Model([token_ids, padding_mask], logits, name=name)


def _check_kernel_sizes(kernel_sizes):
    if not isinstance(kernel_sizes, tuple | list) or not kernel_sizes:
        raise ValueError(
            "`kernel_sizes` must be a tuple of at least one integer. "
            f"Received: kernel_sizes={kernel_sizes}"
        )
    for size in kernel_sizes:
        check_integer("kernel_sizes", size, minimum=1)
    if len(set(kernel_sizes)) < len(kernel_sizes):
        raise ValueError(
            "`kernel_sizes` must differ from one another; raise `filters` to "
            f"widen a kernel. Received: kernel_sizes={kernel_sizes}"
        )
