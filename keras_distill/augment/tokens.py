"""Methods over token ids for `tf.data`: stateless functions of a seed.

Ids are integer tensors `[length]` or `[batch, length]`, padded at the end, and
keep their shape. A seed is an integer or a pair, as `tf.random`'s stateless
functions take it; a new one for each element comes, for example, from
`tf.data.Dataset.random(seed=1)`:

    numbers = tf.data.Dataset.random(seed=1, rerandomize_each_iteration=True)
    tf.data.Dataset.zip(ids, numbers).map(
        lambda ids, seed: mask_tokens(ids, seed, mask_id=103, keep_ids=(101,)))
"""

import tensorflow as tf

from keras_distill._checks import check_between
from keras_distill._checks import check_integer


def mask_tokens(
    token_ids, seed, mask_id, probability=0.1, keep_ids=(), pad_id=0
):
    """Sets tokens to `mask_id`, each on its own.

    Args:
        token_ids: Integer tensor `[length]` or `[batch, length]`.
        seed: Integer or pair of integers.
        mask_id: Integer.
        probability: Float, of each token. Defaults to `0.1`.
        keep_ids: Integers, the ids that stay, such as `[CLS]` and `[SEP]`.
        pad_id: Integer, the id of padding, which stays. Defaults to `0`.

    Returns:
        Tensor of the shape and dtype of `token_ids`.

    Raises:
        ValueError: if `probability` is not between 0 and 1.

    Example:

    >>> ids = tf.constant([2, 7, 8, 3, 0])
    >>> mask_tokens(ids, 1, mask_id=4, probability=1.0, keep_ids=(2, 3)).numpy()
    array([2, 4, 4, 3, 0], dtype=int32)

    Reference:
        Tang et al., 2019, https://arxiv.org/abs/1903.12136, section 3.3.
    """
    token_ids = tf.convert_to_tensor(token_ids)
    chosen = _choose(token_ids, seed, probability, keep_ids, pad_id)
    return tf.where(chosen, tf.cast(mask_id, token_ids.dtype), token_ids)


def delete_tokens(token_ids, seed, probability=0.1, keep_ids=(), pad_id=0):
    """Leaves tokens out and moves the rest together.

    A row whose tokens would all go, those in `keep_ids` aside, stays whole.

    Args:
        token_ids: Integer tensor `[length]` or `[batch, length]`.
        seed: Integer or pair of integers.
        probability: Float, of each token. Defaults to `0.1`.
        keep_ids: Integers, the ids that stay, such as `[CLS]` and `[SEP]`.
        pad_id: Integer, what fills the end. Defaults to `0`.

    Returns:
        Tensor of the shape and dtype of `token_ids`.

    Raises:
        ValueError: if `probability` is not between 0 and 1.

    Example:

    >>> ids = tf.constant([[2, 7, 8, 3, 0]])
    >>> delete_tokens(ids, 1, 0.5, keep_ids=(2, 3)).shape
    TensorShape([1, 5])

    Reference:
        Wei and Zou, 2019, https://arxiv.org/abs/1901.11196.
    """
    token_ids = tf.convert_to_tensor(token_ids)
    free = _free(token_ids, keep_ids, pad_id)
    gone = _choose(token_ids, seed, probability, keep_ids, pad_id)
    left = tf.reduce_any(free & ~gone, axis=-1, keepdims=True)
    return _squeeze_out(token_ids, gone & left, pad_id)


def sample_token_ngram(
    token_ids,
    seed,
    probability=0.25,
    min_tokens=1,
    max_tokens=5,
    keep_ids=(),
    pad_id=0,
):
    """Keeps only some tokens in a row, and those in `keep_ids`.

    Args:
        token_ids: Integer tensor `[length]` or `[batch, length]`.
        seed: Integer or pair of integers.
        probability: Float, of each row; else it stays. Defaults to `0.25`.
        min_tokens: Integer, at least 1. Defaults to `1`.
        max_tokens: Integer, at least `min_tokens`. Defaults to `5`.
        keep_ids: Integers, the ids that stay, such as `[CLS]` and `[SEP]`.
        pad_id: Integer, what fills the end. Defaults to `0`.

    Returns:
        Tensor of the shape and dtype of `token_ids`.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> ids = tf.constant([2, 7, 8, 9, 3])
    >>> sample_token_ngram(ids, 1, 1.0, 3, 3, keep_ids=(2, 3)).numpy()
    array([2, 7, 8, 9, 3], dtype=int32)

    Reference:
        Tang et al., 2019, https://arxiv.org/abs/1903.12136, section 3.3.
    """
    check_between("probability", probability, 0, 1)
    check_integer("min_tokens", min_tokens, minimum=1)
    check_integer("max_tokens", max_tokens, minimum=min_tokens)
    token_ids = tf.convert_to_tensor(token_ids)
    free = _free(token_ids, keep_ids, pad_id)
    number = tf.cumsum(tf.cast(free, "int32"), axis=-1)
    count = number[..., -1:]
    draws = [
        tf.random.stateless_uniform(tf.shape(count), one)
        for one in _seeds(seed, 3)
    ]
    size = min_tokens + _below(draws[0], max_tokens - min_tokens + 1)
    start = _below(draws[1], tf.maximum(count - size, 0) + 1)
    inside = (number > start) & (number <= start + size)
    cut = draws[2] < probability
    return _squeeze_out(token_ids, free & ~inside & cut, pad_id)


def replace_tokens(
    token_ids, seed, table, probability=0.1, keep_ids=(), pad_id=0
):
    """Replaces tokens by one of their neighbours, each on its own.

    Args:
        token_ids: Integer tensor `[length]` or `[batch, length]`.
        seed: Integer or pair of integers.
        table: Integers `[vocabulary_size, neighbours]`, the ids that may
            replace each id, from `kd.augment.neighbour_table`.
        probability: Float, of each token. Defaults to `0.1`.
        keep_ids: Integers, the ids that stay, such as `[CLS]` and `[SEP]`.
        pad_id: Integer, the id of padding, which stays. Defaults to `0`.

    Returns:
        Tensor of the shape and dtype of `token_ids`.

    Raises:
        ValueError: if `probability` is not between 0 and 1.

    Example:

    >>> table = [[0], [2], [1]]
    >>> replace_tokens(tf.constant([1, 2, 0]), 1, table, 1.0).numpy()
    array([2, 1, 0], dtype=int32)

    Reference:
        Jiao et al., 2020, https://arxiv.org/abs/1909.10351, algorithm 1.
    """
    token_ids = tf.convert_to_tensor(token_ids)
    table = tf.convert_to_tensor(table)
    where, which = _seeds(seed, 2)
    chosen = _choose(token_ids, where, probability, keep_ids, pad_id)
    draw = tf.random.stateless_uniform(tf.shape(token_ids), which)
    column = _below(draw, tf.shape(table)[1])
    rows = tf.cast(token_ids, "int32")
    others = tf.gather_nd(table, tf.stack([rows, column], axis=-1))
    return tf.where(chosen, tf.cast(others, token_ids.dtype), token_ids)


def _seeds(seed, count):
    """Splits a seed, an integer or a pair, into `count` pairs."""
    seed = tf.cast(tf.convert_to_tensor(seed), "int64")
    if seed.shape.rank == 0:
        seed = tf.stack([seed, tf.zeros_like(seed)])
    return tf.unstack(tf.random.split(seed, count), count)


def _below(draw, bound):
    """Integers from 0 to `bound - 1` from draws in `[0, 1)`."""
    bound = tf.cast(bound, "int32")
    number = tf.cast(draw * tf.cast(bound, draw.dtype), "int32")
    return tf.minimum(number, bound - 1)


def _free(token_ids, keep_ids, pad_id):
    """Which tokens may change."""
    free = token_ids != tf.cast(pad_id, token_ids.dtype)
    for keep_id in keep_ids:
        free &= token_ids != tf.cast(keep_id, token_ids.dtype)
    return free


def _choose(token_ids, seed, probability, keep_ids, pad_id):
    check_between("probability", probability, 0, 1)
    (one,) = _seeds(seed, 1)
    draw = tf.random.stateless_uniform(tf.shape(token_ids), one)
    return _free(token_ids, keep_ids, pad_id) & (draw < probability)


def _squeeze_out(token_ids, gone, pad_id):
    """Takes tokens out; padding fills the end."""
    order = tf.argsort(tf.cast(gone, "int32"), axis=-1, stable=True)
    token_ids = tf.where(gone, tf.cast(pad_id, token_ids.dtype), token_ids)
    return tf.gather(token_ids, order, axis=-1, batch_dims=order.shape.rank - 1)
