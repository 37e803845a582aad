"""What two models' predictions on the same texts say, in float64."""

import dataclasses
import math

import numpy as np
from sklearn import metrics

from keras_distill._checks import check_between
from keras_distill._checks import check_integer

EXACT_BELOW = 25
BINS = 15


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference in accuracy with its interval, all shares of 1.

    Args:
        value: Float, the second model's accuracy minus the first one's.
        low: Float, the lower end of the interval.
        high: Float, its upper end.
        confidence: Float, such as `0.95`.
    """

    value: float
    low: float
    high: float
    confidence: float

    @property
    def is_shown(self):
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


def paired_bootstrap(first, second, confidence=0.95, samples=10_000, seed=0):
    """The difference of two accuracies, with a bootstrap interval.

    A replicate draws seeds and examples, both with replacement and
    independently of each other, and takes the mean of `second - first` over
    them: predictions stay paired by seed and by example. The interval lies
    between the percentiles of the replicates. With one seed it holds the
    chance of the examples alone; with few, it understates the chance of the
    training, whose variance comes out smaller by `(seeds - 1) / seeds`.

    Args:
        first: Array `[seeds, examples]` or `[examples]`, true where the first
            model is right.
        second: Likewise for the second model, in the same order.
        confidence: Float in `(0, 1)`.
        samples: Integer, the number of replicates.
        seed: Integer. The same replicates for the same seed.

    Returns:
        `Difference`.

    Raises:
        ValueError: The arrays do not fit together, or a number is out of its
            range.

    Example:

    >>> first = np.array([[1, 1, 0, 0] * 25])
    >>> second = np.array([[1, 1, 1, 0] * 25])
    >>> found = paired_bootstrap(first, second)
    >>> found.value, found.is_shown
    (0.25, True)

    Reference:
        Owen, 2007, https://arxiv.org/abs/0712.1111 (two factors); Efron and
        Tibshirani, 1993, section 13.3 (percentiles).
    """
    first, second = _checked_pair(first, second)
    check_between("confidence", confidence, 0, 1)
    check_integer("samples", samples, minimum=1)
    rng = np.random.default_rng(seed)
    differences = second.astype("float64") - first
    # Examples with equal differences in every seed are drawn together: a
    # multinomial over the few distinct columns is the same distribution.
    columns, counts = np.unique(differences, axis=1, return_counts=True)
    seeds, examples = differences.shape
    drawn_examples = rng.multinomial(examples, counts / examples, size=samples)
    drawn_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), samples)
    by_seed = drawn_examples @ columns.T / examples
    replicates = (by_seed * drawn_seeds).sum(axis=1) / seeds
    tail = (1 - confidence) / 2
    low, high = np.quantile(replicates, [tail, 1 - tail])
    return Difference(
        float(differences.mean()), float(low), float(high), confidence
    )


def mcnemar(first, second):
    """McNemar's test on pooled predictions: is one model right more often?

    Of the predictions where exactly one model is right, `b` are the first
    one's and `c` the second one's. Below 25 of them the p-value is that of
    the exact binomial test; otherwise that of `(|b - c| - 1)^2 / (b + c)`
    under chi-squared with one degree of freedom. Predictions of several seeds
    on one example are not independent, so that the pooled p-value of several
    seeds is too small; the interval of `paired_bootstrap` is not.

    Args:
        first: As in `paired_bootstrap`.
        second: As in `paired_bootstrap`.

    Returns:
        Dict: `only_first` and `only_second`, the two counts; `p_value`,
        two-sided; `exact`, boolean.

    Raises:
        ValueError: The arrays do not fit together.

    Example:

    >>> mcnemar(np.zeros(6), np.ones(6))["p_value"]
    0.03125

    Reference:
        McNemar, 1947; Edwards, 1948 (continuity).
    """
    first, second = _checked_pair(first, second)
    only_first = int(np.sum(first & ~second))
    only_second = int(np.sum(second & ~first))
    total = only_first + only_second
    exact = total < EXACT_BELOW
    if exact:
        fewer = min(only_first, only_second)
        ways = sum(math.comb(total, k) for k in range(fewer + 1))
        p_value = min(1.0, 2 * ways / 2**total)
    else:
        gap = max(abs(only_first - only_second) - 1, 0)
        p_value = math.erfc(math.sqrt(gap**2 / total / 2))
    return {
        "only_first": only_first,
        "only_second": only_second,
        "p_value": p_value,
        "exact": exact,
    }


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


def mean_and_sd(values):
    """The mean, and the sample standard deviation (divisor `n - 1`).

    Args:
        values: Floats, at least one.

    Returns:
        Pair of floats; the second is None for one value.

    Example:

    >>> mean_and_sd([1.0, 3.0])
    (2.0, 1.4142135623730951)
    """
    values = np.asarray(values, "float64")
    sd = float(values.std(ddof=1)) if len(values) > 1 else None
    return float(values.mean()), sd


def _checked_pair(first, second):
    """Both as boolean arrays `[seeds, examples]`."""
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or first.ndim not in (1, 2):
        raise ValueError(
            "`first` and `second` must be of the same shape, [examples] or "
            "[seeds, examples]: they are paired. Received: "
            f"first.shape={first.shape}, second.shape={second.shape}"
        )
    if not first.size:
        raise ValueError(
            "`first` and `second` must hold at least one prediction. "
            f"Received: first.shape={first.shape}"
        )
    for name, values in (("first", first), ("second", second)):
        if not np.isin(values, (0, 1)).all():
            raise ValueError(
                f"`{name}` must hold 1 where a prediction is right and 0 where "
                f"it is wrong. Received: {name} with other values"
            )
    return tuple(np.atleast_2d(a).astype(bool) for a in (first, second))


def _means(sums, counts):
    return [float(s / n) if n else None for s, n in zip(sums, counts)]
