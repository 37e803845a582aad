"""Losses on logits: a float64 NumPy reference, then laws for all of them."""

import keras
import numpy as np
import pytest
from helpers import compiled
from helpers import gradients
from helpers import twin
from keras import ops
from scipy.special import log_softmax

from keras_distill import losses
from keras_distill import temperatures

RNG = np.random.default_rng(0)


def log_pair(t, s, temperature):
    return [log_softmax(x / temperature, -1) for x in (t, s)]


def forward_kl(t, s, temperature):
    p, q = log_pair(t, s, temperature)
    return (np.exp(p) * (p - q)).sum(-1)


def reverse_kl(t, s, temperature):
    p, q = log_pair(t, s, temperature)
    return (np.exp(q) * (q - p)).sum(-1)


def cross_entropy(t, s, temperature):
    p, q = log_pair(t, s, temperature)
    return -(np.exp(p) * q).sum(-1)


def jsd(t, s, temperature, beta=0.3):
    p, q = np.exp(log_pair(t, s, temperature))
    m = beta * p + (1 - beta) * q
    to_teacher = (p * np.log(p / m)).sum(-1)
    return beta * to_teacher + (1 - beta) * (q * np.log(q / m)).sum(-1)


def mse(t, s, temperature):
    return ((s / temperature - t / temperature) ** 2).mean(-1)


def annealed_mse(t, s, temperature, max_temperature=5):
    phi = 1 - (temperature - 1) / max_temperature
    return ((s - phi * t) ** 2).sum(-1)


CASES = {
    "forward_kl": (losses.ForwardKL, {}, forward_kl, 2),
    "reverse_kl": (losses.ReverseKL, {}, reverse_kl, 2),
    "soft_cross_entropy": (losses.SoftCrossEntropy, {}, cross_entropy, 2),
    **{
        f"{kind.__name__}_plain": (
            kind,
            {"temperature_squared": False},
            reference,
            0,
        )
        for kind, reference in [
            (losses.ForwardKL, forward_kl),
            (losses.ReverseKL, reverse_kl),
            (losses.SoftCrossEntropy, cross_entropy),
        ]
    },
    "jsd": (losses.GeneralizedJSD, {"beta": 0.3}, jsd, 0),
    "jsd_normalized": (
        losses.GeneralizedJSD,
        {"beta": 0.3, "normalize": True},
        lambda *x: jsd(*x) / 0.21,
        0,
    ),
    "logits_mse": (losses.LogitsMSE, {}, mse, 0),
    "annealed_mse": (
        losses.AnnealedMSE,
        {"max_temperature": 5},
        annealed_mse,
        0,
    ),
}
KINDS = {name: case[:2] for name, case in CASES.items()}
every = pytest.mark.parametrize(("kind", "options"), KINDS.values(), ids=KINDS)
every_reference = pytest.mark.parametrize(
    ("kind", "options", "reference", "power"), CASES.values(), ids=CASES
)


def pair(*shape):
    return RNG.normal(size=(2, *shape)).astype("float32")


def close(actual, wanted, rtol=2e-5, atol=1e-6):
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)


@every_reference
@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("shape", [(4, 3), (2, 5, 7)])
def test_equals_reference(kind, options, reference, power, temperature, shape):
    t, s = pair(*shape)
    wanted = temperature**power * reference(
        np.float64(t), np.float64(s), temperature
    )
    loss = kind(temperature=temperature, reduction=None, **options)
    close(loss(t, s), wanted)
    loss = kind(temperature=temperature, **options)
    close(loss(t, s), wanted.mean())


@every_reference
@pytest.mark.parametrize("shape", [(2,), (2, 5)])
def test_temperature_per_example(kind, options, reference, power, shape):
    t, s = pair(2, 5, 7)
    temperature = RNG.uniform(1, 3, shape).astype("float32")
    aligned = temperature.reshape(*shape, *(1,) * (3 - len(shape)))
    wanted = aligned[..., 0] ** power * reference(
        np.float64(t), np.float64(s), np.float64(aligned)
    )
    loss = kind(temperature=temperature, reduction=None, **options)
    close(loss(t, s), wanted)
    close(twin(loss)(t, s), wanted)


@every_reference
def test_temperature_from_a_rule(kind, options, reference, power):
    t, s = pair(8, 3)
    rule = temperatures.FLSW(base_temperature=2.5, beta=0.5)
    tau = np.float64(ops.convert_to_numpy(rule(t, s)))[:, None]
    wanted = tau[:, 0] ** power * reference(np.float64(t), np.float64(s), tau)
    loss = kind(temperature=rule, reduction=None, **options)
    close(loss(t, s), wanted)
    close(twin(loss)(t, s), wanted)


@every
def test_temperature_is_assigned(kind, options):
    t, s = pair(4, 3)
    wanted = kind(temperature=2.0, **options)(t, s)
    loss = kind(temperature=3.0, **options)
    assert abs(float(loss(t, s)) - float(wanted)) > 1e-3
    loss.temperature = 2.0
    close(loss(t, s), wanted)
    variable = keras.Variable(3.0, trainable=False)
    loss.temperature = variable
    assert loss.temperature is variable
    assert loss.get_config()["temperature"] == 3.0
    variable.assign(2.0)
    close(loss(t, s), wanted)
    close(twin(loss)(t, s), wanted)
    assert loss.get_config()["temperature"] == 2.0


def test_a_variable_costs_no_retrace():
    if keras.backend.backend() != "tensorflow":
        pytest.skip("JAX passes variables to the step as state")
    t, s = pair(4, 3)
    traces = []
    variable = keras.Variable(3.0, trainable=False)
    loss = losses.ForwardKL(variable)

    def step(*logits):
        traces.append(1)
        return loss(*logits)

    step = compiled(step)
    for temperature in (3.0, 2.0, 1.0):
        variable.assign(temperature)
        close(step(t, s), losses.ForwardKL(temperature)(t, s))
    assert len(traces) == 1


@every
def test_minimum_when_equal(kind, options):
    t, s = pair(4, 3)
    loss = kind(temperature=1.0, **options)
    minimum = float(loss(t, t))
    if kind is losses.SoftCrossEntropy:
        p = log_softmax(np.float64(t), -1)
        close(minimum, -(np.exp(p) * p).sum(-1).mean())
    else:
        close(minimum, 0)
    assert float(loss(t, s)) > minimum + 1e-3
    close(gradients(lambda s: loss(t, s), t)[0], 0)


@pytest.mark.parametrize("name", [n for n in KINDS if "mse" not in n])
def test_ignores_a_constant_added_to_logits(name):
    kind, options = KINDS[name]
    t, s = pair(4, 3)
    loss = kind(**options)
    close(loss(t + 10, s - 5), loss(t, s), rtol=2e-4)


@every
def test_weight_zero_equals_leaving_the_row_out(kind, options):
    t, s = pair(4, 3)
    loss = kind(reduction="mean_with_sample_weight", **options)
    close(
        loss(t, s, sample_weight=np.array([1, 2, 0, 0])),
        loss(t[:2], s[:2], sample_weight=np.array([1, 2])),
    )


@every
def test_masked_token_counts_nothing(kind, options):
    t, s = pair(2, 5, 3)
    weight = np.array([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]])
    loss = kind(reduction="mean_with_sample_weight", **options)
    value = loss(t, s, sample_weight=weight)
    close(value, loss(t[weight > 0], s[weight > 0]))
    close(loss(t, s, sample_weight=0 * weight), 0)


@every
def test_no_gradient_reaches_the_teacher(kind, options):
    to_teacher, to_student = gradients(kind(**options), *pair(4, 3))
    np.testing.assert_array_equal(to_teacher, 0)
    assert np.any(to_student)
    assert np.all(np.isfinite(to_student))


@pytest.mark.parametrize(
    "kind", [losses.ForwardKL, losses.ReverseKL, losses.SoftCrossEntropy]
)
def test_gradient_tends_to_matching_centred_logits(kind):
    t, s = pair(4, 3)  # Hinton et al., 2015, eq. 4, T -> infinity.
    loss = kind(temperature=1e3, reduction="sum")
    centred = (s - s.mean(-1, keepdims=True)) - (t - t.mean(-1, keepdims=True))
    _, found = gradients(loss, t, s)
    close(found, centred / 3, atol=2e-3)


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_cross_entropy_has_the_gradient_of_the_kl(temperature):
    logits = pair(4, 3)
    close(
        gradients(losses.SoftCrossEntropy(temperature), *logits)[1],
        gradients(losses.ForwardKL(temperature), *logits)[1],
    )


NON_DEFAULT = {
    "forward_kl": losses.ForwardKL(3.0, False, name="a", reduction="sum"),
    "reverse_kl": losses.ReverseKL(3.0, False, name="b", reduction=None),
    "soft_cross_entropy": losses.SoftCrossEntropy(3.0, False, "c"),
    "jsd": losses.GeneralizedJSD(0.2, 3.0, True, "d", reduction="sum"),
    "logits_mse": losses.LogitsMSE(3.0, "e", reduction="sum"),
    "annealed_mse": losses.AnnealedMSE(5, 3.0, "f", reduction="sum"),
    "half": losses.ForwardKL(3.0, dtype="float16"),
    "cwsm": losses.ForwardKL(temperatures.CWSM(2.0, 5.0, 0.3)),
}


@pytest.mark.parametrize("loss", NON_DEFAULT.values(), ids=NON_DEFAULT)
def test_round_trip_keeps_the_value(loss):
    t, s = pair(4, 3)
    np.testing.assert_array_equal(twin(loss)(t, s), loss(t, s))
    assert twin(loss).get_config() == loss.get_config()
    assert twin(loss)(t, s).dtype == loss(t, s).dtype


@every
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(kind, options, dtype):
    t, s = (ops.cast(x, dtype) for x in pair(4, 3))
    exact = [ops.cast(x, "float32") for x in (t, s)]
    loss = kind(**options)
    close(loss(t, s), loss(*exact))
    close(loss(exact[0], s), loss(*exact))


@every
def test_compiles(kind, options):
    t, s = pair(4, 3)
    loss = kind(**options)
    close(compiled(loss)(t, s), loss(t, s))


def test_annealed_target():
    t, s = pair(4, 3)
    loss = losses.AnnealedMSE(4, reduction=None)
    close(loss(t, s), ((s - t / 4) ** 2).sum(-1))
    loss.temperature = keras.Variable(0.5, trainable=False)
    close(loss(t, s), ((s - t) ** 2).sum(-1))  # Phi never exceeds 1 ...
    loss.temperature = keras.Variable(9.0, trainable=False)
    close(loss(t, s), ((s - t / 4) ** 2).sum(-1))  # ... nor leaves (0, 1].


def test_defaults():
    assert losses.ForwardKL().temperature == 4
    assert losses.ReverseKL().temperature == 4
    assert losses.SoftCrossEntropy().temperature == 1
    assert losses.GeneralizedJSD().get_config().items() >= {
        ("beta", 0.5),
        ("temperature", 1.0),
        ("normalize", False),
    }
    assert losses.LogitsMSE().temperature == 1
    assert losses.AnnealedMSE().temperature == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.ForwardKL(0), "Received: temperature=0"),
        (lambda: losses.ForwardKL(float("nan")), "positive and finite"),
        (lambda: losses.ForwardKL(float("inf")), "Received: temperature=inf"),
        (lambda: losses.ForwardKL([1.0, -2.0]), r"temperature=\[ 1. -2.\]"),
        (lambda: losses.ForwardKL("auto"), "Received: temperature='auto'"),
        (lambda: losses.ForwardKL(np.float32(-1)), "temperature=-1.0"),
        (lambda: losses.LogitsMSE(None), "Received: temperature=None"),
        (lambda: losses.ReverseKL(4.0, 2), "Received: temperature_squared=2"),
        (lambda: losses.GeneralizedJSD(1.5), "Received: beta=1.5"),
        (lambda: losses.GeneralizedJSD(normalize="yes"), "normalize='yes'"),
        (lambda: losses.AnnealedMSE(0.5), "Received: max_temperature=0.5"),
        (lambda: losses.AnnealedMSE(7, 0.5), "1 and max_temperature=7. Rec"),
        (lambda: losses.AnnealedMSE(7, 8), "Received: temperature=8"),
        (
            lambda: setattr(losses.ForwardKL(), "temperature", -3),
            "Received: temperature=-3",
        ),
        (
            lambda: setattr(losses.AnnealedMSE(), "temperature", 0.9),
            "Received: temperature=0.9",
        ),
    ],
)
def test_message(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@every
def test_message_on_shapes(kind, options):
    with pytest.raises(ValueError, match=r"student_logits.shape=\(4, 2\)"):
        kind(**options)(np.zeros((4, 3)), np.zeros((4, 2)))
