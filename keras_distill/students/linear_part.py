"""A linear model of tokens and of pairs of tokens, beside a network."""

import collections

import keras
import numpy as np
from keras import ops
from scipy import sparse

from keras_distill.data.vocabulary import ids_of_tokens
from keras_distill.students._inputs import factorize
from keras_distill.students._ngrams import ngram_rows
from keras_distill.students.ngram import TABLE
from keras_distill.students.ngram import ngram

NAME = "linear_part"
ORDERS = (2,)
# Rows for pairs; of texts of more than so many tokens more, as far as the table
# then has no more weights than this.
BUCKETS, LONG, BUCKETS_OF_LONG, WEIGHTS = 2**14, 128, 2**16, 2**18
# The tables have a column for each class, or so many.
WIDEST = 32
# The lengths of n-grams of characters, and what begins a word, as SentencePiece
# writes it.
SPELT, BEGIN = (3, 4), "\u2581"


def vocabulary_size(model):
    """How many tokens a small model of `students` knows."""
    return model.get_layer(TABLE.partition("/")[0]).input_dim


def buckets_for(length, outputs):
    """How many rows pairs have: more where texts are long, and classes few.

    Args:
        length: Integer, the tokens of a row.
        outputs: Integer, the columns of logits.
    """
    if length <= LONG:
        return BUCKETS
    return min(max(WEIGHTS // outputs, BUCKETS), BUCKETS_OF_LONG)


def shares(inputs, vocabulary, buckets=BUCKETS):
    """What the part reads of texts: the share of each token and pair in them.

    Args:
        inputs: Dict of integer arrays `[rows, length]`, `token_ids` and
            `padding_mask`.
        vocabulary: Integer, how many tokens there are.
        buckets: Integer, how many rows pairs share. Defaults to `16384`.

    Returns:
        Sparse float64 matrix `[rows, vocabulary + buckets]`, whose rows sum
        to 1.
    """
    ids, mask = (inputs[name] for name in ("token_ids", "padding_mask"))
    pairs, counted = map(
        ops.convert_to_numpy, ngram_rows(ids, mask, buckets, ORDERS)
    )
    columns = np.concatenate([ids, vocabulary + pairs], axis=1)
    known = np.concatenate([mask, counted], axis=1) > 0
    counts = known.sum(axis=1, keepdims=True)
    rows, places = np.nonzero(known)
    # Entries of one place add up.
    return sparse.csr_matrix(
        (1 / counts[rows, 0], (rows, columns[rows, places])),
        shape=(len(ids), vocabulary + buckets),
    )


def spelling(tokenizer, vocabulary):
    """How often each token has each n-gram of three or four characters.

    Tokens are spelt in lower case; where a word begins is a character, too.
    What few texts, or none, say of a token others say that are spelt alike:
    a linear model of these n-grams is one of tokens,
    `shares[:, :vocabulary] @ spelling @ weights`, also of tokens that no text
    has.

    Args:
        tokenizer: KerasHub tokenizer.
        vocabulary: Integer, how many rows.

    Returns:
        Sparse float64 matrix `[vocabulary, n-grams]`; a special token has
        none.

    Example:

    >>> from keras_distill.data import bert_preprocessor, train_vocabulary
    >>> tokens = train_vocabulary(["low lower lowest"] * 9, 14)
    >>> spelling(bert_preprocessor(tokens).tokenizer, 14).shape[0]
    14

    Reference:
        Bojanowski et al., 2017, https://arxiv.org/abs/1607.04606, section 3.2.
    """
    special = {*tokenizer.special_tokens, getattr(tokenizer, "oov_token", None)}
    within = getattr(tokenizer, "suffix_indicator", None)
    columns = collections.defaultdict(lambda: len(columns))
    rows, found = [], []
    for token, row in ids_of_tokens(tokenizer).items():
        if token in special or row >= vocabulary:
            continue
        spelt = _spelt(token, within)
        for length in SPELT:
            for start in range(len(spelt) - length + 1):
                rows.append(row)
                found.append(columns[spelt[start : start + length]])
    # Entries of one place add up.
    return sparse.csr_matrix(
        (np.ones(len(rows)), (rows, found)), shape=(vocabulary, len(columns))
    )


def _spelt(token, within):
    """A token's characters, one more where it begins a word."""
    # Of SentencePiece and of bytes, tokens have that character themselves; word
    # pieces mark the others.
    if within is None:
        spelt = token
    elif token.startswith(within):
        spelt = token.removeprefix(within)
    else:
        spelt = BEGIN + token
    return spelt.lower()


def beside(model, weight, kernel, bias):
    """Adds a linear model of `shares` to the logits of a network.

    Args:
        model: Functional `keras.Model` from `token_ids` and `padding_mask` to
            logits `[batch, outputs]`; its layers are shared.
        weight: Float, what these logits are multiplied by.
        kernel: Float array `[vocabulary + buckets, outputs]`, as `shares` has
            columns; of a rank up to 32, or it is the nearest one of that rank.
        bias: Float array `[outputs]`.

    Returns:
        `keras.Model` of stock layers, of the same inputs.

    Example:

    >>> from keras_distill.students import text_cnn
    >>> model = text_cnn(2, (50, 4), filters=4)
    >>> both = beside(model, 0.5, np.zeros((50 + BUCKETS, 2)), np.ones(2))
    >>> ids = np.array([[7, 9, 0]])
    >>> x = {"token_ids": ids, "padding_mask": ids > 0}
    >>> np.round(np.asarray(both(x) - model(x) / 2), 6).tolist()
    [[1.0, 1.0]]

    Reference:
        Cheng et al., 2016, https://arxiv.org/abs/1606.07792, section 3 (wide
        and deep; here the wide part is fitted by itself).
    """
    vocabulary, outputs = vocabulary_size(model), len(bias)
    width = min(np.linalg.matrix_rank(kernel.T @ kernel), WIDEST)
    width = max(int(width), 1)
    table, maps = factorize(kernel, width)
    part = ngram(
        outputs,
        (vocabulary, width),
        buckets=len(kernel) - vocabulary,
        width=width,
        orders=ORDERS,
        dropout=0.0,
        name=NAME,
    )
    values = {
        TABLE: table[:vocabulary],
        "ngram_embedding/embeddings": table[vocabulary:],
        "logits/kernel": maps,
        "logits/bias": bias,
    }
    for variable in part.weights:
        variable.assign(values[variable.path])
    inputs = {tensor.name: tensor for tensor in model.inputs}
    said = part([inputs[tensor.name] for tensor in part.inputs])
    scaled = keras.layers.Rescaling(weight, name="network")(model.output)
    logits = keras.layers.Add(name="both")([scaled, said])
    return keras.Model(model.inputs, logits, name=model.name)
