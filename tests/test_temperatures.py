"""The per-example rules against float64 NumPy, and their serialisation."""

import keras
import numpy as np
import pytest
from helpers import gradients
from helpers import twin
from keras import ops
from scipy.special import softmax

from keras_distill import temperatures

RNG = np.random.default_rng(0)


def flsw(t, s, beta, gamma, base):
    t = t / (np.linalg.norm(t, axis=-1, keepdims=True) + 1e-4)
    s = s / (np.linalg.norm(s, axis=-1, keepdims=True) + 1e-4)
    w = (1 - (t * s).sum(-1)) ** gamma
    return base + (w.mean() - w) * beta


def cwsm(s, beta, base):
    w = 1 / (softmax(s, -1).max(-1) + 1e-3)
    return base + (w.mean() - w) * beta


@pytest.mark.parametrize("shape", [(6, 3), (2, 5, 7)])
def test_flsw_equals_reference(shape):
    t, s = RNG.normal(size=(2, *shape))
    np.testing.assert_allclose(
        temperatures.flsw_temperature(t, s, 1.5, 2.0, 6.0),
        flsw(t, s, 1.5, 2.0, 6.0),
        rtol=1e-5,
    )


@pytest.mark.parametrize("shape", [(6, 3), (2, 5, 7)])
def test_cwsm_equals_reference(shape):
    t, s = RNG.normal(size=(2, *shape))
    np.testing.assert_allclose(
        temperatures.cwsm_temperature(t, s, 1.5, 6.0),
        cwsm(s, 1.5, 6.0),
        rtol=1e-5,
    )


RULES = [
    temperatures.FLSW(1.5, 2.0, 6.0, 0.25),
    temperatures.FLSW(beta=50.0, gamma=0.5, minimum_temperature=0.25),
    temperatures.CWSM(50.0, 3.0, 0.25),
]


@pytest.mark.parametrize("rule", RULES)
def test_stays_positive(rule):
    t, s = 3 * RNG.normal(size=(2, 64, 3))
    found = ops.convert_to_numpy(rule(t, s))
    assert found.min() >= 0.25
    if rule.beta == 50:
        assert found.min() == 0.25


def test_fractional_power_of_equal_logits_is_a_number():
    t = RNG.normal(size=(64, 3)).astype("float32") * 1e5
    found = temperatures.flsw_temperature(t, t, gamma=0.5)
    assert np.all(np.isfinite(found))


@pytest.mark.parametrize("rule", RULES)
def test_has_no_gradient(rule):
    t, s = RNG.normal(size=(2, 8, 3))
    for found in gradients(lambda *x: ops.sum(rule(*x) ** 2), t, s):
        np.testing.assert_array_equal(found, 0)


@pytest.mark.parametrize("rule", RULES)
def test_round_trip_keeps_the_value(rule):
    t, s = RNG.normal(size=(2, 8, 3))
    np.testing.assert_array_equal(twin(rule)(t, s), rule(t, s))
    assert twin(rule).get_config() == rule.get_config()


def test_half_precision_is_computed_in_float32():
    t, s = RNG.normal(size=(2, 8, 3)).astype("float16")
    for rule in RULES:
        found = rule(t, s)
        assert keras.backend.standardize_dtype(found.dtype) == "float32"
        np.testing.assert_array_equal(found, rule(np.float32(t), np.float32(s)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: temperatures.FLSW(gamma=0), "Received: gamma=0"),
        (lambda: temperatures.FLSW(beta=float("inf")), "Received: beta=inf"),
        (lambda: temperatures.CWSM(base_temperature=-1), "temperature=-1"),
        (
            lambda: temperatures.CWSM(minimum_temperature=0),
            "Received: minimum_temperature=0",
        ),
        (
            lambda: temperatures.CWSM()(np.zeros((4, 3)), np.zeros((4, 2))),
            r"student_logits.shape=\(4, 2\)",
        ),
    ],
)
def test_message(make, message):
    with pytest.raises(ValueError, match=message):
        make()
