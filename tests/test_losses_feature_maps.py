"""Losses between feature maps: float64 NumPy references, then laws."""

import keras
import numpy as np
import pytest
import tiny
from helpers import compiled
from helpers import gradients
from helpers import twin
from keras import ops

import keras_distill as kd
from keras_distill import losses

RNG = np.random.default_rng(0)
LOSSES = (losses.AttentionTransfer, losses.SimilarityPreserving)


def maps(rows=5, sizes=(4, 4), channels=(6, 3)):
    return [
        RNG.normal(size=(rows, n, n + 1, c)).astype("float32")
        for n, c in zip(sizes, channels)
    ]


def close(actual, wanted, rtol=1e-4, atol=3e-6):
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)


def attention_transfer(t, s):
    def attention(state):
        found = (np.float64(state) ** 2).sum(axis=-1).reshape(len(state), -1)
        return found / np.linalg.norm(found, axis=1, keepdims=True)

    return ((attention(t) - attention(s)) ** 2).sum(axis=1)


def similarity_preserving(t, s, rows=None):
    rows = range(len(t)) if rows is None else rows

    def alike(state):
        flat = np.float64(state).reshape(len(state), -1)[list(rows)]
        gram = flat @ flat.T
        return gram / np.linalg.norm(gram, axis=1, keepdims=True)

    count = len(list(rows))
    return ((alike(t) - alike(s)) ** 2).sum() / count**2


def test_attention_transfer_equals_reference():
    t, s = maps()
    wanted = attention_transfer(t, s)
    close(losses.AttentionTransfer(reduction=None)(t, s), wanted)
    close(losses.AttentionTransfer()(t, s), wanted.mean())
    weights = np.array([1.0, 0.0, 2.0, 1.0, 0.5], "float32")
    close(
        losses.AttentionTransfer()(t, s, sample_weight=weights),
        (weights * wanted).sum() / 5,
    )


def test_similarity_preserving_equals_reference():
    t, s = maps(sizes=(4, 2))
    close(losses.SimilarityPreserving()(t, s), similarity_preserving(t, s))
    flat = [x.reshape(5, -1) for x in (t, s)]
    close(losses.SimilarityPreserving()(*flat), similarity_preserving(t, s))


def test_rows_of_weight_zero_are_in_no_pair():
    t, s = maps(sizes=(4, 3))
    weights = np.array([1.0, 0.0, 1.0, 1.0, 0.0], "float32")
    loss = losses.SimilarityPreserving(reduction="sum")
    wanted = 3 * similarity_preserving(t, s, rows=(0, 2, 3))
    close(loss(t, s, sample_weight=weights), wanted)


def test_masked_tokens_are_in_no_similarity():
    t, s = (RNG.normal(size=(4, 5, n)).astype("float32") for n in (6, 3))
    mask = np.arange(5) < np.array([[5], [2], [3], [1]])
    hidden = [np.where(mask[..., None], x, 0.0) for x in (t, s)]
    wanted = similarity_preserving(*hidden)
    close(losses.SimilarityPreserving()(t, s, mask=mask), wanted)
    garbage = [np.where(mask[..., None], x, 1e6) for x in (t, s)]
    close(losses.SimilarityPreserving()(*garbage, mask=mask), wanted)
    none = np.where(np.arange(4)[:, None] == 1, False, mask)
    kept = similarity_preserving(*hidden, rows=(0, 2, 3))
    close(losses.SimilarityPreserving()(t, s, mask=none), kept)


@pytest.mark.parametrize(
    "loss", [kind() for kind in LOSSES], ids=lambda x: x.name
)
def test_laws(loss):
    t, s = maps()
    close(loss(t, t), 0.0)
    # Neither how strong a side is nor the order of its channels matters.
    close(loss(t, 7.0 * s), loss(t, s))
    close(loss(3.0 * t, s[..., ::-1]), loss(t, s))
    assert float(loss(t, s)) > 0
    zeros = np.zeros_like(s)
    assert np.isfinite(float(loss(t, zeros)))
    assert np.isfinite(gradients(loss, t, zeros)[1]).all()
    close(compiled(loss)(t, s), loss(t, s))
    close(twin(loss)(t, s), loss(t, s))


def test_attention_follows_places_and_similarity_rows():
    t, s = maps()
    attention, alike = losses.AttentionTransfer(), losses.SimilarityPreserving()
    both = [x[:, ::-1] for x in (t, s)]
    close(attention(*both), attention(t, s))
    assert abs(float(attention(t, s[:, ::-1])) - float(attention(t, s))) > 1e-4
    # Similar rows stay so whatever places do.
    close(alike(t, s[:, ::-1]), alike(t, s))
    rows = np.array([4, 0, 3, 1, 2])
    assert abs(float(alike(t, s[rows])) - float(alike(t, s))) > 1e-5
    close(alike(t[rows], s[rows]), alike(t, s))


def test_maps_of_other_sizes_are_resized():
    t, s = maps(sizes=(8, 4))
    t = t[:, :, :8]
    s = s[:, :, :4]
    resized = ops.image.resize(
        t, (4, 4), antialias=True, data_format="channels_last"
    )
    projected = np.concatenate([s, s], axis=-1)
    wanted = np.mean((np.asarray(resized) - projected) ** 2)
    close(losses.HiddenMSE(resize=True)(t, projected), wanted)
    # The law of antialiased halving: of equal pixels nothing changes.
    ones = np.repeat(np.repeat(projected, 2, axis=1), 2, axis=2)
    even = np.ones_like(ones) * ones.mean(axis=(1, 2), keepdims=True)
    small = np.ones_like(projected) * even[:, :1, :1]
    close(losses.HiddenMSE(resize=True)(even, small), 0.0)
    with pytest.raises(ValueError, match=r"HiddenMSE\(resize=True\)"):
        losses.HiddenMSE()(t, projected)
    activity = (np.float64(t) ** 2).sum(axis=-1, keepdims=True)
    brought = np.asarray(
        ops.image.resize(
            activity.astype("float32"),
            (4, 4),
            antialias=True,
            data_format="channels_last",
        )
    )
    wanted = attention_transfer(np.sqrt(brought), s).mean()
    close(losses.AttentionTransfer()(t, s), wanted)


def test_other_states_are_refused():
    t, s = maps()
    for wrong in (t[:, 0], t[:, 0, 0]):
        with pytest.raises(ValueError, match="A feature map must have"):
            losses.AttentionTransfer()(wrong, s)
        with pytest.raises(ValueError, match="A feature map must have"):
            losses.HiddenMSE(resize=True)(wrong, s)


def convolutional(kind, width, strides=1):
    """A model of images [8, 8, 3], functional, Sequential or subclassed."""
    layers = [
        keras.layers.Conv2D(width, 3, strides, "same", name="maps"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(tiny.CLASSES),
    ]
    if kind == "Sequential":
        return keras.Sequential([keras.Input((8, 8, 3)), *layers])
    if kind == "functional":
        x = inputs = keras.Input((8, 8, 3))
        for layer in layers:
            x = layer(x)
        return keras.Model(inputs, x)

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.held = layers

        def call(self, x):
            for layer in self.held:
                x = layer(x)
            return x

    model = Subclassed()
    model(np.zeros((1, 8, 8, 3), "float32"))
    return model


@pytest.mark.parametrize(
    "kind",
    [
        "functional",
        pytest.param("Sequential", marks=pytest.mark.large),
        pytest.param("subclassed", marks=pytest.mark.large),
    ],
)
@pytest.mark.parametrize(
    "loss",
    [losses.HiddenMSE(resize=True), *(kind() for kind in LOSSES)],
    ids=lambda loss: loss.name,
)
def test_they_train_in_any_kind_of_model(kind, loss):
    keras.utils.set_random_seed(0)
    teacher = convolutional(kind, 6)
    student = convolutional(kind, 3, strides=2)
    match = kd.Match("maps", "maps", loss)
    distiller = kd.Distiller(teacher, student, matches=[match])
    distiller.compile(
        "adam", loss=tiny.CROSS_ENTROPY, hard_weight=0.0, soft_weight=0.0
    )
    rng = np.random.default_rng(0)
    x = rng.normal(size=(16, 8, 8, 3)).astype("float32")
    y = np.arange(16) % tiny.CLASSES
    history = distiller.fit(x, y, batch_size=16, epochs=20, verbose=0).history
    assert history["loss"][-1] < 0.97 * history["loss"][0]
