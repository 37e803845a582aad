"""Attention over caches of shape `[rows, heads, length, head_dim]`."""

from keras import ops


def heads_first(x):
    """`[rows, length, heads, dim]` to `[rows, heads, length, dim]`."""
    return ops.transpose(x, (0, 2, 1, 3))


def attend(query, keys, values, mask, scale, soft_cap=None):
    """Softmax attention; several query heads may share a key head.

    Args:
        query: Tensor of shape `[rows, new, heads, dim]`.
        keys: Tensor of shape `[rows, key_heads, length, dim]`.
        values: Tensor of the same shape as `keys`.
        mask: Boolean tensor that broadcasts to `[rows, new, length]`.
        scale: Number the scores are multiplied with.
        soft_cap: Number `c` of `c tanh(scores / c)`, or None.

    Returns:
        Tensor of shape `[rows, new, heads, dim]`.
    """
    rows, new, heads, dim = query.shape
    shared, length = keys.shape[1], keys.shape[2]
    groups = heads // shared
    query = query * ops.cast(scale, query.dtype)
    query = ops.reshape(query, (rows, new, shared, groups, dim))
    query = ops.transpose(query, (0, 2, 3, 1, 4))
    query = ops.reshape(query, (rows, shared, groups * new, dim))
    scores = ops.matmul(query, ops.transpose(keys, (0, 1, 3, 2)))
    if soft_cap is not None:
        scores = soft_cap * ops.tanh(scores / soft_cap)
    scores = ops.reshape(scores, (rows, shared, groups, new, length))
    scores = ops.cast(scores, "float32")
    scores = ops.where(mask[:, None, None], scores, float("-inf"))
    weights = ops.cast(ops.softmax(scores, axis=-1), values.dtype)
    weights = ops.reshape(weights, (rows, shared, groups * new, length))
    context = ops.matmul(weights, values)
    context = ops.reshape(context, (rows, shared, groups, new, dim))
    context = ops.transpose(context, (0, 3, 1, 2, 4))
    return ops.reshape(context, (rows, new, heads, dim))
