"""Matrices as products: the nearest of their rank, exact at the full one."""

import keras
import keras_hub
import numpy as np
import pytest
from keras import layers

from keras_distill import pruning
from keras_distill import students


def functional():
    """A table, a layer that is called twice, a model inside."""
    ids = keras.Input((6,), dtype="int32")
    x = layers.Embedding(20, 8, mask_zero=True, name="table")(ids)
    shared = layers.Dense(8, activation="tanh", name="shared")
    inside = keras.Sequential(
        [keras.Input((8,)), layers.Dense(5, name="deep")], name="inside"
    )
    x = shared(shared(x))
    x = inside(layers.GlobalAveragePooling1D()(x))
    return keras.Model(ids, layers.Dense(3, name="logits")(x))


def sequential():
    return keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            layers.Embedding(20, 8, name="table"),
            layers.LSTM(4),
            layers.Dense(3, use_bias=False, name="logits"),
        ]
    )


def task():
    backbone = keras_hub.models.BertBackbone(20, 1, 2, 8, 16, dropout=0.0)
    return students.mean_pooled_classifier(backbone, 3, dropout=0.0)


def rows(model):
    ids = np.random.default_rng(0).integers(0, 20, (4, 6)).astype("int32")
    named = {
        "token_ids": ids,
        "padding_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
    }
    return named if len(model.inputs) > 1 else ids


def outputs(model):
    found = model(rows(model), training=False)
    return keras.ops.convert_to_numpy(found)


@pytest.mark.parametrize(
    ("build", "full"),
    [
        (functional, {"table": 8, "shared": 8, "deep": 5, "logits": 3}),
        (functional, {"table": 1.0, "deep": 1.0}),
        (sequential, {"table": 8, "logits": 3}),
        (task, {"token_embedding": 8}),
    ],
)
def test_the_full_rank_is_exact(build, full, tmp_path):
    model = build()
    before = model.get_weights()
    found = pruning.low_rank(model, full)
    np.testing.assert_allclose(outputs(found), outputs(model), atol=1e-5)
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    found.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(outputs(again), outputs(found), atol=1e-6)


@pytest.mark.parametrize("rank", [1, 3, 7])
def test_the_product_is_the_nearest_of_its_rank(rank):
    model = functional()
    found = pruning.low_rank(model, {"table": rank, "shared": rank})
    for name in ("table", "shared"):
        matrix = np.float64(model.get_layer(name).get_weights()[0])
        (first,) = found.get_layer(f"{name}_narrow").get_weights()
        second = found.get_layer(name).get_weights()[0]
        assert first.shape[1] == second.shape[0] == rank
        values = np.linalg.svd(matrix, compute_uv=False)
        error = np.linalg.norm(np.float64(first) @ second - matrix)
        np.testing.assert_allclose(
            error, np.sqrt((values[rank:] ** 2).sum()), rtol=1e-4
        )
        # Neither of the two is much larger than the other.
        np.testing.assert_allclose(
            np.linalg.norm(first), np.linalg.norm(second), rtol=1e-4
        )
    assert found.get_layer("table_narrow").output_dim == rank


def test_a_share_is_of_the_squares_of_the_singular_values():
    model = functional()
    table = model.get_layer("table")
    left, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 8)))
    right, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))
    values = np.sqrt([4.0, 3.0, 2.0, 1.0, 0, 0, 0, 0])
    table.set_weights([np.float32(left * values @ right)])
    for share, rank in ((0.39, 1), (0.41, 2), (0.69, 2), (0.71, 3), (0.95, 4)):
        found = pruning.low_rank(model, {"table": share})
        assert found.get_layer("table_narrow").output_dim == rank


def test_it_trains_and_loses_tokens_as_others_do():
    model = pruning.low_rank(sequential(), {"table": 2})
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "low"]
    tokens += [f"word{i}" for i in range(14)]
    smaller, _ = pruning.vocabulary(
        model, keras_hub.tokenizers.BertTokenizer(tokens), ["low"]
    )
    assert model.count_params() - smaller.count_params() == 2 * 14
    smaller.compile("adam", "mse")
    smaller.fit(np.ones((4, 6), "int32"), np.ones((4, 3)), verbose=0)


def test_a_table_that_gives_the_logits_is_told():
    ids = keras.Input((6,), dtype="int32")
    table = layers.ReversibleEmbedding(20, 8, name="table")
    x = layers.Dense(8, name="hidden")(table(ids))
    model = keras.Model(ids, table(x, reverse=True))
    with pytest.raises(ValueError, match="must not name a table that gives"):
        pruning.low_rank(model, {"table": 4})
    narrow = pruning.low_rank(model, {"hidden": 8})
    np.testing.assert_allclose(outputs(narrow), outputs(model), atol=1e-5)


def test_weights_that_are_no_numbers_are_told():
    model = functional()
    model.get_layer("table").set_weights([np.full((20, 8), np.nan)])
    with pytest.raises(ValueError, match="weights of 'table' are not finite"):
        pruning.low_rank(model, {"table": 2})


@pytest.mark.parametrize(
    ("rank", "message"),
    [
        (4, "must be a dict"),
        ({"none": 2}, r"\['none'\]; there are \['deep', 'logits', 'shared'"),
        ({"inside": 2}, r"must name Dense or Embedding layers"),
        ({"table": 0}, "must be"),
        ({"table": 9}, "must be"),
        ({"table": 0.0}, "must be positive"),
        ({"table": 1.5}, "must be"),
        ({"table": float("nan")}, "must be"),
    ],
)
def test_wrong_ranks_are_told(rank, message):
    with pytest.raises(ValueError, match=message):
        pruning.low_rank(functional(), rank)
