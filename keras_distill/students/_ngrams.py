"""Hashed n-grams of tokens: vectors from one table, summed over a text."""

import keras
from keras import ops

from keras_distill._checks import check_integer
from keras_distill.students._inputs import divide_by_count

WIDTH = 32
ORDERS = (2, 3)
LONGEST = 8
# Primes: hashes lie below the first. No integer leaves 32 bits, since
# `PRIME * MULTIPLIER` and `SQUARED**2` are below 2**31.
PRIME = 2**20 - 3
MULTIPLIER = 2047
SQUARED = 46337


def check_ngrams(name, buckets, width=WIDTH, orders=ORDERS):
    """Raises `ValueError` for a table, or orders, that cannot be."""
    check_integer(name, buckets, minimum=1, maximum=PRIME)
    check_integer("width", width, minimum=1)
    if not isinstance(orders, tuple | list) or not orders:
        raise ValueError(
            "`orders` must be a tuple of at least one integer. "
            f"Received: orders={orders}"
        )
    for order in orders:
        check_integer("orders", order, minimum=2, maximum=LONGEST)
    if len(set(orders)) < len(orders):
        raise ValueError(
            "`orders` must differ from one another; name each one once. "
            f"Received: orders={orders}"
        )


def ngram_sum(
    token_ids, padding_mask, buckets, width=WIDTH, orders=ORDERS, dtype=None
):
    """Sums the vectors of the n-grams without padding; counts them.

    Args:
        token_ids: Keras tensor of shape `[batch, length]`, int32.
        padding_mask: Keras tensor of shape `[batch, length]`, int32.
        buckets: Integer, the rows of the table.
        width: Integer, its columns.
        orders: Integers, the lengths of the n-grams.
        dtype: The table's dtype policy.

    Returns:
        Keras tensors of shapes `[batch, width]` and (the count, int32)
        `[batch, 1]`.
    """
    rows, counted = ngram_rows(token_ids, padding_mask, buckets, orders)
    table = keras.layers.Embedding(
        buckets, width, dtype=dtype, name="ngram_embedding"
    )
    vectors = table(rows)
    mask = ops.expand_dims(ops.cast(counted, vectors.dtype), axis=-1)
    count = ops.sum(counted, axis=1, keepdims=True)
    return ops.sum(vectors * mask, axis=1), count


def ngram_mean(token_ids, padding_mask, buckets, dtype=None):
    """The mean of those vectors; 0 for a text without n-grams."""
    total, count = ngram_sum(token_ids, padding_mask, buckets, dtype=dtype)
    return divide_by_count(total, count)


def ngram_rows(token_ids, padding_mask, buckets, orders=ORDERS):
    """The row of a table for each n-gram, and whether it has no padding.

    Args:
        token_ids: As in `ngram_sum`, or an array, and so are the others.
        padding_mask: Keras tensor of shape `[batch, length]`, int32.
        buckets: Integer, the rows of the table.
        orders: Integers, the lengths of the n-grams.

    Returns:
        Two tensors of shape `[batch, length * len(orders)]`, int32.
    """
    hashes, counted = _hashes(token_ids, padding_mask, orders)
    return ops.mod(hashes, buckets), counted


def _hashes(token_ids, padding_mask, orders):
    """The hash of the n-gram at each place, and whether it has no padding.

    With `x` the tokens, the hash `h` of an n-gram is that of its first tokens,
    and one more: `h[1] = MULTIPLIER * x[1]`, `h[n] = s * s - h[n - 1] - x[n]`
    with `s = h[n - 1] % SQUARED`, each modulo `PRIME`. A linear hash in the
    place of the square lets neighbouring ids meet too often.

    No sum: that of two int32 `[1, length]` becomes a `BiasAdd` on its way to
    LiteRT, which has it for float32 only.

    Returns:
        Two Keras tensors of shape `[batch, length * len(orders)]`, int32.
    """
    last = max(orders) - 1
    # Every order keeps the length, however short a text is.
    ids = ops.pad(token_ids, ((0, 0), (0, last)))
    mask = ops.pad(padding_mask, ((0, 0), (0, last)))
    found, counted = ops.mod(token_ids, PRIME), padding_mask
    found = ops.mod(found * MULTIPLIER, PRIME)
    each = {}
    for place in range(1, last + 1):
        window = slice(place, place - last or None)
        low = ops.mod(found, SQUARED)
        found = ops.subtract(ops.subtract(low * low, found), ids[:, window])
        found = ops.mod(found, PRIME)
        counted = counted * mask[:, window]
        each[place + 1] = found, counted
    return [
        ops.concatenate(parts, axis=1)
        for parts in zip(*(each[order] for order in orders))
    ]
