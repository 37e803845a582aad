"""What tasks measure, against scikit-learn, NumPy and definitions."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from keras_distill.experiments import significance
from keras_distill.tasks import counts_of_sets
from keras_distill.tasks import measures


def scores(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.normal(size=rows)
    return labels + rng.normal(size=rows), labels


def sets(rows=80, names=4, seed=0):
    """Logits that know something of labels, of which the last is rare."""
    rng = np.random.default_rng(seed)
    shares = np.linspace(0.6, 0.1, names)
    labels = (rng.random((rows, names)) < shares).astype("int32")
    return 2.0 * labels - 2 + rng.normal(size=(rows, names)), labels


def test_pearson_is_that_of_numpy():
    predicted, labels = scores()
    found = measures.pearson(measures.moments(predicted, labels).mean(axis=0))
    assert found == pytest.approx(np.corrcoef(predicted, labels)[0, 1])


@pytest.mark.parametrize("constant", [0.0, 0.3, 1e6])
def test_what_does_not_vary_has_no_correlation(constant):
    _, labels = scores()
    same = np.full(len(labels), constant)
    for pair in ((same, labels), (labels, same), (same, same)):
        assert measures.pearson(measures.moments(*pair).mean(axis=0)) == 0


def test_score_errors_with_ties():
    predicted, labels = scores()
    labels = labels.round()
    found = measures.score_errors(predicted, labels)
    expected = stats.spearmanr(predicted, labels).statistic
    assert found["spearman"] == pytest.approx(expected)
    error = metrics.root_mean_squared_error(labels, predicted)
    assert found["rmse"] == pytest.approx(error)


def test_f1_of_counts_is_that_of_scikit_learn():
    logits, labels = sets()
    predicted = logits > 0
    counts = counts_of_sets.label_counts(predicted, labels)
    for average, found in (
        ("micro", counts_of_sets.f1_of_counts(counts.mean(axis=0))),
        ("macro", counts_of_sets.macro_f1(predicted, labels)),
    ):
        expected = metrics.f1_score(labels, predicted, average=average)
        assert found == pytest.approx(expected)
    assert counts_of_sets.f1_of_counts(np.zeros(3)) == 0
    nothing = np.zeros((3, 2))
    assert counts_of_sets.macro_f1(nothing > 0, nothing) == 0


def test_macro_f1_is_of_labels_that_occur():
    """Of the second label nothing is said; the third is said wrongly."""
    labels = np.array([[1, 0, 0], [1, 0, 0]])
    predicted = np.array([[1, 0, 1], [1, 0, 0]], bool)
    assert counts_of_sets.macro_f1(predicted, labels) == pytest.approx(0.5)


@pytest.mark.parametrize("digits", [6, 0])
def test_thresholds_are_the_best_of_all(digits):
    """Rounded logits are ties, between which no threshold lies."""
    logits, labels = sets()
    logits = logits.round(digits)
    found = counts_of_sets.best_thresholds(logits, labels)
    for i, threshold in enumerate(found):
        tried = [
            metrics.f1_score(labels[:, i], logits[:, i] >= value)
            for value in logits[:, i]
        ]
        ours = metrics.f1_score(labels[:, i], logits[:, i] > threshold)
        assert ours == pytest.approx(max(tried))
        assert threshold not in logits[:, i]


def test_a_label_that_no_row_has_keeps_one_half():
    logits = np.array([[1.0], [2.0]])
    assert counts_of_sets.best_thresholds(logits, np.array([[0], [0]])) == [0.0]
    everywhere = counts_of_sets.best_thresholds(logits, np.array([[1], [1]]))
    assert everywhere < 1.0


def test_two_classes_are_a_label_and_its_absence():
    logits, labels = sets()
    found = measures.reliability(
        measures.two_classes(logits[:, 0]), labels[:, 0]
    )
    share = 1 / (1 + np.exp(-logits[:, 0]))
    right = (share > 0.5) == labels[:, 0]
    assert sum(found["count"]) == len(labels)
    total = sum(n * (a or 0) for n, a in zip(found["count"], found["accuracy"]))
    assert total == pytest.approx(right.sum())


def test_pooled_diagrams_are_that_of_all_rows():
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(90, 3)) * 3, rng.integers(0, 3, 90)
    parts = [
        measures.reliability(logits[i : i + 30], labels[i : i + 30])
        for i in (0, 30, 60)
    ]
    found, whole = measures.pooled(parts), measures.reliability(logits, labels)
    assert found["count"] == whole["count"]
    assert found["ece"] == pytest.approx(whole["ece"])
    for name in ("confidence", "accuracy"):
        for ours, theirs in zip(found[name], whole[name]):
            assert ours == (theirs and pytest.approx(theirs))


def interval_by_drawing(first, second, of_rows, samples=3000):
    """Seeds and rows drawn anew, the scores computed of what was drawn."""
    rng = np.random.default_rng(1)
    seeds, rows = first.shape[:2]
    found = []
    for _ in range(samples):
        chosen = rng.integers(0, seeds, seeds)
        columns = rng.integers(0, rows, rows)
        found.append(
            np.mean(
                [
                    of_rows(second[s][columns]) - of_rows(first[s][columns])
                    for s in chosen
                ]
            )
        )
    return np.quantile(found, [0.025, 0.975])


@pytest.mark.parametrize("seeds", [1, 3])
def test_interval_of_correlations(seeds):
    pairs = [
        (scores(seed=0)[1], scores(seed=10 + s)[0], scores(seed=20 + s)[0])
        for s in range(seeds)
    ]
    first, second = (
        np.stack(
            [measures.moments(pair[0] * 2 + pair[i], pair[0]) for pair in pairs]
        )
        for i in (1, 2)
    )
    found = significance.paired_bootstrap(first, second, measures.pearson)

    def correlation(rows):
        return np.corrcoef(rows[:, 0], rows[:, 1])[0, 1]

    expected = np.mean(
        [correlation(b) - correlation(a) for a, b in zip(first, second)]
    )
    assert found.value == pytest.approx(expected)
    low, high = interval_by_drawing(first, second, correlation)
    width = high - low
    assert found.low == pytest.approx(low, abs=0.06 * width)
    assert found.high == pytest.approx(high, abs=0.06 * width)


def test_interval_of_f1():
    (first, labels), (second, _) = sets(seed=0), sets(seed=0)
    second = second + 0.5 * labels
    rows = [
        counts_of_sets.label_counts(logits > 0, labels)[None]
        for logits in (first, second)
    ]
    found = significance.paired_bootstrap(*rows, counts_of_sets.f1_of_counts)
    assert found.is_shown

    def f1(counts):
        return counts_of_sets.f1_of_counts(counts.sum(axis=0))

    low, high = interval_by_drawing(*rows, f1)
    assert found.low == pytest.approx(low, abs=0.1 * (high - low))
    assert found.high == pytest.approx(high, abs=0.1 * (high - low))


def test_statistics_that_are_shares_need_no_function():
    """Accuracy as a mean, and as a function of one statistic."""
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 2, 200)) < 0.7
    plain = significance.paired_bootstrap(first, second)
    assert not plain.is_shown
    found = significance.paired_bootstrap(
        first[..., None], second[..., None], lambda means: means[..., 0]
    )
    assert found.value == pytest.approx(plain.value)
    assert found.low == pytest.approx(plain.low, abs=0.005)


def test_standard_errors():
    right = np.arange(400) % 4 > 0
    error = significance.standard_error(right)
    assert error == pytest.approx(np.sqrt(0.75 * 0.25 / 400))
    predicted, labels = scores(2000)
    moments = measures.moments(predicted, labels)
    found = significance.standard_error(moments, measures.pearson)
    # Of two normal variables it is (1 - r^2) / sqrt(n).
    r = np.corrcoef(predicted, labels)[0, 1]
    assert found == pytest.approx((1 - r**2) / np.sqrt(2000), rel=0.1)
    assert significance.standard_error([1]) == np.inf


def test_statistics_must_have_their_axes():
    with pytest.raises(ValueError, match="paired"):
        significance.paired_bootstrap(
            np.zeros(5), np.zeros(5), measures.pearson
        )
