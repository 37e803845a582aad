"""Values from a float64 NumPy reference written here, then laws."""

import functools

import keras
import numpy as np
import pytest
from helpers import gradients
from keras import ops
from scipy.special import log_softmax

from keras_distill import divergences

RNG = np.random.default_rng(0)
SHAPES = [(3,), (4, 3), (2, 5, 7)]


def kl(log_p, log_q):
    return (np.exp(log_p) * (log_p - log_q)).sum(-1)


def forward_kl(p, q):
    return kl(p, q)


def reverse_kl(p, q):
    return kl(q, p)


def soft_cross_entropy(p, q):
    return -(np.exp(p) * q).sum(-1)


def jsd(p, q, beta):
    m = np.log(beta * np.exp(p) + (1 - beta) * np.exp(q))
    return beta * kl(p, m) + (1 - beta) * kl(q, m)


def normalized_jsd(p, q, beta):
    return jsd(p, q, beta) / beta / (1 - beta)


def skew_kl(p, q, alpha):
    return kl(p, np.log(alpha * np.exp(p) + (1 - alpha) * np.exp(q)))


def skew_reverse_kl(p, q, alpha):
    return skew_kl(q, p, alpha)


def total_variation(p, q):
    return np.abs(np.exp(p) - np.exp(q)).sum(-1) / 2


def adaptive_kl(p, q, mu):
    order = np.argsort(-p, axis=-1)
    gap = np.take_along_axis(np.abs(np.exp(p) - np.exp(q)), order, -1)
    mass = np.cumsum(np.take_along_axis(np.exp(p), order, -1), -1)
    head = (mass <= mu) | (np.arange(p.shape[-1]) == 0)
    share = (gap * head).sum(-1) / gap.sum(-1)
    return share * kl(p, q) + (1 - share) * kl(q, p)


def alpha_beta(log_p, log_q, alpha, beta):
    p, q, s = np.exp(log_p), np.exp(log_q), alpha + beta
    if alpha == beta == 0:
        return ((log_p - log_q) ** 2).sum(-1) / 2
    if beta == 0:
        ratio = np.log(p**alpha / q**alpha)
        return (p**alpha * ratio - p**alpha + q**alpha).sum(-1) / alpha**2
    if alpha == 0:
        return alpha_beta(log_q, log_p, beta, 0)
    if s == 0:
        ratio = q**alpha / p**alpha
        return (np.log(ratio) + 1 / ratio - 1).sum(-1) / alpha**2
    mixed = p**alpha * q**beta
    terms = mixed - alpha / s * p**s - beta / s * q**s
    return -terms.sum(-1) / (alpha * beta)


CASES = {
    "forward_kl": (divergences.forward_kl, forward_kl),
    "reverse_kl": (divergences.reverse_kl, reverse_kl),
    "soft_cross_entropy": (divergences.soft_cross_entropy, soft_cross_entropy),
    **{
        f"jsd_{beta}": (
            functools.partial(divergences.generalized_jsd, beta=beta),
            functools.partial(jsd, beta=beta),
        )
        for beta in (0.1, 0.5, 0.9)
    },
    "jsd_normalized": (
        functools.partial(
            divergences.generalized_jsd, beta=0.3, normalize=True
        ),
        functools.partial(normalized_jsd, beta=0.3),
    ),
    **{
        f"{reference.__name__}_{value}": (
            functools.partial(
                getattr(divergences, reference.__name__), **{name: value}
            ),
            functools.partial(reference, **{name: value}),
        )
        for reference, name, values in [
            (skew_kl, "alpha", (0.1, 0.6)),
            (skew_reverse_kl, "alpha", (0.1, 0.6)),
            (adaptive_kl, "mu", (0.0, 0.5, 0.8)),
        ]
        for value in values
    },
    "total_variation": (divergences.total_variation, total_variation),
    **{
        f"alpha_beta_{powers}": (
            functools.partial(divergences.alpha_beta, **powers_),
            functools.partial(alpha_beta, **powers_),
        )
        for powers, powers_ in [
            (f"{a}_{b}", {"alpha": a, "beta": b})
            for a, b in [
                *((0.2, 0.7), (0.5, 0.5), (1.5, -0.4), (-0.3, 0.8)),
                *((0.5, 0), (0, 0.7), (0.4, -0.4), (0, 0)),
            ]
        ]
    },
}
# Infinite where a class is impossible for the teacher alone, or far off.
INFINITE = [
    name
    for name in CASES
    if name.startswith(("reverse", "adaptive"))
    or name in ("alpha_beta_0_0.7", "alpha_beta_0_0")
    or "-" in name
]
OVERFLOWING = ["alpha_beta_0.4_-0.4", "alpha_beta_1.5_-0.4"]
OVERFLOWING += ["alpha_beta_-0.3_0.8"]
every = pytest.mark.parametrize(
    ("function", "reference"), CASES.values(), ids=CASES
)


def pair(shape):
    return RNG.normal(size=(2, *shape)).astype("float32")


def expected(reference, t, s, temperature):
    return reference(
        *(log_softmax(np.float64(x) / temperature, -1) for x in (t, s))
    )


def close(actual, wanted, rtol=2e-5, atol=1e-6):
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)


@every
@pytest.mark.parametrize("temperature", [0.5, 1, 4.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_reference(function, reference, shape, temperature):
    t, s = pair(shape)
    value = function(t, s, temperature=temperature)
    assert keras.backend.standardize_dtype(value.dtype) == "float32"
    close(value, expected(reference, t, s, temperature))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("forward_kl", 0.1837869),
        ("reverse_kl", 0.1920420),
        ("jsd_0.1", 0.0165180),
        ("jsd_0.5", 0.0462008),
        ("jsd_0.9", 0.0170996),
        ("soft_cross_entropy", 0.9856056),
        ("skew_kl_0.1", 0.1485504),
        ("skew_reverse_kl_0.1", 0.1523769),
        ("adaptive_kl_0.5", 0.1879144),
        ("alpha_beta_0.2_0.7", 0.2113279),
        ("alpha_beta_0.5_0.5", 0.1863427),
        ("total_variation", 0.3),
    ],
)
def test_golden(name, value):
    t, s = np.log([0.7, 0.2, 0.1]), np.log([0.4, 0.4, 0.2])
    close(CASES[name][0](t, s), value, atol=2e-7)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", [n for n in CASES if "cross" not in n])
def test_zero_when_equal(name, shape):
    t, s = pair(shape)
    close(CASES[name][0](t, t), 0)
    assert np.all(ops.convert_to_numpy(CASES[name][0](t, s)) > 1e-4)


@every
def test_flat_when_equal(function, reference):
    t, _ = pair((4, 3))
    close(gradients(lambda s: ops.sum(function(t, s)), t)[0], 0)


@every
def test_ignores_a_constant_added_to_logits(function, reference):
    t, s = pair((4, 3))
    close(function(t + 10, s - 5), function(t, s), rtol=1e-4)


@pytest.mark.parametrize("normalize", [False, True])
def test_ends_are_exact(normalize):
    t, s = pair((4, 3))
    ends = [divergences.forward_kl, divergences.reverse_kl]
    for beta, end in enumerate(ends):
        value = divergences.generalized_jsd(t, s, beta, 2.0, normalize)
        np.testing.assert_array_equal(value, end(t, s, 2.0))


def test_normalized_is_continuous_at_the_ends():
    t, s = pair((4, 3))
    near = functools.partial(divergences.generalized_jsd, normalize=True)
    close(near(t, s, 1e-3), divergences.forward_kl(t, s), rtol=0.02, atol=1e-3)
    close(
        near(t, s, 1 - 1e-3), divergences.reverse_kl(t, s), rtol=0.02, atol=1e-3
    )


def test_sides_swap_with_beta():
    t, s = pair((4, 3))
    close(
        divergences.generalized_jsd(t, s, 0.2),
        divergences.generalized_jsd(s, t, 0.8),
    )


def test_special_cases_of_the_others():
    t, s = pair((4, 3))
    forward, reverse = divergences.forward_kl, divergences.reverse_kl
    close(divergences.alpha_beta(t, s, 1, 0), forward(t, s))
    close(divergences.alpha_beta(t, s, 0, 1), reverse(t, s))
    close(divergences.skew_kl(t, s, 0, 2.0), forward(t, s, 2.0))
    close(divergences.skew_reverse_kl(t, s, 0, 2.0), reverse(t, s, 2.0))
    close(divergences.adaptive_kl(t, s, 1), forward(t, s))


@pytest.mark.parametrize(
    ("powers", "limit"),
    [
        ((0.02, 0.7), (0, 0.7)),
        ((-0.02, 0.7), (0, 0.7)),
        ((0.7, 0.02), (0.7, 0)),
        ((0.5, -0.48), (0.5, -0.5)),
        ((0.02, 0.01), (0, 0)),
        ((0.02, 0), (0, 0)),
        ((0.02, -0.02), (0, 0)),
    ],
)
def test_alpha_beta_is_continuous(powers, limit):
    t, s = pair((4, 3))
    wanted = divergences.alpha_beta(t, s, *limit)
    close(divergences.alpha_beta(t, s, *powers), wanted, rtol=0.1)
    near = [x + 5e-4 for x in limit]
    close(divergences.alpha_beta(t, s, *near), wanted, rtol=2e-3)


def test_skewed_is_bounded():
    t, s = np.array([[0.0, -np.inf]]), np.array([[-np.inf, 0.0]])
    for skewed in (divergences.skew_kl, divergences.skew_reverse_kl):
        close(skewed(t, s, 0.1), [-np.log(0.1)])


def test_ties_at_the_edge_of_the_head():
    t = np.log([0.3, 0.1, 0.3, 0.3])
    s = np.log([0.1, 0.6, 0.2, 0.1])
    order = [2, 3, 1, 0]
    value = divergences.adaptive_kl(t, s, 0.5)
    close(divergences.adaptive_kl(t[order], s[order], 0.5), value)
    # All three are in the head, with half of the differences.
    ends = divergences.forward_kl(t, s), divergences.reverse_kl(t, s)
    close(value, (ends[0] + ends[1]) / 2)


def test_no_gradient_through_the_head_share():
    t, s = pair((3,))
    ends = divergences.forward_kl, divergences.reverse_kl
    forward, reverse = (gradients(lambda s, f=f: f(t, s), s)[0] for f in ends)
    found = gradients(lambda s: divergences.adaptive_kl(t, s), s)[0]
    low, high = (float(f(t, s)) for f in ends)
    share = (float(divergences.adaptive_kl(t, s)) - high) / (low - high)
    close(found, share * forward + (1 - share) * reverse, rtol=1e-3)


@pytest.mark.parametrize("name", [n for n in CASES if n not in OVERFLOWING])
def test_huge_logits_are_finite(name):
    function = CASES[name][0]
    t = np.array([[1e4, -1e4, 0], [1e4, 1e4, -1e4]], "float32")
    s = np.array([[-1e4, 1e4, 0], [0, 1e4, 1e4]], "float32")
    assert np.all(np.isfinite(function(t, s)))
    for found in gradients(lambda *x: ops.sum(function(*x)), t, s):
        assert np.all(np.isfinite(found))


@pytest.mark.parametrize("name", [n for n in CASES if n not in INFINITE])
def test_impossible_class(name):
    function = CASES[name][0]
    t = np.array([[-np.inf, 0.3, 1.0]], "float32")
    s = np.array([[0.5, 0.0, 1.0]], "float32")
    close(function(t, s), function(np.where(t < -9, -300, t), s))
    for found in gradients(lambda *x: ops.sum(function(*x)), t, s):
        assert np.all(np.isfinite(found))


@every
def test_class_impossible_for_both_is_no_class(function, reference):
    t, s = pair((4, 3))
    padding = np.full((4, 2), -np.inf, "float32")
    wide = [np.concatenate([x, padding], -1) for x in (t, s)]
    close(function(*wide), function(t, s))
    _, found = gradients(lambda *x: ops.sum(function(*x)), *wide)
    _, wanted = gradients(lambda *x: ops.sum(function(*x)), t, s)
    close(found[:, :3], wanted)
    close(found[:, 3:], 0)


@every
@pytest.mark.parametrize("shape", [(2,), (2, 1), (2, 5), (1, 5)])
def test_temperature_per_example(function, reference, shape):
    t, s = pair((2, 5, 7))
    temperature = RNG.uniform(0.5, 3, shape)
    aligned = temperature.reshape(*shape, *(1,) * (3 - len(shape)))
    wanted = expected(reference, t, s, aligned)
    close(function(t, s, temperature=temperature), wanted)
    variable = keras.Variable(temperature, trainable=False)
    close(function(t, s, temperature=variable), wanted)


def test_scalar_variable():
    t, s = pair((4, 3))
    two = keras.Variable(2.0, trainable=False)
    close(divergences.forward_kl(t, s, two), divergences.forward_kl(t, s, 2))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@every
def test_half_precision_is_computed_in_float32(function, reference, dtype):
    t, s = (ops.cast(x, dtype) for x in pair((4, 3)))
    exact = [ops.convert_to_numpy(ops.cast(x, "float32")) for x in (t, s)]
    close(function(t, exact[1]), function(*exact))
    close(function(t, s), expected(reference, *exact, 1.0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beta": 1.1}, "Received: beta=1.1"),
        ({"beta": -0.1}, "Received: beta=-0.1"),
        ({"beta": float("nan")}, "between 0 and 1"),
        ({"temperature": 0}, "Received: temperature=0"),
        ({"temperature": -1.0}, "Received: temperature=-1.0"),
        ({"temperature": np.ones(3)}, r"\(4,\). Received: .*shape=\(3,\)"),
        ({"temperature": np.ones((4, 3))}, r"Received: .*shape=\(4, 3\)"),
        ({"student_logits": np.zeros((4, 2))}, r"student_logits.shape=\(4, 2"),
    ],
)
def test_message(arguments, message):
    logits = dict.fromkeys(
        ("teacher_logits", "student_logits"), np.zeros((4, 3))
    )
    with pytest.raises(ValueError, match=message):
        divergences.generalized_jsd(**logits | arguments)


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("skew_kl", {"alpha": 1}, "less than 1. Received: alpha=1"),
        ("skew_kl", {"alpha": -0.1}, "Received: alpha=-0.1"),
        ("skew_reverse_kl", {"alpha": 1.0}, "Received: alpha=1.0"),
        ("adaptive_kl", {"mu": 1.5}, "Received: mu=1.5"),
        ("alpha_beta", {"alpha": float("inf")}, "Received: alpha=inf"),
        ("alpha_beta", {"beta": float("nan")}, "Received: beta=nan"),
        ("total_variation", {"temperature": 0}, "Received: temperature=0"),
    ],
)
def test_message_of_the_others(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        getattr(divergences, name)(np.zeros(3), np.zeros(3), **arguments)
