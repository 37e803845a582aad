"""Ensembles against NumPy, and what a model is called with."""

import keras
import numpy as np
import pytest
import tiny
from scipy.special import log_softmax
from scipy.special import softmax

from keras_distill import inputs
from keras_distill import teachers
from keras_distill._backend import symbolic_inputs

RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(3, 5, 4)).astype("float32")


def constant(value):
    return lambda inputs, training: value


@pytest.mark.parametrize("weights", [None, [1, 1, 1], [1, 0, 3], [0, 0, 2.5]])
def test_average_of_probabilities(weights):
    shares = np.array(weights or [1, 1, 1]) / sum(weights or [1, 1, 1])
    ensemble = teachers.Ensemble([constant(v) for v in LOGITS], weights)
    expected = np.einsum("k,kbc->bc", shares, softmax(LOGITS, -1))
    np.testing.assert_allclose(softmax(ensemble(None), -1), expected, rtol=1e-5)
    np.testing.assert_allclose(np.exp(ensemble(None)), expected, rtol=1e-5)


@pytest.mark.parametrize("weights", [None, [1, 0, 3]])
def test_average_of_logits(weights):
    shares = np.array(weights or [1, 1, 1]) / sum(weights or [1, 1, 1])
    ensemble = teachers.Ensemble(
        [constant(v) for v in LOGITS], weights, average="logits"
    )
    expected = np.einsum("k,kbc->bc", shares, LOGITS)
    np.testing.assert_allclose(ensemble(None), expected, rtol=1e-5, atol=1e-6)


def test_each_output_is_averaged_on_its_own():
    ensemble = teachers.Ensemble(
        [constant({"a": v, "b": v[:, :2]}) for v in LOGITS[:2]]
    )
    got = ensemble(None)
    assert {name: value.shape for name, value in got.items()} == {
        "a": (5, 4),
        "b": (5, 2),
    }
    np.testing.assert_allclose(
        np.exp(got["b"]), softmax(LOGITS[:2, :, :2], -1).mean(0), rtol=1e-5
    )


def test_one_teacher_is_itself():
    got = teachers.Ensemble([constant(LOGITS[0])])(None)
    np.testing.assert_allclose(got, log_softmax(LOGITS[0], -1), rtol=1e-5)


def test_large_logits_stay_finite():
    big = np.array([[1e4, 0.0]], "float32")
    got = teachers.Ensemble([constant(big), constant(-big)])(None)
    np.testing.assert_allclose(got, np.log([[0.5, 0.5]]), rtol=1e-5)


def test_half_precision_outputs_are_averaged_in_float32():
    ensemble = teachers.Ensemble(
        [constant(keras.ops.cast(v, "float16")) for v in LOGITS[:2]]
    )
    assert keras.backend.standardize_dtype(ensemble(None).dtype) == "float32"


def test_variables_are_listed_once():
    model = tiny.mlp()
    twice = teachers.Teacher(teachers.Ensemble([model, model]))
    assert len(twice.variables) == len(model.variables)
    assert teachers.Teacher(None).variables == []


def test_a_functional_model_gets_the_entries_it_has_names_for():
    named = {name: keras.Input((2,), name=name) for name in ("a", "b")}
    model = keras.Model(named, keras.layers.Add()(list(named.values())))
    x = {name: np.full((1, 2), i) for i, name in enumerate("abc", start=1)}
    np.testing.assert_array_equal(inputs.call_model(model, x), [[3, 3]])
    with pytest.raises(ValueError, match=r"missing: \['b'\]"):
        inputs.call_model(model, {"a": x["a"]})


def test_training_reaches_the_models_that_take_it():
    model = tiny.mlp(dropout=0.5)
    x, _ = tiny.data()
    off = inputs.call_model(model, x)
    np.testing.assert_array_equal(off, inputs.call_model(model, x))
    assert not np.array_equal(off, inputs.call_model(model, x, True))
    plain = tiny.subclassed()
    np.testing.assert_array_equal(inputs.call_model(plain, x, True), plain(x))


def test_symbolic_inputs_of_models_that_have_none():
    assert symbolic_inputs(tiny.Subclassed()) is None
    assert symbolic_inputs(tiny.subclassed()) is None
    assert symbolic_inputs(keras.Sequential()) is None
    assert symbolic_inputs(tiny.mlp()).shape == (None, tiny.FEATURES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"models": []}, "at least one teacher"),
        ({"weights": [1]}, "each of the 2 teachers"),
        ({"weights": [0, 0]}, "must not all be 0"),
        ({"weights": [1, -1]}, "at least 0. Received: weights=-1"),
        ({"average": "mean"}, "Received: average='mean'"),
    ],
)
def test_messages(arguments, message):
    options = {"models": [constant(v) for v in LOGITS[:2]]} | arguments
    with pytest.raises(ValueError, match=message):
        teachers.Ensemble(**options)


def test_a_teacher_is_a_model():
    with pytest.raises(ValueError, match="must be a `keras.Model`"):
        teachers.Teacher(teachers.Ensemble([constant(LOGITS[0])]))
