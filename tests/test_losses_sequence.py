"""Losses for sequences: the divergences, of which another file is the test."""

import functools

import keras
import numpy as np
import pytest
from helpers import compiled
from helpers import gradients
from helpers import twin

from keras_distill import divergences
from keras_distill import losses
from keras_distill import temperatures

RNG = np.random.default_rng(0)
CASES = {
    "skew_kl": (losses.SkewKL, {"alpha": 0.3}),
    "skew_reverse_kl": (losses.SkewReverseKL, {"alpha": 0.3}),
    "adaptive_kl": (losses.AdaptiveKL, {"mu": 0.8}),
    "alpha_beta": (losses.AlphaBeta, {"alpha": 0.4, "beta": 0.3}),
    "total_variation": (losses.TotalVariation, {}),
}
every = pytest.mark.parametrize("name", CASES)


def pair(*shape):
    return RNG.normal(size=(2, *shape)).astype("float32")


def close(actual, wanted, rtol=2e-5, atol=1e-6):
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)


@every
@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 7)])
def test_is_the_divergence_without_t_squared(name, shape):
    kind, options = CASES[name]
    t, s = pair(*shape)
    divergence = functools.partial(getattr(divergences, name), **options)
    wanted = divergence(t, s, temperature=2.5)
    loss = kind(temperature=2.5, reduction=None, **options)
    close(loss(t, s), wanted)
    close(compiled(loss)(t, s), wanted)
    assert np.all(np.abs(loss(t, s) - divergence(t, s)) > 1e-4)
    assert loss.name == name


@every
def test_default_is_that_of_the_divergence(name):
    t, s = pair(4, 3)
    loss = CASES[name][0]()
    close(loss(t, s), np.mean(getattr(divergences, name)(t, s)))


@every
def test_temperature_from_a_rule_or_per_token(name):
    kind, options = CASES[name]
    t, s = pair(2, 5, 3)
    divergence = functools.partial(getattr(divergences, name), **options)
    per_token = RNG.uniform(1, 3, (2, 5)).astype("float32")
    loss = kind(temperature=per_token, reduction=None, **options)
    close(loss(t, s), divergence(t, s, temperature=per_token))
    rule = temperatures.FLSW(base_temperature=2.5)
    loss = kind(temperature=rule, reduction=None, **options)
    close(loss(t, s), divergence(t, s, temperature=rule(t, s)))


@every
def test_masked_token_counts_nothing(name):
    kind, options = CASES[name]
    t, s = pair(2, 5, 3)
    weight = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]])
    loss = kind(reduction="mean_with_sample_weight", **options)
    value = loss(t, s, sample_weight=weight)
    close(value, loss(t[weight > 0], s[weight > 0]))
    close(loss(t, s, sample_weight=0 * weight), 0)


@every
def test_no_gradient_reaches_the_teacher(name):
    kind, options = CASES[name]
    to_teacher, to_student = gradients(kind(**options), *pair(4, 3))
    np.testing.assert_array_equal(to_teacher, 0)
    assert np.any(to_student)
    assert np.all(np.isfinite(to_student))


@every
def test_round_trip(name):
    kind, options = CASES[name]
    t, s = pair(4, 3)
    loss = kind(temperature=3.0, name="a", reduction="sum", **options)
    np.testing.assert_array_equal(twin(loss)(t, s), loss(t, s))
    assert twin(loss).get_config() == loss.get_config()
    loss.temperature = keras.Variable(2.0, trainable=False)
    close(loss(t, s), twin(loss)(t, s))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.SkewKL(1), "less than 1. Received: alpha=1"),
        (lambda: losses.SkewReverseKL(-1), "Received: alpha=-1"),
        (lambda: losses.AdaptiveKL(2), "Received: mu=2"),
        (lambda: losses.AlphaBeta(float("nan")), "Received: alpha=nan"),
        (lambda: losses.AlphaBeta(0.1, None), "Received: beta=None"),
        (lambda: losses.TotalVariation(0), "Received: temperature=0"),
    ],
)
def test_message(make, message):
    with pytest.raises(ValueError, match=message):
        make()
