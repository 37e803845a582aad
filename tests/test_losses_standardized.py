"""Losses that rescale, soften one side, or leave a margin; multi-label BCE."""

import functools

import keras
import numpy as np
import pytest
from helpers import compiled
from helpers import gradients
from helpers import twin
from keras import ops
from scipy.special import expit
from scipy.special import log_softmax

from keras_distill import losses
from keras_distill import temperatures

RNG = np.random.default_rng(0)


def kl(log_p, log_q):
    return (np.exp(log_p) * (log_p - log_q)).sum(-1)


def standardized(t, s, temperature):
    t, s = (
        (z - z.mean(-1, keepdims=True)) / z.std(-1, keepdims=True)
        for z in (t, s)
    )
    squared = np.square(np.asarray(temperature)[..., 0])
    return squared * kl(
        log_softmax(t / temperature, -1), log_softmax(s / temperature, -1)
    )


def ttm(t, s, temperature):
    return kl(log_softmax(t / temperature, -1), log_softmax(s, -1))


def wttm(t, s, temperature):
    powers = np.exp(log_softmax(t, -1)) ** (1 / temperature)
    p = powers / powers.sum(-1, keepdims=True)
    return powers.sum(-1) * kl(np.log(p), log_softmax(s, -1))


def soft_bce(t, s, temperature):
    p, q = expit(t / temperature), expit(s / temperature)
    squared = np.square(np.asarray(temperature)[..., 0])
    return -squared * (p * np.log(q) + (1 - p) * np.log(1 - q)).mean(-1)


def continuation(t, s, temperature, margin=9.0):
    phi = 1 - (temperature - 1) / 5
    square = ((s - phi * t) ** 2).sum(-1)
    return np.maximum(0, square - margin * phi[..., 0])


CASES = {
    "standardized_kl": (losses.StandardizedKL, {}, standardized),
    "ttm": (losses.TTM, {}, ttm),
    "wttm": (losses.WTTM, {}, wttm),
    "soft_bce": (losses.SoftBinaryCrossEntropy, {}, soft_bce),
    "continuation": (
        losses.ContinuationMSE,
        {"max_temperature": 5, "margin": 9.0},
        continuation,
    ),
}
every_reference = pytest.mark.parametrize(
    ("kind", "options", "reference"), CASES.values(), ids=CASES
)
every = pytest.mark.parametrize(
    ("kind", "options"), [case[:2] for case in CASES.values()], ids=CASES
)
PLAIN = [losses.StandardizedKL, losses.SoftBinaryCrossEntropy]


def pair(*shape):
    return 2 * RNG.normal(size=(2, *shape)).astype("float32")


def close(actual, wanted, rtol=5e-5, atol=2e-6):
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)


@every_reference
@pytest.mark.parametrize("shape", [(6, 4), (2, 3, 5)])
def test_equals_reference(kind, options, reference, shape):
    t, s = pair(*shape)
    exact = np.float64(t), np.float64(s)
    for temperature in (1.0, 2.5):
        wanted = reference(*exact, np.full((1,) * len(shape), temperature))
        loss = kind(temperature=temperature, reduction=None, **options)
        close(loss(t, s), wanted)
        loss = kind(temperature=temperature, **options)
        close(loss(t, s), wanted.mean())


@every_reference
def test_temperature_per_row_from_a_rule_and_assigned(kind, options, reference):
    t, s = pair(6, 4)
    exact = np.float64(t), np.float64(s)
    tau = RNG.uniform(1, 3, 6).astype("float32")
    loss = kind(temperature=tau, reduction=None, **options)
    close(loss(t, s), reference(*exact, np.float64(tau)[:, None]))
    rule = temperatures.FLSW(base_temperature=2.5, beta=0.5)
    loss.temperature = rule
    tau = np.float64(ops.convert_to_numpy(rule(t, s)))[:, None]
    close(loss(t, s), reference(*exact, tau))
    loss.temperature = keras.Variable(2.0, trainable=False)
    close(loss(t, s), reference(*exact, np.array([[2.0]])))


@pytest.mark.parametrize("kind", PLAIN)
def test_without_the_square_of_the_temperature(kind):
    t, s = pair(4, 3)
    plain = kind(3.0, temperature_squared=False)
    close(9 * plain(t, s), kind(3.0)(t, s))


@pytest.mark.parametrize("kind", [losses.StandardizedKL, losses.TTM])
def test_known_minimum(kind):
    t, s = pair(5, 4)
    loss = kind(temperature=3.0)
    best = 7 * t - 2 if kind is losses.StandardizedKL else t / 3 + 5
    close(loss(t, best), 0)
    assert float(loss(t, s)) > 0.01
    close(gradients(functools.partial(loss, t), best)[0], 0)


def test_only_the_order_and_the_distances_count():
    t, s = pair(5, 4)
    loss = losses.StandardizedKL()
    close(loss(3 * t + 1, 0.2 * s - 4), loss(t, s), rtol=1e-3)
    found = gradients(functools.partial(loss, t), s)[0]
    close((found * s).sum(-1), 0)


def test_binary_cross_entropy_has_the_gradient_of_the_kl():
    t, s = pair(5, 4)
    loss, kl = losses.SoftBinaryCrossEntropy(2.0), losses.BinaryKL(2.0)
    close(
        gradients(functools.partial(loss, t), s)[0],
        gradients(functools.partial(kl, t), s)[0],
    )
    close(loss(t, s) - loss(t, t), kl(t, s), rtol=1e-3)


def test_without_a_margin_it_is_annealing_kd():
    t, s = pair(5, 4)
    for temperature in (1, 3, 5):
        plain = losses.AnnealedMSE(5, temperature)
        close(losses.ContinuationMSE(5, 0, temperature)(t, s), plain(t, s))
    wide = losses.ContinuationMSE(5, 1e6)
    assert float(wide(t, s)) == 0
    assert not gradients(functools.partial(wide, t), s)[0].any()


@every
def test_weights(kind, options):
    t, s = pair(4, 3)
    loss = kind(reduction="mean_with_sample_weight", **options)
    weight = np.array([1, 2, 0, 0])
    close(loss(t, s, weight), loss(t[:2], s[:2], weight[:2]))
    close(loss(t, s, 0 * weight), 0)


@every
def test_gradient_reaches_only_the_student_and_fits_the_value(kind, options):
    t, s = pair(5, 4)
    loss = kind(temperature=2.0, reduction="sum", **options)
    to_teacher, to_student = gradients(loss, t, s)
    assert not to_teacher.any()
    step = 5e-3 * np.sign(to_student)
    change = float(loss(t, s + step)) - float(loss(t, s - step))
    assert change == pytest.approx(1e-2 * np.abs(to_student).sum(), rel=0.03)


@every
def test_half_precision_and_compilation(kind, options):
    t, s = (ops.cast(x, "float16") for x in pair(4, 3))
    exact = [ops.cast(x, "float32") for x in (t, s)]
    loss = kind(**options)
    close(loss(t, s), loss(*exact))
    close(compiled(loss)(*exact), loss(*exact))


@pytest.mark.parametrize(
    "kind", [losses.StandardizedKL, losses.TTM, losses.WTTM]
)
def test_a_class_that_both_rule_out_is_not_there(kind):
    t, s = pair(4, 4)
    wanted = kind()(np.delete(t, 1, -1), np.delete(s, 1, -1))
    t[:, 1] = s[:, 1] = -np.inf
    close(kind()(t, s), wanted)
    found = gradients(functools.partial(kind(), t), s)[0]
    assert np.all(np.isfinite(found))


def test_certain_and_constant_logits():
    t, s = np.array([[np.inf, -np.inf]]), np.array([[50.0, -50.0]])
    loss = losses.SoftBinaryCrossEntropy()
    close(loss(np.array([[-np.inf, 0.0]]), -s), 50 / 4)
    close(loss(t, s), 0)
    for sign in (-1, 1):  # Both rule the label out, or are sure of it.
        t = np.array([[sign * np.inf, 0.0]])
        close(loss(t, t), np.log(2) / 2)
    t, s = pair(2, 4)
    t[0] = s[1] = 7
    loss = losses.StandardizedKL()
    assert np.isfinite(float(loss(t, s)))
    found = gradients(functools.partial(loss, t), s)[0]
    assert np.all(np.isfinite(found))


def test_two_classes_keep_only_the_sign_and_warn_once():
    t, s = pair(4, 2)
    loss = losses.StandardizedKL()
    with pytest.warns(UserWarning, match="`StandardizedKL` with two classes"):
        loss(t, s)
    close(loss(t, 5 * t), 0)
    close(gradients(functools.partial(loss, t), s)[0], 0)


NON_DEFAULT = [
    losses.StandardizedKL(3.0, False, name="a", reduction="sum"),
    losses.TTM(3.0, name="b", reduction=None),
    losses.WTTM(3.0, name="c", dtype="float16"),
    losses.SoftBinaryCrossEntropy(3.0, False, name="d"),
    losses.ContinuationMSE(5, 2.0, 3.0, name="e", reduction="sum"),
]


@pytest.mark.parametrize("loss", NON_DEFAULT, ids=lambda loss: loss.name)
def test_round_trip_keeps_the_value(loss):
    t, s = pair(4, 3)
    np.testing.assert_array_equal(twin(loss)(t, s), loss(t, s))
    assert twin(loss).get_config() == loss.get_config()


def test_defaults():
    assert losses.StandardizedKL().temperature == 2
    assert losses.TTM().temperature == losses.WTTM().temperature == 4
    assert losses.SoftBinaryCrossEntropy().temperature == 1
    loss = losses.ContinuationMSE()
    assert (loss.max_temperature, loss.temperature, loss.margin) == (7, 7, 0.1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.StandardizedKL(0), "Received: temperature=0"),
        (
            lambda: losses.StandardizedKL(temperature_squared=2),
            "Received: temperature_squared=2",
        ),
        (
            lambda: losses.SoftBinaryCrossEntropy(temperature_squared="no"),
            "Received: temperature_squared='no'",
        ),
        (lambda: losses.WTTM(-1), "Received: temperature=-1"),
        (lambda: losses.ContinuationMSE(margin=-1), "Received: margin=-1"),
        (lambda: losses.ContinuationMSE(7, 1, 8), "Received: temperature=8"),
    ],
)
def test_message(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@every
def test_message_on_shapes(kind, options):
    with pytest.raises(ValueError, match=r"student_logits.shape=\(4, 2\)"):
        kind(**options)(np.zeros((4, 3)), np.zeros((4, 2)))
