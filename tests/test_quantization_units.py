"""Outputs that only floats read: ranges of units, or no integers."""

import keras
import numpy as np
import pytest
from keras import layers
from keras import ops
from tiny import bert

from keras_distill.quantization import QuantizationAware

ROWS = np.random.default_rng(0).normal(size=(256, 6, 8)).astype("float32")
LOUD = 100.0
UNITS, PLAIN = ("input", "units"), ("input", "output")


def model_of(dense, *after):
    """`after` reads what `dense` gives; a rescaling is done in floats."""
    x = inputs = keras.Input((6, 8), name="rows")
    for layer in (dense, *after):
        x = layer(x)
    return keras.Model(inputs, x)


def einsum(equation="abc,cde->abde", shape=(None, 2, 2), bias_axes="de"):
    return layers.EinsumDense(equation, shape, bias_axes=bias_axes)


@pytest.mark.parametrize(
    "make",
    [
        lambda: layers.Dense(4),
        lambda: layers.Dense(4, use_bias=False, activation="relu"),
        einsum,
    ],
)
def test_each_unit_has_a_grid(make):
    layer = make()
    model = model_of(layer, layers.Rescaling(1.0))
    kernel = np.array(layer.kernel)
    kernel[..., 0] *= LOUD
    layer.kernel.assign(kernel)
    if layer.bias is not None:
        layer.bias.assign(np.full(layer.bias.shape, 0.3))
    aware = QuantizationAware(model, activations="int8")
    assert aware.places[layer] == UNITS
    before = np.asarray(aware(ROWS))  # No ranges are known yet.
    np.testing.assert_allclose(
        before, np.asarray(QuantizationAware(model)(ROWS)), rtol=1e-5, atol=1e-4
    )
    aware(ROWS, training=True)
    found = np.asarray(aware(ROWS)).reshape(-1, 4)
    x = ROWS.reshape(-1, 8).astype("float64")
    step = np.ptp(x) / 255
    zero = np.rint(-x.min() / step)
    x = (np.clip(np.floor(x / step + zero + 0.5), 0, 255) - zero) * step
    kernel = kernel.reshape(8, 4).astype("float64")
    scale = np.abs(kernel).max(axis=0) / 127
    y = x @ (np.rint(kernel / scale) * scale)
    if layer.bias is not None:
        y += 0.3
    if layer.activation is keras.activations.relu:
        y = np.maximum(y, 0)
    step = np.abs(y).max(axis=0) * 2 / 255
    expected = np.clip(np.floor(y / step + 0.5), -128, 127) * step
    # A value at the edge of a step may go either way in float32.
    off = np.abs(found - expected) / step
    assert np.mean(off > 0.05) < 0.02
    assert off.max() < 1.1


@pytest.mark.parametrize("places", [PLAIN, UNITS])
def test_biases_are_in_steps_of_inputs_times_weights(places):
    inputs = keras.Input((2,))
    dense = layers.Dense(2)
    x = dense(inputs)
    if places == UNITS:
        x = layers.Rescaling(1.0)(x)
    kernel, bias = np.array([[1.0, 0.5], [0.0, 0.0]]), np.array([0.1, -0.3])
    aware = QuantizationAware(keras.Model(inputs, x), activations="int8")
    assert aware.places[dense] == places
    dense.set_weights([kernel, bias])
    # One input is large, and has no weight: then the steps are, too.
    aware(np.array([[0.0, 100.0]], "float32"), training=True)
    step = 100 / 255 * kernel[0] / 127
    expected = np.rint(bias / step) * step
    assert np.abs(expected - bias).max() > 1e-3
    low, high = aware.ranges(dense, places[1])
    found = [high, low] if places == PLAIN else high * np.sign(bias)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


class Centred(layers.Layer):
    """Reads its inputs in floats, and in integers."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(3)

    def call(self, x):
        return self.dense(x) * ops.mean(x, axis=-1, keepdims=True)


def dropout():
    return layers.Dropout(0.1)


@pytest.mark.parametrize(
    ("after", "places"),
    [
        ([layers.LayerNormalization], UNITS),
        ([dropout, layers.LayerNormalization], UNITS),
        ([layers.Flatten, layers.LayerNormalization], UNITS),
        ([layers.GlobalMaxPooling1D, layers.LayerNormalization], UNITS),
        ([layers.GlobalAveragePooling1D, layers.LayerNormalization], UNITS),
        ([lambda: layers.Dense(2)], PLAIN),
        ([dropout, lambda: layers.Dense(2)], PLAIN),
        ([layers.Flatten, lambda: layers.Dense(2)], PLAIN),
        ([layers.GlobalAveragePooling1D, lambda: layers.Dense(2)], PLAIN),
        ([Centred], PLAIN),
        ([layers.Flatten], PLAIN),  # The caller reads it.
        ([layers.GlobalAveragePooling1D], PLAIN),
        ([], PLAIN),
        ([layers.ReLU, layers.LayerNormalization], ("input",)),
    ],
)
def test_where(after, places):
    dense = layers.Dense(4)
    model = model_of(dense, *(make() for make in after))
    aware = QuantizationAware(model, activations="int8")
    assert aware.places[dense] == places


def block(reader):
    """Two denses, added: a residual stream, which `reader` reads."""
    inputs = keras.Input((6, 8), name="rows")
    x = layers.Dense(8)(inputs)
    added = layers.Add()
    x = added([x, layers.Dense(8, activation="gelu")(x)])
    model = keras.Model(inputs, layers.Rescaling(1.0)(reader(x)))
    aware = QuantizationAware(model, activations="int8")
    found = [layer for layer in model.layers if isinstance(layer, layers.Dense)]
    return [aware.places.get(layer) for layer in (*found[:2], added)]


def test_what_is_added_is_not_rounded_for_floats():
    gelu = ("input", "inner")
    # The first dense layer is read by the second, too.
    assert block(layers.LayerNormalization()) == [PLAIN, gelu, None]
    gelu = (*gelu, "output")
    assert block(layers.Dense(8)) == [PLAIN, gelu, ("output",)]


def test_a_sum_that_is_done_with_a_relu_still_reads_integers():
    inputs = keras.Input((6, 8))
    dense, added = layers.Dense(8), layers.Add()
    x = layers.ReLU()(added([dense(inputs), layers.Dense(8)(inputs)]))
    x = layers.Dense(4)(layers.LayerNormalization()(layers.Dense(8)(x)))
    model = keras.Model(inputs, x)
    places = QuantizationAware(model, activations="int8").places
    assert places[added] == ()
    assert places[dense] == PLAIN


def test_kernels_with_units_elsewhere_have_one_range():
    for layer, places in (
        (einsum("abc,dc->abd", (None, 4), "d"), PLAIN),
        (einsum("abc,cd->adb", (4, None), None), PLAIN),
        (layers.Dense(4, activation="gelu"), ("input", "inner")),
        # Its kernel gives integers, whatever it is told.
        (layers.Dense(4, activation="tanh"), ("input", "inner", "output")),
    ):
        model = model_of(layer, layers.Rescaling(1.0))
        aware = QuantizationAware(model, activations="int8")
        assert aware.places[layer] == places


def test_a_layer_that_is_shared_by_both():
    dense, rescaling = layers.Dense(8), layers.Rescaling(1.0)
    model = model_of(dense, dense, rescaling)
    aware = QuantizationAware(model, activations="int8")
    assert aware.places[dense] == PLAIN


def test_blocks_of_transformers():
    model = bert()
    aware = QuantizationAware(model, activations="int8")
    found = {layer.name for layer in aware.places}
    units = {x.name for x, places in aware.places.items() if "units" in places}
    assert units == {
        *("query", "key", "attention_output", "feedforward_output_dense"),
    }
    assert {"value", "feedforward_intermediate_dense"} <= found - units


def test_all_ranges_are_loaded_where_they_were(tmp_path):
    model = bert()
    aware = QuantizationAware(model, activations="int8")
    rng = np.random.default_rng(0)
    shape = (4, 8)
    inputs = {
        "token_ids": rng.integers(1, 20, shape),
        "segment_ids": np.zeros(shape, "int32"),
        "padding_mask": np.ones(shape, "int32"),
    }
    aware(inputs, training=True)
    aware.save_weights(tmp_path / "aware.weights.h5")
    again = QuantizationAware(bert(), activations="int8")
    again.load_weights(tmp_path / "aware.weights.h5")
    assert list(again.places.values()) == list(aware.places.values())
    expected = np.asarray(aware(inputs))
    np.testing.assert_allclose(np.asarray(again(inputs)), expected, atol=1e-5)


def test_ranges_of_units_follow_the_batches_and_are_saved(tmp_path):
    dense = layers.Dense(4)
    model = model_of(dense, layers.LayerNormalization(), layers.Flatten())
    aware = QuantizationAware(model, activations="int8")
    aware(ROWS, training=True)
    low, high = aware.ranges(dense, "units")
    np.testing.assert_allclose(low, -high)
    whole = np.asarray(ROWS @ dense.kernel)
    np.testing.assert_allclose(high, np.abs(whole).max((0, 1)), rtol=0.05)
    aware(2 * ROWS, training=True)
    moved = aware.ranges(dense, "units")[1]
    assert (moved > high).all()
    assert (moved < 1.011 * high).all()
    aware(ROWS)
    np.testing.assert_array_equal(aware.ranges(dense, "units")[1], moved)
    aware.save(tmp_path / "aware.keras")
    again = keras.models.load_model(tmp_path / "aware.keras")
    expected = np.asarray(aware(ROWS))
    np.testing.assert_allclose(np.asarray(again(ROWS)), expected, atol=1e-6)
