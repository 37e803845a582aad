"""One token from a distribution and one uniform random number."""

from keras import ops

BLOCK = 128


def sample_tokens(logits, uniforms, temperature):
    """Samples one token a row; `temperature` 0 takes the likeliest.

    The cumulative distribution is inverted in two steps, over blocks of the
    vocabulary and within one block: a single pass over the logits. A token
    of probability 0 is never sampled.

    Args:
        logits: Tensor of shape `[rows, vocabulary]`.
        uniforms: float32 tensor of shape `[rows]`, in `[0, 1)`.
        temperature: Number of at least 0.

    Returns:
        int32 tensor of shape `[rows]`.
    """
    if temperature == 0:
        return ops.cast(ops.argmax(logits, axis=-1), "int32")
    rows, vocabulary = logits.shape
    blocks = -(-vocabulary // BLOCK)
    logits = ops.cast(logits, "float32") / temperature
    masses = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True))
    masses = ops.pad(masses, ((0, 0), (0, blocks * BLOCK - vocabulary)))
    masses = ops.reshape(masses, (rows, blocks, BLOCK))
    sums = ops.sum(masses, axis=-1)
    ends = ops.cumsum(sums, axis=-1)
    target = uniforms[:, None] * ends[:, -1:]
    block = _first(ends > target, sums > 0)
    within = ops.take_along_axis(masses, block[:, :, None], axis=1)[:, 0]
    end, mass = (ops.take_along_axis(a, block, axis=1) for a in (ends, sums))
    inner = ops.cumsum(within, axis=-1) + (end - mass)
    return (block * BLOCK + _first(inner > target, within > 0))[:, 0]


def _first(is_reached, has_mass):
    """Index of the first that has mass and is reached, else of the last.

    Sums of different order round differently, so that nothing may be
    reached, or first something without mass.
    """
    size = has_mass.shape[-1]
    indices = ops.arange(size, dtype="int32")
    reached = ops.where(ops.logical_and(is_reached, has_mass), indices, size)
    last = ops.max(ops.where(has_mass, indices, 0), axis=-1, keepdims=True)
    return ops.minimum(ops.min(reached, axis=-1, keepdims=True), last)
