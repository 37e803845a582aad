"""Students under the rounding of their files."""

import keras
import numpy as np
import pytest
from helpers import gradients
from keras import layers
from keras import ops
from tiny import bert

import keras_distill as kd
from keras_distill.quantization import QuantizationAware
from keras_distill.quantization import rounding
from keras_distill.quantization.kernels import kernels
from keras_distill.recording import wrap_calls

RNG = np.random.default_rng(0)


def reference(weights, bits, axes, rows=1):
    """Symmetric rounding by its definition, in float64."""
    weights = weights.astype("float64")
    if rows > 1:
        groups = [weights[i : i + rows] for i in range(0, len(weights), rows)]
        return np.concatenate([reference(g, bits, (0, 1)) for g in groups])
    top = 2 ** (bits - 1) - 1
    step = np.abs(weights).max(axis=axes, keepdims=True) / top
    integers = np.clip(np.rint(weights / step), -top, top)
    return integers * step


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize(
    ("axes", "rows"), [((0,), 1), ((1,), 1), ((0, 1), 1), ((1,), 4), ((1,), 9)]
)
@pytest.mark.parametrize("xp", [np, ops])
def test_weights_on_a_grid(bits, axes, rows, xp):
    # Its own numbers: float32 may put one that is halfway on the other side.
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(48, 10)).astype("float32")
    found = np.asarray(rounding.rounded(weights, bits, axes, rows, xp))
    expected = reference(weights, bits, axes, rows)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    again = np.asarray(rounding.rounded(found, bits, axes, rows, xp))
    np.testing.assert_allclose(again, found, rtol=1e-6, atol=1e-7)


def test_channels_of_zeros():
    weights = np.zeros((4, 2), "float32")
    np.testing.assert_array_equal(rounding.rounded(weights, 4, (0,)), weights)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 3.0), (0.0, 2.0), (-2.0, 0)])
def test_activations_on_a_grid(low, high):
    x = np.linspace(-4, 4, 1001).astype("float32")
    step = (high - low) / 255
    zero = np.rint(-low / step)
    integers = np.clip(np.floor(x / step + zero + 0.5), 0, 255)
    found = np.asarray(rounding.fake_quantize(x, low, high))
    # A value in the middle of two steps may go either way in float32.
    off = np.abs(found - (integers - zero) * step)
    assert np.mean(off > 1e-5) < 0.01
    assert off.max() < 1.01 * step
    assert len(np.unique(found)) <= 256
    assert 0.0 in found


def test_gradients_pass_straight_through():
    x = RNG.normal(size=(6, 3)).astype("float32")
    (found,) = gradients(
        lambda v: 2.0 * ops.sum(rounding.round_through(v, 4, (0,))), x
    )
    np.testing.assert_allclose(found, np.full_like(x, 2.0), atol=1e-6)
    x = np.array([-3.0, -0.5, 0.3, 0.9, 5.0], "float32")
    (found,) = gradients(
        lambda v: ops.sum(rounding.fake_quantize(v, -1.0, 1.0)), x
    )
    np.testing.assert_allclose(found, [0, 1, 1, 1, 0], atol=1e-6)


def convolutional():
    x = inputs = keras.Input((8, 8, 3), name="image")
    x = layers.Conv2D(8, 3, padding="same", use_bias=False)(x)
    x = y = layers.ReLU()(layers.BatchNormalization()(x))
    y = layers.DepthwiseConv2D(3, padding="same")(y)
    y = layers.BatchNormalization()(y)
    x = layers.ReLU()(layers.Add()([x, y]))
    x = layers.AveragePooling2D(2)(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(16, activation="gelu")(x)
    return keras.Model(inputs, layers.Dense(4)(x))


def sequential():
    return keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(6, 3, strides=2, activation="relu"),
            layers.Flatten(),
            layers.Dense(4),
        ]
    )


@keras.saving.register_keras_serializable()
class Subclassed(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.flatten = layers.Flatten()
        self.normalise = layers.LayerNormalization()
        self.hidden = layers.Dense(12, activation="tanh")
        self.head = layers.Dense(4)

    def call(self, x, training=None):
        x = self.normalise(self.flatten(x), training=training)
        return self.head(self.hidden(x))


def subclassed():
    model = Subclassed()
    model(np.zeros((1, 8, 8, 3), "float32"))
    return model


def nested():
    inputs = keras.Input((8, 8, 3))
    return keras.Model(inputs, layers.Dense(4)(convolutional()(inputs)))


MODELS = [convolutional, sequential, subclassed, nested]
IMAGES = RNG.normal(size=(64, 8, 8, 3)).astype("float32")
LABELS = RNG.integers(0, 4, 64)


def predict(model, x=IMAGES):
    return np.asarray(model(x, training=False))


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("bits", ["int8", "int4"])
def test_it_computes_with_rounded_weights(make, bits):
    student = make()
    before = [np.asarray(v) for v in student.variables]
    aware = QuantizationAware(student, weights=bits)
    found = predict(aware)
    for old, variable in zip(before, student.variables, strict=True):
        np.testing.assert_array_equal(old, np.asarray(variable))
    whole = predict(student)
    assert np.abs(found - whole).max() > 1e-5  # It is not the student itself.
    finished = predict(aware.finish())
    np.testing.assert_allclose(found, finished, atol=1e-5)
    np.testing.assert_allclose(predict(aware), finished, atol=1e-5)


def test_each_unit_has_a_scale():
    top = {"int4": 15, "int8": 255}
    student = keras.Sequential([keras.Input((16,), dtype="int32")])
    student.add(layers.Embedding(64, 256))
    student.add(layers.EinsumDense("abc,cde->abde", (16, 4, 300)))
    student.add(layers.Reshape((16, 1200)))
    student.add(layers.Conv1D(5, 3))
    student.add(layers.GRU(7))
    for bits, most in top.items():
        for kernel in kernels(student):
            kernel.variable.assign(RNG.normal(size=kernel.variable.shape))
        QuantizationAware(student, bits).finish()
        table, einsum, conv, gru = student.layers[:2] + student.layers[3:]
        units = [
            *np.asarray(table.embeddings),
            *np.asarray(einsum.kernel).reshape(256, -1).T,
            *np.asarray(conv.kernel).reshape(-1, 5).T,
            *np.asarray(gru.cell.kernel).T,
            *np.asarray(gru.cell.recurrent_kernel).T,
        ]
        steps = [np.abs(unit).max() / (most // 2) for unit in units]
        for unit, step in zip(units, steps):
            integers = unit / step
            np.testing.assert_allclose(integers, np.rint(integers), atol=1e-3)
        assert len(set(np.round(steps, 7))) > 0.9 * len(steps)


def distil(student, **options):
    distiller = kd.Distiller(teacher=sequential(), student=student)
    distiller.compile(
        keras.optimizers.SGD(0.05),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **options,
    )
    history = distiller.fit(
        IMAGES, LABELS, epochs=3, shuffle=False, batch_size=16, verbose=0
    )
    return history.history["loss"]


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize(
    ("weights", "activations"), [("int4", None), ("int8", "int8")]
)
def test_a_distiller_teaches_it(make, weights, activations):
    student = make()
    before = [np.asarray(v) for v in student.trainable_variables]
    loss = distil(QuantizationAware(student, weights, activations))
    assert loss[-1] < loss[0]
    assert all(
        np.abs(old - np.asarray(new)).max() > 0
        for old, new in zip(before, student.trainable_variables, strict=True)
    )


@pytest.mark.large
def test_layers_inside_are_matched():
    """Taps find the student's layers, compiled by XLA, too."""
    teacher, student = bert(), bert()
    aware = QuantizationAware(student, "int4")
    match = kd.Match(
        kd.hidden_states(teacher)[1],
        kd.hidden_states(aware)[1],
        kd.losses.HiddenMSE(),
    )
    distiller = kd.Distiller(teacher=teacher, student=aware, matches=[match])
    distiller.compile(
        "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True,
    )
    ids, labels = RNG.integers(5, 20, (16, 6)), RNG.integers(0, 3, 16)
    rows = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    rows["segment_ids"] = np.zeros_like(ids)
    losses = distiller.fit(rows, labels, epochs=4, verbose=0).history
    (matched,) = (losses[name] for name in losses if "hidden_mse" in name)
    assert matched[-1] < matched[0]


def test_what_layers_keep_is_kept():
    """The means of normalisations are those of a plain student's training."""
    student, plain = convolutional(), convolutional()
    plain.set_weights(student.get_weights())
    QuantizationAware(plain, "int4").finish()
    aware = QuantizationAware(student, "int4")
    for model in (plain, aware):
        model.compile(
            keras.optimizers.SGD(0.0),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        )
        model.fit(IMAGES, LABELS, batch_size=16, shuffle=False, verbose=0)
    for old, new in zip(
        plain.non_trainable_variables, student.non_trainable_variables
    ):
        np.testing.assert_allclose(np.asarray(old), np.asarray(new), atol=1e-5)
    assert np.abs(np.asarray(student.layers[2].moving_mean)).max() > 0


def test_where_activations_are_rounded():
    student = convolutional()
    aware = QuantizationAware(student, activations="int8")
    names = [type(layer).__name__ for layer in student.layers]
    places = dict.fromkeys(names)
    for layer, found in aware.places.items():
        places[type(layer).__name__] = found
    assert places["Conv2D"] == places["DepthwiseConv2D"] == ("input",)
    assert places["ReLU"] == ("output",)
    assert places["Add"] == ()  # ReLU is done with it.
    assert places["AveragePooling2D"] == ("same",)
    found = aware.places[student.layers[-2]], aware.places[student.layers[-1]]
    assert found == (("input", "inner", "output"), ("input", "output"))


def test_ranges_follow_the_batches():
    aware = QuantizationAware(sequential(), activations="int8")
    whole = predict(QuantizationAware(aware.student))
    np.testing.assert_allclose(predict(aware), whole, atol=1e-6)  # None yet.
    aware(IMAGES[:32], training=True)
    low, high = aware.ranges(aware.student.layers[0], "input")
    assert np.isclose(low, IMAGES[:32].min())
    assert np.isclose(high, IMAGES[:32].max())
    aware(2 * IMAGES[:32], training=True)
    _, moved = aware.ranges(aware.student.layers[0], "input")
    assert np.isclose(moved, 1.01 * high)
    assert np.abs(predict(aware) - whole).max() > 1e-4
    assert aware.ranges(aware.student.layers[0], "input")[1] == moved


def test_a_range_is_that_of_its_own_layer():
    """A pooling is rounded with the range of its input, and leaves it."""
    student = convolutional()
    relu, pool = (
        next(x for x in reversed(student.layers) if isinstance(x, kind))
        for kind in (layers.ReLU, layers.AveragePooling2D)
    )
    aware = QuantizationAware(student, activations="int8")
    seen = {}

    def keep(layer, call, x, *args, **kwargs):
        seen[layer] = np.asarray(x)
        return call(x, *args, **kwargs)

    with wrap_calls([pool], keep):
        aware(IMAGES[:8], training=True)
    low, high = aware.ranges(relu, "output")
    assert low == 0
    assert np.isclose(high, seen[pool].max(), rtol=1e-2)
    before = aware.ranges(relu, "output")
    predict(aware, IMAGES[8:])
    assert aware.ranges(relu, "output") == before
    aware(IMAGES[:8], training=True)
    moved = aware.ranges(relu, "output")[1]
    assert abs(moved - high) < 1e-3 * high  # The same images, the same range.


@pytest.mark.parametrize("activations", [None, "int8"])
def test_saved_and_loaded(tmp_path, activations):
    aware = QuantizationAware(convolutional(), activations=activations)
    distil(aware)
    aware.save(tmp_path / "aware.keras")
    again = keras.models.load_model(tmp_path / "aware.keras")
    np.testing.assert_allclose(predict(again), predict(aware), atol=1e-6)
    assert again.quantization == aware.quantization


def dense():
    return keras.Sequential([keras.Input((4,)), layers.Dense(2)])


def recurrent():
    return keras.Sequential([keras.Input((5, 3)), layers.LSTM(4)])


def separable():
    return keras.Sequential([keras.Input((5, 3)), layers.SeparableConv1D(4, 3)])


def quantised():
    model = dense()
    model.layers[0].quantize("int8")
    return model


@pytest.mark.parametrize(
    ("student", "options", "message"),
    [
        (lambda: "student", {}, "must be a built `keras.Model`"),
        (lambda: keras.Sequential([layers.Dense(2)]), {}, "must be a built"),
        (dense, {"weights": "int2"}, "one of"),
        (dense, {"activations": "int4"}, "one of"),
        (
            dense,
            {"weights": "int4", "activations": "int8"},
            "goes with `weights='int8'`",
        ),
        (recurrent, {"activations": "int8"}, "recurrent layers"),
        (separable, {"activations": "int8"}, "separable convolutions"),
        (quantised, {}, "plain weights"),
        (lambda: QuantizationAware(dense()), {}, "under rounding already"),
        (
            lambda: keras.Sequential([keras.Input((4,)), layers.ReLU()]),
            {},
            "must have a Dense",
        ),
    ],
)
def test_message(student, options, message):
    student = student()
    with pytest.raises(ValueError, match=message):
        QuantizationAware(student, **options)
