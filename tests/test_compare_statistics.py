"""Statistics of paired predictions, against references and known values."""

import math

import numpy as np
import pytest

from keras_distill.experiments import significance as statistics
from keras_distill.tasks import measures


def draws(seeds=3, examples=200, rates=(0.8, 0.85), seed=0):
    """Two arrays of right and wrong predictions that share their examples."""
    rng = np.random.default_rng(seed)
    hard = rng.random((1, examples))
    noise = 0.3 * rng.random((2, seeds, examples))
    first, second = (0.7 * hard + noise) < np.reshape(rates, (2, 1, 1)) - 0.1
    return first, second


def by_drawing(first, second, samples=4000, seed=5):
    """The definition: draws seeds and examples, takes the mean."""
    rng = np.random.default_rng(seed)
    seeds, examples = first.shape
    difference = second.astype("float64") - first
    values = []
    for _ in range(samples):
        rows = rng.integers(0, seeds, seeds)
        columns = rng.integers(0, examples, examples)
        values.append(difference[np.ix_(rows, columns)].mean())
    return np.quantile(values, [0.025, 0.975])


@pytest.mark.parametrize("seeds", [1, 2, 5])
def test_interval_against_the_definition(seeds):
    first, second = draws(seeds)
    found = statistics.paired_bootstrap(first, second)
    low, high = by_drawing(first, second)
    assert found.value == pytest.approx(second.mean() - first.mean())
    assert found.low == pytest.approx(low, abs=0.006)
    assert found.high == pytest.approx(high, abs=0.006)
    assert found.low < found.value < found.high


def test_interval_of_one_seed_against_scipy():
    scipy_stats = pytest.importorskip("scipy.stats")
    first, second = draws(1)
    expected = scipy_stats.bootstrap(
        (first[0].astype(float), second[0].astype(float)),
        lambda a, b, axis: np.mean(b - a, axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    found = statistics.paired_bootstrap(first[0], second[0])
    assert found.low == pytest.approx(expected.low, abs=0.006)
    assert found.high == pytest.approx(expected.high, abs=0.006)


def test_interval_holds_the_chance_of_the_seeds():
    """Two seeds that contradict each other on every example."""
    first = np.array([[0] * 100, [1] * 100])
    found = statistics.paired_bootstrap(first, 1 - first)
    assert (found.value, found.low, found.high) == (0, -1, 1)
    assert not found.is_shown


def test_interval_narrows_with_confidence_and_examples():
    wide = statistics.paired_bootstrap(*draws(1, 2000))
    narrow = statistics.paired_bootstrap(*draws(1, 2000), confidence=0.5)
    many = statistics.paired_bootstrap(*draws(1, 200_000))
    width = [d.high - d.low for d in (wide, narrow, many)]
    assert width[1] == pytest.approx(width[0] * 0.674 / 1.96, rel=0.1)
    assert width[2] == pytest.approx(width[0] / 10, rel=0.25)


def test_interval_is_that_of_its_seed():
    pair = draws()
    first, second, other = (
        statistics.paired_bootstrap(*pair, samples=500, seed=seed)
        for seed in (0, 0, 1)
    )
    assert first == second
    assert first != other


def test_pairing_matters():
    """The same accuracies: paired, the difference is certain."""
    first = np.array([1] * 50 + [0] * 50)
    second = np.array([1] * 60 + [0] * 40)
    shifted = np.roll(second, 45)
    paired = statistics.paired_bootstrap(first, second)
    unpaired = statistics.paired_bootstrap(first, shifted)
    assert paired.value == unpaired.value == pytest.approx(0.1)
    assert paired.is_shown
    assert not unpaired.is_shown


@pytest.mark.parametrize(
    ("low", "high", "shown"),
    [(0.1, 0.2, True), (-0.2, -0.1, True), (-0.1, 0.1, False), (0, 1, False)],
)
def test_a_difference_is_shown_if_zero_is_outside(low, high, shown):
    assert statistics.Difference(0.1, low, high, 0.95).is_shown is shown


def discordant(b, c, both=7, neither=4):
    first = np.array([1] * (b + both) + [0] * (c + neither))
    second = np.array([0] * b + [1] * (both + c) + [0] * neither)
    return first, second


@pytest.mark.parametrize(
    ("b", "c"), [(0, 0), (1, 0), (5, 5), (3, 9), (2, 22), (12, 12)]
)
def test_few_discordant_pairs_are_exact(b, c):
    scipy_stats = pytest.importorskip("scipy.stats")
    found = statistics.mcnemar(*discordant(b, c))
    assert found["exact"]
    assert (found["only_first"], found["only_second"]) == (b, c)
    expected = scipy_stats.binomtest(b, b + c).pvalue if b + c else 1.0
    assert found["p_value"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("b", "c"), [(25, 0), (13, 12), (40, 60), (60, 40), (30, 30), (5, 95)]
)
def test_many_discordant_pairs_follow_chi_squared(b, c):
    scipy_stats = pytest.importorskip("scipy.stats")
    found = statistics.mcnemar(*discordant(b, c))
    assert not found["exact"]
    statistic = max(abs(b - c) - 1, 0) ** 2 / (b + c)
    expected = scipy_stats.chi2.sf(statistic, 1)
    assert found["p_value"] == pytest.approx(expected)


def test_known_p_values():
    """Agresti, Categorical Data Analysis: 150 against 86."""
    assert statistics.mcnemar(*discordant(150, 86))["p_value"] == pytest.approx(
        4.115e-5, rel=1e-3
    )
    assert statistics.mcnemar(*discordant(1, 5))["p_value"] == 14 / 64


def test_predictions_of_all_seeds_are_pooled():
    first, second = discordant(3, 9)
    pooled = statistics.mcnemar(np.stack([first] * 3), np.stack([second] * 3))
    assert (pooled["only_first"], pooled["only_second"]) == (9, 27)


def ece_by_loops(logits, labels, bins):
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    total = 0.0
    for m in range(bins):
        rows = [
            i
            for i, p in enumerate(probabilities)
            if m / bins < p.max() <= (m + 1) / bins
        ]
        if rows:
            right = np.mean(
                [probabilities[i].argmax() == labels[i] for i in rows]
            )
            sure = np.mean([probabilities[i].max() for i in rows])
            total += len(rows) / len(labels) * abs(right - sure)
    return total


@pytest.mark.parametrize("bins", [1, 4, 15])
def test_calibration_error_against_loops(bins):
    rng = np.random.default_rng(1)
    logits, labels = rng.normal(size=(300, 3)) * 2, rng.integers(0, 3, 300)
    found = measures.reliability(logits, labels, bins)
    assert found["ece"] == pytest.approx(ece_by_loops(logits, labels, bins))
    assert sum(found["count"]) == 300


def test_edges_of_the_bins_belong_to_the_lower_one():
    logits = np.log([[0.5, 0.5], [0.75, 0.25], [1.0, 1e-300]])
    found = measures.reliability(logits, np.array([0, 0, 0]), bins=4)
    assert found["count"] == [0, 1, 1, 1]
    assert found["accuracy"][0] is None
    assert found["confidence"][1:] == pytest.approx([0.5, 0.75, 1.0])


def test_large_logits_do_not_overflow():
    logits = np.array([[1e4, 0.0], [0.0, 1e4]], "float32")
    found = measures.reliability(logits, np.array([0, 0]))
    assert found["ece"] == 0.5


def test_scores_of_classes_against_their_definitions():
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(0, 4, (2, 60))
    counts = np.zeros((4, 4))
    np.add.at(counts, (labels, predicted), 1)
    right, true, shown = counts.diagonal(), counts.sum(1), counts.sum(0)
    covariance = right.sum() * 60 - true @ shown
    scale = (60**2 - true @ true) * (60**2 - shown @ shown)
    found = measures.class_scores(np.eye(4)[predicted], labels)
    assert found["macro_f1"] == pytest.approx(
        np.mean(2 * right / (true + shown))
    )
    assert found["matthews"] == pytest.approx(covariance / math.sqrt(scale))


def test_scores_of_a_single_class():
    zeros = np.zeros(3, int)
    assert measures.class_scores(np.eye(2)[zeros], zeros) == {
        "macro_f1": 1.0,
        "matthews": 0.0,
    }
    wrong = measures.class_scores(np.eye(2)[zeros], zeros + 1)
    assert wrong == {"macro_f1": 0.0, "matthews": 0.0}


def test_agreement_and_deviation():
    a = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    assert measures.agreement(a, -a) == 0
    assert measures.agreement(a, a * [[2], [2], [-1]]) == 2 / 3
    mean, sd = statistics.mean_and_sd([0.8, 0.9, 0.7])
    assert (mean, sd) == (pytest.approx(0.8), pytest.approx(0.1))
    assert statistics.mean_and_sd([0.5]) == (0.5, None)
    assert math.isclose(statistics.mean_and_sd([1, 2])[1], math.sqrt(0.5))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.paired_bootstrap([1, 0], [1]), "paired"),
        (lambda s: s.paired_bootstrap([], []), "at least one"),
        (lambda s: s.mcnemar([0.5], [1]), "1 where"),
        (lambda s: s.paired_bootstrap([1], [1], confidence=2), "confidence=2"),
        (lambda s: s.paired_bootstrap([1], [1], samples=0), "samples=0"),
        (lambda s: s.mcnemar(np.ones((1, 1, 1)), np.ones((1, 1, 1))), "shape"),
        (lambda _: measures.reliability(np.ones((2, 2)), [0]), "labels.shape"),
        (
            lambda _: measures.reliability(np.ones((2, 2)), [0, 1], bins=0),
            "bins=0",
        ),
        (
            lambda _: measures.agreement(np.ones((2, 2)), np.ones((2, 3))),
            "same shape",
        ),
    ],
)
def test_wrong_arguments(call, message):
    with pytest.raises(ValueError, match=message):
        call(statistics)
