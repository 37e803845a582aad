"""Losses on attention: TextBrewer's formulas in float64, then laws."""

import keras
import numpy as np
import pytest
from helpers import compiled
from helpers import gradients
from helpers import twin
from keras import ops
from scipy.special import log_softmax
from scipy.special import softmax

from keras_distill import losses

RNG = np.random.default_rng(0)
MASK = np.array([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
SOME_EMPTY = MASK * np.array([[1], [0], [1]])


def mse_match(t, s, mask):
    if mask is None:
        t, s = (np.where(x <= -1e-3, 0, x) for x in (t, s))
        return ((s - t) ** 2).mean()
    mask = np.repeat(mask[:, None], t.shape[1], 1)
    squares = (s - t) ** 2 * mask[..., None] * mask[:, :, None]
    return squares.sum() / (mask.sum(2) ** 2).sum()


def mse_sum(t, s, mask):
    return mse_match(t.sum(1, keepdims=True), s.sum(1, keepdims=True), mask)


def ce_match(t, s, mask):
    terms = softmax(t, -1) * log_softmax(s, -1)
    if mask is None:
        return -np.where(t <= -1e-3, 0, terms).sum(-1).mean()
    mask = np.repeat(mask[:, None], t.shape[1], 1)
    values = (terms * mask[:, :, None]).sum(-1) * mask
    return -values.sum() / mask.sum()


def ce_mean(t, s, mask):
    return ce_match(t.mean(1, keepdims=True), s.mean(1, keepdims=True), mask)


CASES = {
    "mse_match": (losses.AttentionMSE, "match", mse_match),
    "mse_sum": (losses.AttentionMSE, "sum", mse_sum),
    "ce_match": (losses.AttentionCE, "match", ce_match),
    "ce_mean": (losses.AttentionCE, "mean", ce_mean),
}
every_reference = pytest.mark.parametrize(
    ("kind", "heads", "reference"), CASES.values(), ids=CASES
)
every = pytest.mark.parametrize(
    ("kind", "heads"), [c[:2] for c in CASES.values()], ids=CASES
)


def scores(batch=3, heads=2, length=5):
    shape = (2, batch, heads, length, length)
    return RNG.normal(size=shape).astype("float32")


def close(actual, wanted, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)


@every_reference
@pytest.mark.parametrize("mask", [None, MASK, SOME_EMPTY])
@pytest.mark.parametrize("maps", [False, True])
def test_equals_textbrewer(kind, heads, reference, mask, maps):
    t, s = softmax(scores(), -1) if maps else scores()
    wanted = reference(np.float64(t), np.float64(s), mask)
    close(kind(heads)(t, s, mask=mask), wanted)


@every_reference
def test_different_numbers_of_heads(kind, heads, reference):
    t, _ = scores(heads=4)
    s, _ = scores(heads=2)
    if heads == "match":
        message = "same number of heads; heads='(sum|mean)' works.*4, 5, 5"
        with pytest.raises(ValueError, match=message):
            kind(heads)(t, s)
    else:
        wanted = reference(np.float64(t), np.float64(s), MASK)
        close(kind(heads)(t, s, mask=MASK), wanted)


@every
def test_one_value_per_example(kind, heads):
    t, s = scores()
    loss = kind(heads)
    values = ops.convert_to_numpy(loss.call(t, s))
    assert values.shape == (3,)
    for i in range(3):
        close(values[i], loss(t[i : i + 1], s[i : i + 1]))
    masked = ops.convert_to_numpy(loss.call(t, s, SOME_EMPTY))
    assert masked[1] == 0
    close(masked[[0, 2]].mean(), loss(t, s, mask=SOME_EMPTY))


@every
def test_minimum_when_equal(kind, heads):
    t, s = softmax(scores(), -1)  # Positive: none of them counts as padding.
    loss = kind(heads)
    minimum = 0
    if kind is losses.AttentionCE:
        scored = np.float64(t if heads == "match" else t.mean(1))
        p = softmax(scored, -1)
        minimum = -(p * np.log(p)).sum(-1).mean()
    close(loss(t, t), minimum)
    assert float(loss(t, s)) > minimum + 1e-4
    found = gradients(lambda s: loss(t, s), t)[0]
    close(found, 0)


@pytest.mark.parametrize("heads", ["match", "mean"])
def test_cross_entropy_ignores_a_constant_added_to_scores(heads):
    t, s = scores()
    loss = losses.AttentionCE(heads)
    close(loss(t + 3, s - 5, mask=MASK), loss(t, s, mask=MASK), rtol=1e-4)


@every
def test_padding_does_not_matter(kind, heads):
    t, s = scores()
    both = (MASK[:, None, :, None] * MASK[:, None, None, :]) > 0
    both = np.broadcast_to(both, t.shape)
    # Padded keys take part in the softmax: there the noise is in the queries.
    padded = (
        ~both if kind is losses.AttentionMSE else MASK[:, None, :, None] < 1
    )
    padded = np.broadcast_to(padded, t.shape)
    value = kind(heads)(t, s, mask=MASK)
    for noise in (100.0, np.nan):
        noisy = [np.where(padded, np.float32(noise), x) for x in (t, s)]
        close(kind(heads)(*noisy, mask=MASK), value)
        _, found = gradients(lambda *x: kind(heads)(*x, mask=MASK), *noisy)
        assert np.all(np.isfinite(found))
        assert not np.any(found[padded])


@pytest.mark.parametrize("heads", ["match", "mean"])
def test_cross_entropy_of_excluded_keys_is_finite(heads):
    keys = np.broadcast_to(MASK[:, None, None, :] > 0, (3, 2, 5, 5))
    for bottom in (-1e4, -np.inf):
        t, s = (np.where(keys, x, np.float32(bottom)) for x in scores())
        for mask in (None, MASK):

            def value(s, t=t, mask=mask):
                return losses.AttentionCE(heads)(t, s, mask=mask)

            assert np.isfinite(float(value(s)))
            assert np.all(np.isfinite(gradients(value, s)[0]))


@every
@pytest.mark.parametrize("mask", [None, MASK, SOME_EMPTY])
def test_weight_zero_equals_leaving_the_row_out(kind, heads, mask):
    t, s = scores()
    loss = kind(heads, reduction="mean_with_sample_weight")
    close(
        loss(t, s, sample_weight=np.array([2.0, 1.0, 0.0]), mask=mask),
        loss(
            t[:2],
            s[:2],
            sample_weight=np.array([2.0, 1.0]),
            mask=None if mask is None else mask[:2],
        ),
    )


@every
def test_nothing_valid_gives_zero(kind, heads):
    t, s = scores()
    for mask, weight in ((0 * MASK, None), (MASK, np.zeros(3))):

        def value(s, mask=mask, weight=weight):
            return kind(heads)(t, s, weight, mask)

        assert float(value(s)) == 0
        np.testing.assert_array_equal(gradients(value, s)[0], 0)


@every
def test_gradient_reaches_the_student_alone(kind, heads):
    to_teacher, to_student = gradients(kind(heads), *scores())
    np.testing.assert_array_equal(to_teacher, 0)
    assert np.any(to_student)


@every
def test_compiles(kind, heads):
    t, s = scores()
    weight = np.array([1.0, 0.0, 2.0], "float32")
    for mask in (None, SOME_EMPTY):

        def value(t, s, mask=mask):
            return kind(heads)(t, s, weight, mask)

        close(compiled(value)(t, s), value(t, s))


@every
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(kind, heads, dtype):
    t, s = (ops.cast(x, dtype) for x in scores())
    exact = ops.cast(t, "float32"), ops.cast(s, "float32")
    close(kind(heads)(t, s, mask=MASK), kind(heads)(*exact, mask=MASK))
    close(kind(heads)(exact[0], s), kind(heads)(*exact))


@every
def test_round_trip_keeps_the_value(kind, heads):
    t, s = scores()
    loss = kind(heads, name="mine", reduction="sum")
    assert twin(loss).get_config() == loss.get_config()
    np.testing.assert_array_equal(twin(loss)(t, s), loss(t, s))


X = np.ones((2, 3, 5, 5))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.AttentionMSE("mean"), "Received: heads='mean'"),
        (lambda: losses.AttentionCE("sum"), "Received: heads='sum'"),
        (lambda: losses.AttentionMSE()(X[0], X[0]), r"shape=\(3, 5, 5\)"),
        (lambda: losses.AttentionMSE()(X, X[:, :, :4, :4]), "same length"),
        (
            lambda: losses.AttentionCE()(X, X, mask=np.ones((2, 4))),
            r"length of the states, 5. Received: mask.shape=\(2, 4\)",
        ),
    ],
)
def test_message(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@every
def test_no_projection_is_needed(kind, heads):
    assert isinstance(kind(heads), keras.losses.Loss)
    assert kind(heads).across_widths
