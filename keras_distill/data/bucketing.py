"""Lengths to cut batches to: few, so that few shapes are compiled."""

import numpy as np

from keras_distill._checks import check_integer


def bucket_lengths(lengths, width, count=6, multiple=8):
    """The lengths, at most `count`, that together waste the least padding.

    Args:
        lengths: Integers, the tokens of each row.
        width: Integer, the tokens of a row with its padding; no length is
            larger.
        count: Integer, at least 1. Each length is one more shape to trace or
            compile. Defaults to `6`.
        multiple: Integer, at least 1, of which all lengths but `width` are
            multiples, as tensor cores like them. Defaults to `8`.

    Returns:
        List of increasing integers. The last one holds the longest row.

    Raises:
        ValueError: if there are no rows, or a row is longer than `width`.

    Example:

    >>> bucket_lengths([3, 4, 5, 6, 30, 31], width=64, count=2)
    [8, 32]
    """
    lengths = np.asarray(lengths)
    check_integer("width", width, minimum=1)
    check_integer("count", count, minimum=1)
    check_integer("multiple", multiple, minimum=1)
    if not lengths.size or lengths.max() > width:
        raise ValueError(
            "`lengths` must hold one integer or more, none above `width`. "
            f"Received: {lengths.size} lengths"
            + (f" up to {lengths.max()}" if lengths.size else "")
            + f", width={width}"
        )
    multiples = -(-np.maximum(lengths, 1) // multiple) * multiple
    sizes, rows = np.unique(np.minimum(multiples, width), return_counts=True)
    sizes = sizes.tolist()
    before = np.concatenate([[0], np.cumsum(rows)]).tolist()
    # From how many sizes are covered to the tokens so far, and the choice.
    best = {0: (0, [])}
    for used in range(1, min(count, len(sizes)) + 1):
        best = {
            end: min(
                (
                    tokens + sizes[end - 1] * (before[end] - before[start]),
                    [*chosen, sizes[end - 1]],
                )
                for start, (tokens, chosen) in best.items()
                if start < end
            )
            for end in range(used, len(sizes) + 1)
        }
    return best[len(sizes)][1]
