"""Which layers of a transformer are worth least."""

import keras
import keras_hub
import numpy as np
import pytest

from keras_distill import pruning
from keras_distill import students
from keras_distill import taps

WITHOUT = 2  # The layer that does nothing, counted from 1.


@pytest.fixture(scope="module")
def model():
    """An encoder whose second layer hands on what it reads."""
    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.BertBackbone(50, 4, 2, 16, 32)
    for weight in backbone.weights:
        weight.assign(0.3 * np.random.default_rng(1).normal(size=weight.shape))
    for layer in keras.tree.flatten(
        [backbone.embeddings_layer_norm, *norms(backbone)]
    ):
        layer.gamma.assign(np.ones(16))
        layer.beta.assign(np.zeros(16))
    idle = backbone.transformer_layers[WITHOUT - 1]
    for weight in idle.trainable_variables:
        if "norm" not in weight.path:
            weight.assign(np.zeros(weight.shape))
    return backbone


def norms(backbone):
    return [
        part
        for layer in backbone.transformer_layers
        for part in layer._flatten_layers()
        if isinstance(part, keras.layers.LayerNormalization)
    ]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 8, 37)
    mask = (np.arange(8) < lengths[:, None]).astype("int32")
    x = {
        "token_ids": rng.integers(1, 50, mask.shape) * mask,
        "segment_ids": np.zeros_like(mask),
        "padding_mask": mask,
    }
    return x, np.zeros(len(mask))


def reference(model, x):
    """The mean over tokens, one token after the other, in float64."""
    states = taps.hidden_states(model)
    outputs = keras.Model(
        model.input,
        [model.get_layer(tap.path).output for tap in states],
    )
    values = [np.asarray(v, "float64") for v in outputs(x)]
    found = []
    for before, after in zip(values, values[1:]):
        changes = []
        for row, token in np.argwhere(x["padding_mask"]):
            a, b = before[row, token], after[row, token]
            changes.append(1 - a @ b / np.sqrt((a @ a) * (b @ b)))
        found.append(np.mean(changes))
    return found


def test_the_mean_over_tokens(model, data):
    x, _ = data
    found = pruning.block_influence(model, data)
    np.testing.assert_allclose(found, reference(model, x), atol=1e-6)


def test_batches_are_added_up(model, data):
    x, y = data
    batches = [
        ({name: array[rows] for name, array in x.items()}, y[rows])
        for rows in (slice(0, 5), slice(5, None))
    ]
    np.testing.assert_allclose(
        pruning.block_influence(model, batches),
        pruning.block_influence(model, data),
        atol=1e-6,
    )


def test_padding_is_left_out(model, data):
    x, y = data
    longer = {
        name: np.pad(array, ((0, 0), (0, 5))) for name, array in x.items()
    }
    np.testing.assert_allclose(
        pruning.block_influence(model, (longer, y)),
        pruning.block_influence(model, data),
        atol=1e-5,
    )


def test_a_layer_that_does_nothing_goes_first(model, data):
    x, _ = data
    influence = pruning.block_influence(model, data)
    assert influence[WITHOUT - 1] < 1e-5
    assert all(np.delete(influence, WITHOUT - 1) > 1e-3)
    layers = pruning.layer_map(influence, 3)
    assert layers == [(1, 1), (3, 2), (4, 3)]
    smaller = students.shrink(model, num_layers=3, layer_map=layers)
    for name, expected in model(x).items():
        kept = np.asarray(x["padding_mask"], bool)
        found = np.asarray(smaller(x)[name])
        expected = np.asarray(expected)
        if name == "sequence_output":
            found, expected = found[kept], expected[kept]
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_messages(model, data):
    x, _ = data
    with pytest.raises(ValueError, match="holds no KerasHub backbone|backbone"):
        pruning.block_influence(keras.Sequential([keras.Input((3,))]), data)
    with pytest.raises(ValueError, match="needs `data`"):
        pruning.block_influence(model, None)
    empty = {**x, "padding_mask": np.zeros_like(x["padding_mask"])}
    with pytest.raises(ValueError, match="Received: 0 tokens"):
        pruning.block_influence(model, (empty, data[1]))
    with pytest.raises(ValueError, match="num_layers"):
        pruning.layer_map([0.1, 0.2], 3)
