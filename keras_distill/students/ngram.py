"""A bag of hashed n-grams: the fastest text classifier."""

import dataclasses
import types

import keras
from keras import ops

from keras_distill._checks import check_integer
from keras_distill.students._inputs import check_dropout
from keras_distill.students._inputs import divide_by_count
from keras_distill.students._inputs import embedded_sum
from keras_distill.students._inputs import token_inputs
from keras_distill.students._ngrams import ORDERS
from keras_distill.students._ngrams import WIDTH
from keras_distill.students._ngrams import check_ngrams
from keras_distill.students._ngrams import ngram_sum
from keras_distill.students.of_tokens import TokenStudent

# Paths of what `ngram` makes: the table of tokens, and what may follow it.
TABLE = "token_embedding/embeddings"
MAPS = "token_projection/kernel", "token_map/kernel"


@dataclasses.dataclass(frozen=True, kw_only=True)
class NGram(TokenStudent):
    """`ngram` for any task: vectors of `width` for tokens and n-grams.

    Args:
        buckets: Integer, the rows of the table of n-grams.

    Example:

    >>> NGram(buckets=2**14).width
    32
    """

    width: int = WIDTH
    buckets: int = 2**16
    # A row of the table moves only where its n-gram occurs: large steps, and
    # many passes.
    epochs: int = 20
    learning_rate: float = 5e-3

    title = "NGram"
    # A map to its width follows in any case.
    widens = False
    with_pretrained = types.MappingProxyType({"embeddings": "vectors"})

    def __post_init__(self):
        super().__post_init__()
        check_ngrams("buckets", self.buckets)

    def of_text(self, task, teacher):
        return ngram(
            task.num_outputs,
            *self.table(task, teacher),
            buckets=self.buckets,
            width=self.width,
        )

    def finished(self, model, task):
        # From the table to the mean all is linear. Training gains by the
        # columns that a map narrows; a file does not. Of a pair they are
        # compared with those of the other text, too.
        if self.quantization is not None or task.sides > 1:
            return super().finished(model, task)
        weights = {weight.path: weight for weight in model.weights}
        table = weights[TABLE]
        if table.shape[1] <= self.width:
            return super().finished(model, task)
        for path in MAPS:
            if path in weights:
                table = ops.matmul(table, weights[path])
        plain = dataclasses.replace(
            self, embeddings="random", embedding_rank=None
        )
        small = plain.build(task, None)
        for weight in small.weights:
            known = table if weight.path == TABLE else weights[weight.path]
            weight.assign(known)
        return small


def ngram(  # noqa: PLR0913 - What the two tables are, and what follows them.
    num_classes,
    embeddings,
    embedding_rank=None,
    buckets=2**16,
    width=WIDTH,
    orders=ORDERS,
    hidden=None,
    dropout=0.3,
    name="ngram",
    dtype=None,
):
    """The model of fastText: tokens and hashed n-grams, averaged, and a layer.

    Each n-gram of tokens is hashed, in the graph, to a row of one table of
    `buckets` vectors, which n-grams may share. The vectors of all tokens and
    of all n-grams are averaged; one or two dense layers follow.

    A functional `keras.Model` of stock layers: its `.keras` file loads without
    this package, and the export to LiteRT has the hashing in it. It reads the
    teacher's `token_ids` and `padding_mask`, each of shape `[batch, length]`,
    from a dict, which may hold more entries, or from a list. Padding changes
    nothing: an n-gram counts where none of its tokens is padding, and a text
    may be shorter than all of them.

    fastText adds the n-grams of characters within a word to the word's vector.
    For a fixed vocabulary their sum is a constant of each token: the table of
    tokens stands for both.

    Args:
        num_classes: Integer, the number of logits.
        embeddings: As in `text_cnn`: a KerasHub model, an array
            `[vocabulary, dim]`, or a tuple `(vocabulary, dim)`. If `dim` is
            not `width`, a linear map follows the sum over the tokens.
        embedding_rank: As in `text_cnn`: the rank of a factorised table.
        buckets: Integer, the rows of the table of n-grams.
        width: Integer, its columns.
        orders: Integers from 2 to 8, the lengths of the n-grams, in tokens.
        hidden: Integer, the units of a dense layer with ReLU before the last
            one, or `None` for the last one alone.
        dropout: Float, `0 <= dropout < 1`, on the mean.
        name: String, the model's name.
        dtype: The layers' dtype or dtype policy. Defaults to the global one.

    Returns:
        A `keras.Model` from token ids to logits `[batch, num_classes]`.

    Raises:
        ValueError: If a number is out of its range, or if `embeddings` holds
            no table.

    Example:

    >>> import numpy as np
    >>> student = ngram(3, embeddings=(50, 8), buckets=64, width=8)
    >>> ids = np.array([[7, 9, 0]])
    >>> logits = student({"token_ids": ids, "padding_mask": ids > 0})
    >>> tuple(logits.shape)
    (1, 3)

    Reference:
        Joulin et al., 2016, https://arxiv.org/abs/1607.01759, section 2.
    """
    check_integer("num_classes", num_classes, minimum=1)
    check_ngrams("buckets", buckets, width, orders)
    check_dropout(dropout)
    if hidden is not None:
        check_integer("hidden", hidden, minimum=1)
    token_ids, padding_mask = token_inputs()
    x, tokens = embedded_sum(
        token_ids, padding_mask, embeddings, embedding_rank, dtype
    )
    if x.shape[-1] != width:
        x = keras.layers.Dense(
            width, use_bias=False, dtype=dtype, name="token_map"
        )(x)
    total, ngrams = ngram_sum(
        token_ids, padding_mask, buckets, width, orders, dtype
    )
    x = divide_by_count(x + total, ops.add(tokens, ngrams))
    x = keras.layers.Dropout(dropout, dtype=dtype, name="dropout")(x)
    if hidden is not None:
        x = keras.layers.Dense(
            hidden, activation="relu", dtype=dtype, name="hidden"
        )(x)
    logits = keras.layers.Dense(num_classes, dtype=dtype, name="logits")(x)
    return keras.Model([token_ids, padding_mask], logits, name=name)
