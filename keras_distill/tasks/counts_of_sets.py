"""What is measured of sets of labels, and of sets of entities."""

import numpy as np


def label_counts(predicted, labels):
    """Labels of each row that are rightly predicted, wrongly, and missed.

    Args:
        predicted: Boolean array `[examples, labels]`.
        labels: Integer array of the same shape, of 1 and 0.

    Returns:
        Float64 array `[examples, 3]`.
    """
    is_there = labels == 1
    each = (predicted & is_there, predicted & ~is_there, ~predicted & is_there)
    return np.stack([kind.sum(axis=1) for kind in each], -1).astype("float64")


def f1_of_counts(means):
    """F1 of the means, or sums, of `label_counts`: `2 TP / (2 TP + FP + FN)`.

    Args:
        means: Array `[..., 3]`.

    Returns:
        Array `[...]`; 0 where no label is there, nor predicted.

    Example:

    >>> float(f1_of_counts([3, 1, 1]))
    0.75
    """
    right, wrong, missed = np.moveaxis(np.asarray(means, "float64"), -1, 0)
    total = 2 * right + wrong + missed
    return 2 * right / np.where(total > 0, total, 1.0)


def macro_f1(predicted, labels):
    """The mean over the labels that occur, or are predicted, of their F1.

    Args:
        predicted: As in `label_counts`.
        labels: As there.
    """
    scores = [
        float(f1_of_counts(label_counts(p[:, None], y[:, None]).sum(axis=0)))
        for p, y in zip(predicted.T, labels.T)
        if p.any() or y.any()
    ]
    return float(np.mean(scores)) if scores else 0.0


def best_thresholds(logits, labels):
    """Of each label the threshold with the highest F1; of equals the lowest.

    Halfway between two neighbouring logits; 0, a probability of one half, for
    a label that no row has.

    Args:
        logits: Float array `[examples, labels]`.
        labels: Integer array of the same shape, of 1 and 0.

    Returns:
        Float array `[labels]`.

    Example:

    >>> logits = np.array([[-1.0], [-3.0], [-2.0]])
    >>> best_thresholds(logits, np.array([[1], [0], [0]])).tolist()
    [-1.5]

    Reference:
        Lipton et al., 2014, https://arxiv.org/abs/1402.1892.
    """
    found = np.zeros(logits.shape[1])
    for i, (scores, held) in enumerate(zip(logits.T, labels.T)):
        if not held.any():
            continue
        order = np.argsort(-scores, kind="stable")
        scores, held = np.append(scores[order], -np.inf), held[order]
        # Predicted are the first k, for k from 1 on, where the next is lower.
        right = np.cumsum(held)
        f1 = 2 * right / (np.arange(1, len(held) + 1) + held.sum())
        f1[scores[:-1] == scores[1:]] = -1.0
        last = len(f1) - 1 - int(np.argmax(f1[::-1]))
        below = scores[last + 1] if last + 1 < len(held) else scores[last] - 2.0
        found[i] = (scores[last] + below) / 2
    return found


def entities(tags):
    """The entities among tags, by seqeval's definition.

    Args:
        tags: List of strings, such as `["B-place", "I-place", "O"]`.

    Returns:
        Set of triples: type, first word, last word.

    Example:

    >>> sorted(entities(["O", "B-place", "I-place"]))
    [('place', 1, 2)]
    """
    # Not before: tasks of other kinds need no seqeval.
    from seqeval.metrics.sequence_labeling import get_entities

    return set(get_entities(list(tags)))


def set_counts(predicted, labels):
    """Members of each set that are rightly there, wrongly, and missed.

    Args:
        predicted: List of sets.
        labels: List of sets.

    Returns:
        Float64 array `[rows, 3]`.

    Example:

    >>> set_counts([{1, 2}], [{2, 3}]).tolist()
    [[1.0, 1.0, 1.0]]
    """
    return np.array(
        [
            [len(p & y), len(p - y), len(y - p)]
            for p, y in zip(predicted, labels)
        ],
        "float64",
    )
