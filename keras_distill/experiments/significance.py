"""What two models' predictions on the same rows say, in float64."""

import dataclasses
import math

import numpy as np

from keras_distill._checks import check_between
from keras_distill._checks import check_integer

EXACT_BELOW = 25
# Replicates at a time: with statistics that are all different, each of them
# draws as many numbers as there are examples.
CHUNK = 500


@dataclasses.dataclass(frozen=True)
class Difference:
    """A difference of scores with its interval, all shares of 1.

    Args:
        value: Float, the second model's score minus the first one's.
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


def paired_bootstrap(
    first, second, of_means=None, confidence=0.95, samples=10_000, seed=0
):
    """The difference of two scores, with a bootstrap interval.

    A replicate draws seeds and examples, both with replacement and
    independently of each other, and takes the mean over the seeds of the
    differences between both scores: predictions stay paired by seed and by
    example. The interval lies between the percentiles of the replicates. With
    one seed it holds the chance of the examples alone; with few, it
    understates the chance of the training, whose variance comes out smaller by
    `(seeds - 1) / seeds`.

    Args:
        first: Array `[seeds, examples]` or `[examples]`, of which the mean over
            the examples is the first model's score: 1 where it is right. Or,
            with `of_means`, `[seeds, examples, statistics]`.
        second: Likewise for the second model, in the same order.
        of_means: Callable from the means over the examples, an array
            `[..., statistics]`, to scores `[...]`: what F1 or a correlation
            makes of its counts or moments. None: the mean is the score.
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
    first, second = _checked_pair(first, second, of_means)
    check_between("confidence", confidence, 0, 1)
    check_integer("samples", samples, minimum=1)
    rng = np.random.default_rng(seed)
    rows, difference_of = _paired(first, second, of_means)
    seeds, examples, statistics = rows.shape
    # Examples with equal statistics in every seed are drawn together: a
    # multinomial over the few distinct columns is the same distribution.
    columns, counts = np.unique(
        rows.transpose(0, 2, 1).reshape(-1, examples),
        axis=1,
        return_counts=True,
    )
    by_seed = []
    for start in range(0, samples, CHUNK):
        size = min(CHUNK, samples - start)
        drawn = rng.multinomial(examples, counts / examples, size=size)
        means = (drawn @ columns.T / examples).reshape(-1, seeds, statistics)
        by_seed.append(difference_of(means))
    drawn_seeds = rng.multinomial(seeds, np.full(seeds, 1 / seeds), samples)
    replicates = (np.concatenate(by_seed) * drawn_seeds).sum(axis=1) / seeds
    tail = (1 - confidence) / 2
    # A replicate of one example many times over may have no correlation.
    low, high = np.nanquantile(replicates, [tail, 1 - tail])
    value = difference_of(rows.mean(axis=1)).mean()
    return Difference(float(value), float(low), float(high), confidence)


def _paired(first, second, of_means):
    """Statistics `[seeds, examples, k]` of a pair, and what they are worth."""
    if of_means is None:
        rows = second.astype("float64") - first
        return rows[..., None], lambda means: means[..., 0]
    count = first.shape[-1]

    def difference_of(means):
        return of_means(means[..., count:]) - of_means(means[..., :count])

    return np.concatenate([first, second], axis=-1), difference_of


def standard_error(rows, of_means=None):
    """The standard error of a score on so many examples, by the jackknife.

    With the divisor `n`: of a share `p` it is `sqrt(p (1 - p) / n)`.

    Args:
        rows: Array `[examples]`, or `[examples, statistics]` with `of_means`.
        of_means: As in `paired_bootstrap`.

    Returns:
        Float.

    Example:

    >>> round(standard_error([1, 1, 1, 0] * 25), 4)
    0.0433

    Reference:
        Efron and Tibshirani, 1993, section 11.2.
    """
    rows = np.asarray(rows, "float64")
    count = len(rows)
    if count < 2:
        return math.inf
    without = (rows.sum(axis=0) - rows) / (count - 1)
    values = without if of_means is None else of_means(without)
    influence = (count - 1) * (values - values.mean())
    return float(math.sqrt((influence**2).sum()) / count)


def chance(task, logits):
    """The standard error of a task's score on dev: what may be chance.

    Args:
        task: `Task`.
        logits: Dict with an array for `dev`.

    Returns:
        Float.
    """
    return standard_error(task.statistics(logits, "dev"), task.of_means)


def mcnemar(first, second):
    """McNemar's test on pooled predictions: is one model right more often?

    Of the predictions where exactly one model is right, `b` are the first
    one's and `c` the second one's. Below 25 of them the p-value is that of
    the exact binomial test; otherwise that of `(|b - c| - 1)^2 / (b + c)`
    under chi-squared with one degree of freedom. Predictions of several seeds
    on one example are not independent, so that the pooled p-value of several
    seeds is too small; the interval of `paired_bootstrap` is not.

    Args:
        first: Array `[seeds, examples]` or `[examples]`, 1 where the first
            model is right, else 0.
        second: Likewise for the second model, in the same order.

    Returns:
        Dict: `only_first` and `only_second`, the two counts; `p_value`,
        two-sided; `exact`, boolean.

    Raises:
        ValueError: The arrays do not fit together, or hold other values.

    Example:

    >>> mcnemar(np.zeros(6), np.ones(6))["p_value"]
    0.03125

    Reference:
        McNemar, 1947; Edwards, 1948 (continuity).
    """
    first, second = _checked_pair(first, second)
    for name, values in (("first", first), ("second", second)):
        if not is_right_or_wrong(values):
            raise ValueError(
                f"`{name}` must hold 1 where a prediction is right and 0 where "
                f"it is wrong. Received: {name} with other values"
            )
    first, second = first.astype(bool), second.astype(bool)
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


def is_right_or_wrong(rows):
    """Whether an array holds nothing but 1 and 0."""
    return bool(np.isin(rows, (0, 1)).all())


def _checked_pair(first, second, of_means=None):
    """Both as arrays `[seeds, examples]`, or with statistics behind."""
    axes = 2 if of_means is None else 3
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape or axes - first.ndim not in (0, 1):
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
    return tuple(a.reshape(-1, *a.shape[-axes + 1 :]) for a in (first, second))
