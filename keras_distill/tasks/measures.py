"""What is measured of predictions, beside the score that chooses."""

import numpy as np

from keras_distill._checks import check_integer

BINS = 15


def reliability(logits, labels, bins=BINS):
    """Confidence and accuracy by bins of confidence, and the ECE.

    The confidence of a prediction is the largest probability, `softmax` of
    the logits. Bin `m` of `M` holds confidences in `((m - 1) / M, m / M]`. The
    expected calibration error is the mean over predictions of its bin's
    `|accuracy - confidence|`: `sum_m n_m / n |accuracy_m - confidence_m|`.

    Args:
        logits: Float array `[examples, classes]`.
        labels: Integer array `[examples]`.
        bins: Integer, the number of bins of equal width.

    Returns:
        Dict: `ece`; and `count`, `confidence`, `accuracy`, lists with one
        value a bin, None where a bin is empty.

    Raises:
        ValueError: The arrays do not fit together.

    Example:

    >>> logits = np.log([[0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.9, 0.1]])
    >>> round(reliability(logits, np.array([0, 0, 0, 1]))["ece"], 3)
    0.225

    Reference:
        Guo et al., 2017, https://arxiv.org/abs/1706.04599, eq. 3.
    """
    check_integer("bins", bins, minimum=1)
    logits, labels = np.asarray(logits, "float64"), np.asarray(labels)
    if logits.ndim != 2 or labels.shape != logits.shape[:1] or not len(labels):
        raise ValueError(
            "`logits` must be of shape [examples, classes], `labels` of shape "
            "[examples], with at least one example. Received: "
            f"logits.shape={logits.shape}, labels.shape={labels.shape}"
        )
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    confidence = 1 / exponents.sum(axis=1)
    right = logits.argmax(axis=1) == labels
    at = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    count = np.bincount(at, minlength=bins)
    confidences = np.bincount(at, confidence, minlength=bins)
    rights = np.bincount(at, right, minlength=bins)
    return {
        "ece": float(np.abs(rights - confidences).sum() / len(labels)),
        "count": count.tolist(),
        "confidence": _means(confidences, count),
        "accuracy": _means(rights, count),
    }


def pooled(diagrams):
    """What `reliability` gives of the examples of several ones together.

    Args:
        diagrams: List of dicts, from `reliability` with the same bins.

    Example:

    >>> one = reliability(np.log([[0.9, 0.1]]), np.array([0]))
    >>> pooled([one, one])["ece"] == one["ece"]
    True
    """
    count = np.sum([held["count"] for held in diagrams], axis=0)
    sums = {
        name: np.sum(
            [
                np.multiply(
                    [0.0 if v is None else v for v in held[name]], held["count"]
                )
                for held in diagrams
            ],
            axis=0,
        )
        for name in ("confidence", "accuracy")
    }
    gaps = np.abs(sums["accuracy"] - sums["confidence"])
    return {
        "ece": float(gaps.sum() / count.sum()),
        "count": count.tolist(),
        **{name: _means(held, count) for name, held in sums.items()},
    }


def class_scores(logits, labels):
    """Scores that do not let a frequent class outvote the others.

    Args:
        logits: Float array `[examples, classes]`.
        labels: Integer array `[examples]`.

    Returns:
        Dict: `macro_f1`, the mean over the classes, that the labels or the
        predictions hold, of the F1 score; and `matthews`, the correlation of
        predictions and labels, 0 where either are all of one class.

    Example:

    >>> class_scores(np.eye(2)[[0, 0, 0, 1]], np.array([0, 0, 1, 1]))
    {'macro_f1': 0.7333, 'matthews': 0.5774}

    Reference:
        Gorodkin, 2004, "Comparing two K-category assignments by a K-category
        correlation coefficient".
    """
    # Not before: `--help` and tasks of one's own need no scikit-learn.
    from sklearn import metrics

    labels = np.asarray(labels)
    predicted = np.asarray(logits).argmax(axis=-1)
    one_class = len(np.union1d(labels, predicted)) == 1
    return {
        "macro_f1": float(metrics.f1_score(labels, predicted, average="macro")),
        # scikit-learn warns of a single class.
        "matthews": 0.0
        if one_class
        else float(metrics.matthews_corrcoef(labels, predicted)),
    }


def agreement(first, second):
    """The share of rows whose largest logit is the same class.

    Args:
        first: Float array `[examples, classes]`.
        second: Float array of the same shape.

    Returns:
        Float in `[0, 1]`.

    Example:

    >>> agreement(np.eye(2), np.array([[0.6, 0.4], [0.6, 0.4]]))
    0.5
    """
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.ndim != 2:
        raise ValueError(
            "`first` and `second` must be logits [examples, classes] of the "
            f"same shape. Received: {first.shape} and {second.shape}"
        )
    return float(np.mean(first.argmax(axis=1) == second.argmax(axis=1)))


def _means(sums, counts):
    return [float(s / n) if n else None for s, n in zip(sums, counts)]


def moments(predicted, labels):
    """What the means of are enough for Pearson's correlation.

    Args:
        predicted: Float array `[examples]`.
        labels: Float array `[examples]`.

    Returns:
        Float64 array `[examples, 5]`: x, y, x^2, y^2, x y.
    """
    x, y = (np.asarray(each, "float64") for each in (predicted, labels))
    return np.stack([x, y, x * x, y * y, x * y], axis=-1)


def pearson(means):
    """Pearson's correlation of the means of `moments`.

    Args:
        means: Array `[..., 5]`.

    Returns:
        Array `[...]`; 0 where one of both does not vary.

    Example:

    >>> float(pearson(moments([1.0, 2.0, 4.0], [3.0, 5.0, 9.0]).mean(axis=0)))
    1.0
    """
    x, y, xx, yy, xy = np.moveaxis(np.asarray(means), -1, 0)
    product = (xx - x * x) * (yy - y * y)
    # What rounding leaves of the variance of equal numbers is no variance.
    varies = (xx - x * x > 1e-12 * xx) & (yy - y * y > 1e-12 * yy)
    root = np.sqrt(np.where(varies, product, 1.0))
    return np.where(varies, np.clip((xy - x * y) / root, -1, 1), 0.0)


def score_errors(predicted, labels):
    """Spearman's correlation, 0 where one does not vary, and the RMSE.

    Args:
        predicted: Float array `[examples]`.
        labels: Float array `[examples]`.

    Example:

    >>> score_errors(np.array([1.0, 2.0, 9.0]), np.array([1.0, 2.0, 3.0]))
    {'spearman': 1.0, 'rmse': 3.4641}
    """
    from scipy import stats

    ranks = (stats.rankdata(each) for each in (predicted, labels))
    error = np.asarray(predicted, "float64") - labels
    return {
        "spearman": float(pearson(moments(*ranks).mean(axis=0))),
        "rmse": float(np.sqrt(np.mean(error**2))),
    }


def two_classes(logits):
    """Logits of no and yes, `[examples, 2]`, of those of one label."""
    return np.stack([np.zeros_like(logits), logits], axis=-1)
