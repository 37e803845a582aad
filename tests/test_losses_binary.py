"""The loss of labels on their own, against NumPy, then laws."""

import keras
import numpy as np
import pytest
from helpers import gradients
from helpers import twin

from keras_distill import divergences
from keras_distill import losses

RNG = np.random.default_rng(0)
SHAPES = [(3,), (4, 3), (2, 5, 7), (4, 1)]


def reference(t, s, temperature):
    p, q = (1 / (1 + np.exp(-np.float64(x) / temperature)) for x in (t, s))
    kl = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    return kl.mean(-1)


def pair(shape):
    return RNG.normal(size=(2, *shape)).astype("float32")


@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_equals_reference(shape, temperature):
    t, s = pair(shape)
    expected = reference(t, s, temperature)
    np.testing.assert_allclose(
        divergences.binary_kl(t, s, temperature),
        expected,
        rtol=1e-4,
        atol=1e-6,
    )
    loss = losses.BinaryKL(temperature, reduction=None)
    np.testing.assert_allclose(
        loss(t, s), temperature**2 * expected, rtol=1e-4, atol=1e-5
    )
    plain = losses.BinaryKL(
        temperature, temperature_squared=False, reduction=None
    )
    np.testing.assert_allclose(plain(t, s), expected, rtol=1e-4, atol=1e-6)


def test_zero_when_equal_and_never_below():
    t, s = pair((50, 3))
    np.testing.assert_allclose(divergences.binary_kl(t, t), 0, atol=1e-6)
    assert np.all(np.asarray(divergences.binary_kl(t, s)) > 0)


def test_large_logits_stay_finite():
    t, s = np.array([[300.0, -300.0]]), np.array([[-300.0, 300.0]])
    np.testing.assert_allclose(divergences.binary_kl(t, s), [300], rtol=1e-5)
    to_teacher, to_student = gradients(losses.BinaryKL(), t, s)
    assert not to_teacher.any()
    np.testing.assert_allclose(to_student, [[-0.5, 0.5]], rtol=1e-5)


def test_gradient_is_the_difference_of_probabilities():
    t, s = pair((4, 3))
    loss = losses.BinaryKL(reduction="sum")
    to_teacher, to_student = gradients(loss, t, s)
    p, q = (1 / (1 + np.exp(-x)) for x in (t, s))
    np.testing.assert_allclose(to_student, (q - p) / 3, rtol=1e-4, atol=1e-6)
    assert not to_teacher.any()


def test_a_temperature_for_each_row_and_weights():
    t, s = pair((4, 3))
    temperature = np.array([1.0, 2.0, 3.0, 4.0])
    loss = losses.BinaryKL(temperature, reduction="mean_with_sample_weight")
    expected = [
        temperature[i] ** 2 * reference(t[i], s[i], temperature[i])
        for i in range(4)
    ]
    np.testing.assert_allclose(
        loss(t, s, sample_weight=np.array([1, 0, 2, 0])),
        (expected[0] + 2 * expected[2]) / 3,
        rtol=1e-4,
    )


def test_half_precision_is_computed_in_float32():
    t, s = pair((4, 3))
    got = divergences.binary_kl(
        keras.ops.cast(t, "float16"), keras.ops.cast(s, "float16")
    )
    assert keras.backend.standardize_dtype(got.dtype) == "float32"


def test_round_trip_and_message():
    t, s = pair((4, 3))
    loss = losses.BinaryKL(3.0, temperature_squared=False, name="mine")
    np.testing.assert_array_equal(twin(loss)(t, s), loss(t, s))
    assert twin(loss).get_config() == loss.get_config()
    with pytest.raises(ValueError, match=r"student_logits.shape=\(4, 2\)"):
        divergences.binary_kl(t, s[:, :2])
    with pytest.raises(ValueError, match="Received: temperature=0"):
        losses.BinaryKL(0)
