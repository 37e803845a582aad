"""Which tokens are whose in a row of two texts, and how alike they are."""

from keras import ops


def word_masks(token_ids, padding_mask, separators):
    """Which tokens are those of the first text, and which of the second.

    Returns:
        Two Keras tensors of shape `[batch, length]`, int32.
    """
    said = padding_mask
    for separator in separators:
        said = said * ops.cast(ops.not_equal(token_ids, separator), "int32")
    # A text begins at a token that follows none: families part the two by one
    # separator or by two.
    before = ops.pad(said[:, :-1], ((0, 0), (1, 0)))
    begins = said * ops.subtract(1, before)
    begun = ops.cumsum(begins, axis=1)
    first = said * ops.cast(ops.equal(begun, 1), "int32")
    return first, ops.subtract(said, first)


def best_cosines(units, masks):
    """How near each token's nearest of the other text is, for both texts.

    Args:
        units: Keras tensor `[batch, length, dim]`, of length 1.
        masks: Two Keras tensors `[batch, length]`, floats.

    Returns:
        Two Keras tensors `[batch, length, 1]`: of tokens of the first text
        those to the second, and the other way round.
    """
    cosines = ops.matmul(units, ops.transpose(units, (0, 2, 1)))
    best = []
    for other in masks[::-1]:
        # A cosine is at least -1: no token elsewhere is nearer.
        elsewhere = 2.0 * (1.0 - ops.expand_dims(other, axis=1))
        best.append(ops.max(cosines - elsewhere, axis=-1, keepdims=True))
    return best
