"""Cutting units: what goes together, what stays, and what a cut computes."""

import json
import subprocess
import sys

import keras
import keras_hub
import numpy as np
import pytest
import tiny_graphs
from keras import layers

from keras_distill import export
from keras_distill import pruning
from keras_distill import students
from keras_distill.recording import wrap_calls

MANY = [pytest.param(i, marks=pytest.mark.large) for i in range(40, 200)]
WITHOUT = """
import json, sys, numpy as np
path, inputs = sys.argv[1:]
x = np.load(inputs)
if path.endswith(".keras"):
    import keras
    found = np.asarray(keras.models.load_model(path)(x))
else:
    import tensorflow as tf
    model = tf.saved_model.load(path)
    found = model.serve(x).numpy()
assert "keras_distill" not in sys.modules
print(json.dumps(found.tolist()))
"""


def images(rows=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, *tiny_graphs.SHAPE)).astype("float32")


def outputs(model, inputs):
    return np.asarray(model(inputs, training=False))


def without(found, gone):
    """Sets to 0 all weights of some units, in place."""
    for weight in found.weights:
        value = np.array(keras.ops.convert_to_numpy(weight.variable))
        for axis, units in enumerate(weight.axes):
            if units is not None:
                at = np.isin(found.units.roots(units), gone)
                np.moveaxis(value, axis, 0)[at] = 0
        weight.variable.assign(value)


def drawn_plan(found, seed):
    rng = np.random.default_rng(seed)
    return {
        name: sorted(
            rng.permutation(len(group))[: rng.integers(1, len(group) + 1)]
        )
        for name, group in found.groups.items()
    }


# The two laws, on graphs that are drawn.


@pytest.mark.parametrize("seed", [*range(40), *MANY])
def test_a_cut_computes_what_units_of_zeros_do(seed):
    model = tiny_graphs.drawn(seed)
    inputs = images()
    before = outputs(model, inputs)
    found = pruning.structure(model)
    whole = pruning.cut(model, {})
    np.testing.assert_array_equal(outputs(whole, inputs), before)
    plan = drawn_plan(found, seed)
    gone = [
        group.units[i]
        for name, group in found.groups.items()
        for i in set(range(len(group))) - set(plan[name])
    ]
    smaller = pruning.cut(model, plan)
    # The original has not changed.
    np.testing.assert_array_equal(outputs(model, inputs), before)
    weights = sum(found.groups[name].weights.sum() > 0 for name in found.groups)
    assert weights == len(found.groups)
    without(found, gone)
    expected = outputs(model, inputs)
    scale = np.abs(expected).max() + 1e-3
    np.testing.assert_allclose(
        outputs(smaller, inputs), expected, atol=2e-5 * scale
    )
    assert (smaller.count_params() < model.count_params()) == bool(gone)


@pytest.mark.large
def test_few_of_the_drawn_graphs_have_nothing_to_cut():
    found = [pruning.structure(tiny_graphs.drawn(i)) for i in range(40)]
    assert sum(bool(each.groups) for each in found) > 30
    assert any(
        "no rule" in why for each in found for why in each.frozen.values()
    )


# What goes together, layer by layer.


def sequential(*held, shape=(6,)):
    return keras.Sequential([keras.Input(shape), *held])


def groups_of(model, **options):
    found = pruning.structure(model, **options)
    return {name: len(group) for name, group in found.groups.items()}


def test_what_is_added_goes_together():
    x = inputs = keras.Input((4,))
    x = layers.Dense(6, name="a")(x)
    y = layers.Dense(6, name="b")(x)
    z = layers.Add()([x, y])
    outputs = layers.Dense(2, name="c")(z)
    found = pruning.structure(keras.Model(inputs, outputs))
    assert {n: len(g) for n, g in found.groups.items()} == {"a+b": 6}
    # 4 inputs and a bias of a; 6 + 6 - 1 and a bias of b; 2 outputs.
    assert found.groups["a+b"].weights.tolist() == [5 + 13 + 2] * 6
    assert found.groups["a+b"].multiplications.tolist() == [4 + 12 + 2] * 6
    table = str(found)
    assert "c stays: an output of the model" in table
    assert table.splitlines()[1].split() == ["a+b", "6", "20", "18"]


def test_multiplications_are_those_of_all_places():
    model = sequential(
        layers.Conv2D(4, 3, strides=2, padding="same", name="a"),
        layers.Conv2D(5, 3, padding="same", name="b"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(2),
        shape=(8, 8, 3),
    )
    found = pruning.structure(model).groups
    assert found["a"].multiplications.tolist() == [16 * 9 * (3 + 5)] * 4
    assert found["b"].multiplications.tolist() == [16 * 9 * 4 + 2] * 5
    assert found["a"].weights.tolist() == [9 * (3 + 5) + 1] * 4


@pytest.mark.parametrize(
    "kind",
    [layers.LSTM, layers.GRU, layers.SimpleRNN],
    ids=lambda k: k.__name__,
)
def test_states_are_cut_in_all_their_gates(kind):
    keras.utils.set_random_seed(0)
    model = sequential(
        layers.Embedding(9, 6, name="table"),
        kind(5, name="first", return_sequences=True),
        kind(4, name="second"),
        layers.Dense(2),
        shape=(7,),
    )
    assert groups_of(model) == {"table": 6, "first": 5, "second": 4}
    ids = np.arange(14).reshape(2, 7) % 9
    plan = {"table": [0, 2, 5], "first": [1, 4], "second": [3, 0]}
    check_cut(model, plan, ids)


@pytest.mark.parametrize(
    "kind",
    [layers.LSTM, layers.GRU, layers.SimpleRNN],
    ids=lambda k: k.__name__,
)
def test_units_of_two_directions_go_in_pairs(kind, tmp_path):
    keras.utils.set_random_seed(0)
    model = sequential(
        layers.Embedding(9, 6, name="table"),
        layers.Bidirectional(kind(5, return_sequences=True), name="first"),
        layers.Bidirectional(kind(4), name="second"),
        layers.Dense(2),
        shape=(7,),
    )
    assert groups_of(model) == {"table": 6, "first": 5, "second": 4}
    ids = np.arange(14).reshape(2, 7) % 9
    plan = {"table": [0, 2, 5], "first": [1, 4], "second": [3]}
    smaller = check_cut(model, plan, ids)
    assert smaller.layers[1].forward_layer.units == 2
    smaller.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(outputs(again, ids), outputs(smaller, ids))


def test_a_student_of_two_directions(tmp_path):
    """It reads a mask beside its texts."""
    keras.utils.set_random_seed(0)
    model = students.bilstm(3, (50, 8), units=6, dropout=0.0)
    found = groups_of(model)
    assert (found["token_embedding"], found["bilstm"]) == (8, 6)
    ids = np.arange(24).reshape(2, 12) % 50
    rows = {"token_ids": ids, "padding_mask": np.int32(ids < 40)}
    rows["padding_mask"][1, 7:] = 0
    plan = {"token_embedding": [1, 4, 5], "bilstm": [0, 3]}
    smaller = check_cut(model, plan, rows)
    assert smaller.count_params() < 0.5 * model.count_params()
    x = inputs = keras.Input((5, 4))
    state = layers.Dense(3, name="state")(layers.Flatten()(x))
    x = layers.GRU(3, name="own")(x, initial_state=state)
    handed = pruning.structure(keras.Model(inputs, layers.Dense(2)(x)))
    assert "2 inputs" in handed.frozen["own"]


@pytest.mark.parametrize(
    ("equation", "output_shape", "bias_axes", "places"),
    [
        ("abc,cd->abd", (6, 5), "d", 6),
        ("...x,xy->...y", 5, "y", 6),
        ("abc,cde->abde", (6, 3, 5), "de", 6),
        ("abc,bcd->abd", (6, 5), None, 1),
        ("abc,dc->abd", (6, 5), "b", 6),
    ],
)
def test_units_of_an_equation(equation, output_shape, bias_axes, places):
    keras.utils.set_random_seed(0)
    model = sequential(
        layers.Dense(4, name="before"),
        layers.EinsumDense(
            equation, output_shape, bias_axes=bias_axes, name="own"
        ),
        layers.ReLU(),
        layers.Dense(3, name="after"),
        shape=(6, 8),
    )
    for weight in model.weights:
        weight.assign(np.random.default_rng(1).normal(size=weight.shape))
    found = pruning.structure(model)
    assert groups_of(model) == {"before": 4, "own": 5}
    (kernel,) = (
        w
        for w in found.weights
        if w.reads is not None
        and w.uses == places
        and w.variable is model.layers[1].kernel
    )
    assert kernel.variable.shape[kernel.reads] == 4
    rows = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")
    smaller = check_cut(model, {"before": [0, 3], "own": [4, 1, 2]}, rows)
    assert {2, 3} <= set(smaller.layers[1].kernel.shape)


@pytest.mark.parametrize("equation", ["abc,c->abc", "abc,bd->adc"])
def test_equations_that_keep_units_where_they_are(equation):
    inputs = keras.Input((6, 3))
    shape = (6, 3) if equation == "abc,c->abc" else (4, 3)
    x = layers.EinsumDense(equation, shape, name="own")(inputs)
    found = pruning.structure(keras.Model(inputs, layers.Dense(2)(x)))
    assert "the last axes of" in found.frozen["own"]


def check_cut(model, plan, inputs):
    """A cut computes what the model does with its units at 0."""
    smaller = pruning.cut(model, plan)
    found = pruning.structure(model)
    gone = [
        group.units[i]
        for name, group in found.groups.items()
        for i in range(len(group))
        if name in plan and i not in plan[name]
    ]
    without(found, gone)
    np.testing.assert_allclose(
        outputs(smaller, inputs), outputs(model, inputs), atol=1e-5
    )
    return smaller


@pytest.mark.parametrize("use_bias", [True, False])
def test_whole_heads_go(use_bias):
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input((6, 8))
    y = layers.MultiHeadAttention(4, 2, use_bias=use_bias, name="a")(x, x)
    y = layers.Dense(5, name="between")(layers.Add()([x, y]))
    # Without dropout, Keras on JAX asks that values be as wide as keys.
    y = layers.MultiHeadAttention(
        3,
        2,
        value_dim=4,
        dropout=0.1,
        output_shape=7,
        use_bias=use_bias,
        name="b",
    )(y, x)
    model = keras.Model(inputs, layers.Dense(2)(y))
    for weight in model.weights:
        weight.assign(0.3 * np.random.default_rng(1).normal(size=weight.shape))
    # What is added to an input of the model stays.
    assert groups_of(model) == {
        "a/heads": 4,
        "between": 5,
        "b/heads": 3,
        "b": 7,
    }
    plan = {"a/heads": [0, 3], "between": [1], "b/heads": [2], "b": [0, 1, 5]}
    rows = np.random.default_rng(0).normal(size=(2, 6, 8)).astype("float32")
    smaller = check_cut(model, plan, rows)
    assert smaller.get_layer("a").num_heads == 2


def test_the_width_inside_an_encoder_goes(tmp_path):
    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.BertBackbone(50, 2, 2, 8, 16, dropout=0.0)
    model = students.mean_pooled_classifier(backbone, 3, dropout=0.0)
    found = groups_of(model)
    names = [f"transformer_layer_{i}/intermediate" for i in (0, 1)]
    assert {name: found[name] for name in names} == dict.fromkeys(names, 16)
    ids = np.arange(12).reshape(2, 6)
    rows = {
        "token_ids": ids,
        "padding_mask": np.int32(ids < 10),
        "segment_ids": np.zeros_like(ids),
    }
    plan = {names[0]: [0, 5, 7], names[1]: [15]}
    smaller = check_cut(model, plan, rows)
    smaller.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(outputs(again, rows), outputs(smaller, rows))


def test_a_mask_that_may_be_keys_is_refused():
    x = inputs = keras.Input((6, 8))
    y = layers.MultiHeadAttention(4, 2, name="a")(x, x, x)
    found = pruning.structure(keras.Model(inputs, layers.Dense(2)(y)))
    assert "3 inputs, where two are known" in found.frozen["a"]


@pytest.mark.parametrize(
    ("layer", "why"),
    [
        (layers.LayerNormalization(), "no rule for LayerNormalization"),
        (
            layers.Dense(5, activation="softmax", name="soft"),
            "'softmax' sees all units",
        ),
        (layers.Conv1D(4, 3, groups=2), "groups of channels"),
        (
            layers.Bidirectional(layers.LSTM(3), merge_mode="sum"),
            "merged by 'sum'",
        ),
        (layers.LSTM(3, stateful=True), "states that are handed on"),
        (layers.BatchNormalization(axis=1), "not the last one"),
        (layers.Permute((2, 1)), "change their axis"),
        (layers.Reshape((-1,)), "split or put together"),
        (layers.Concatenate(axis=1), None),
    ],
)
def test_what_is_not_understood_stays_and_says_why(layer, why):
    inputs = keras.Input((6, 3), batch_size=2)
    x = layers.Dense(4, name="before")(inputs)
    x = layer([x, x]) if why is None else layer(x)
    x = layers.Dense(5, name="after")(x)
    found = pruning.structure(keras.Model(inputs, layers.Dense(2)(x)))
    if why is None:
        assert list(found.groups) == ["before", "after"]
    else:
        assert list(found.groups) == ["after"]
        assert why in found.frozen["before"]


def test_a_number_changes_all_units_alike():
    """As in the activations of MobileNetV3; an array is one for each unit."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((6,))
    x = layers.Dense(4, name="a")(inputs)
    x = layers.ReLU(6.0)(x + 3.0) * np.float32(1 / 6)
    x = 2.0 - keras.ops.maximum(x, 0.1) / np.ones((1, 1), "float32")
    x = layers.Rescaling(0.5, offset=1.0)(x)
    x = layers.Dense(5, name="b")(x) * np.arange(5.0, dtype="float32")
    x = layers.Dense(5, name="c")(x)
    x = layers.Dense(2)(layers.Rescaling(0.5, offset=[0, 1, 2, 3, 4])(x))
    model = keras.Model(inputs, x)
    rows = np.random.default_rng(0).normal(size=(3, 6)).astype("float32")
    check_cut(model, {"a": [0, 3]}, rows)
    frozen = pruning.structure(model).frozen
    assert "a constant, perhaps" in frozen["b"]
    assert "a number for each unit" in frozen["c"]
    for units in (1, 4):
        x = layers.Dense(units, name="d")(inputs)
        model = keras.Model(inputs, layers.Dense(2)(1.0 / x))
        assert "is divided by" in pruning.structure(model).frozen["d"]


@pytest.mark.large
def test_all_of_mobile_net_but_its_ends_can_be_cut():
    model = keras.applications.MobileNetV3Small(
        (32, 32, 3), weights=None, classes=3, classifier_activation=None
    )
    reasons = set(pruning.structure(model).frozen.values())
    assert len(reasons) == 2
    assert all(reason.endswith("put of the model") for reason in reasons)
    images = np.random.default_rng(0).uniform(0, 255, (2, 32, 32, 3))
    whole = pruning.prune(model, keep=1.0)
    np.testing.assert_array_equal(
        outputs(whole, images), outputs(model, images)
    )
    half = pruning.prune(model, keep=0.5)
    assert half.count_params() < 0.3 * model.count_params()


def test_what_is_frozen_stays():
    model = sequential(layers.Dense(4, name="a"), layers.Dense(3, name="b"))
    assert groups_of(model) == {"a": 4}
    assert groups_of(model, freeze=["a"]) == {}
    with pytest.raises(ValueError, match=r"must name layers.*\['c'\]"):
        pruning.structure(model, freeze=["c"])
    with pytest.raises(ValueError, match="all stay"):
        pruning.prune(model, freeze=["a"])


def test_what_is_inside_of_a_frozen_layer_stays():
    backbone = keras_hub.models.BertBackbone(50, 2, 2, 16, 32)
    stays = "transformer_layer_0"
    assert groups_of(backbone, freeze=[stays]) == {
        "transformer_layer_1/intermediate": 32
    }
    x = inputs = keras.Input((5, 8))
    x = layers.MultiHeadAttention(4, 2, name="attend")(x, x)
    model = keras.Model(inputs, layers.Dense(2)(x))
    assert groups_of(model) == {"attend/heads": 4, "attend": 8}
    assert not groups_of(model, freeze=["attend"])


def test_layers_of_one_name_are_groups_of_their_own():
    """Of two models in a model; the weights of one are small."""

    def part(name):
        parts = layers.Dense(6, name="hidden"), layers.Dense(6, name=name)
        return keras.Sequential([keras.Input((6,)), *parts], name=name)

    first, second = part("one"), part("two")
    kernel = second.get_layer("hidden").kernel
    kernel.assign(0.01 * kernel)
    model = sequential(first, second, layers.Dense(2))
    assert groups_of(model) == {
        "one/hidden": 6,
        "one": 6,
        "two/hidden": 6,
        "two": 6,
    }
    assert set(groups_of(model, freeze=["hidden"])) == {"one", "two"}
    left = groups_of(model, freeze=["two/hidden"])
    assert set(left) == {"one/hidden", "one", "two"}
    smaller = pruning.prune(model, 0.5)
    sizes = [
        [layer.units for layer in inner.layers] for inner in smaller.layers[:2]
    ]
    assert sizes == [[3, 3], [3, 3]]


def test_units_behind_their_places_stay():
    model = sequential(
        layers.Dense(4, name="a"),
        layers.Flatten(data_format="channels_first"),
        layers.Dense(2),
        shape=(3, 5),
    )
    found = pruning.structure(model)
    assert not found.groups
    assert "places before units" in found.frozen["a"]


def test_a_dict_for_the_list_of_inputs_of_a_model_in_a_model():
    """Keras takes it by the names, which stand in another order."""
    first, second = (keras.Input((5,), name=name) for name in ("z", "a"))
    both = layers.Concatenate()(
        [layers.Dense(3)(first), layers.Dense(4)(second)]
    )
    inner = keras.Model([first, second], both)
    x = keras.Input((6,))
    given = {"z": layers.Dense(5, name="of_z")(x)}
    given["a"] = layers.Dense(5, name="of_a")(x)
    model = keras.Model(x, layers.Dense(2)(inner(given)))
    of_z = model.get_layer("of_z")
    of_z.set_weights([w * (np.arange(5) < 2) for w in of_z.get_weights()])
    check_cut(model, {"of_z": [0, 1]}, np.ones((2, 6), "float32"))


def test_quantised_and_adapted_layers_stay():
    for change in ("quantize", "enable_lora"):
        hidden = layers.Dense(4, name="a")
        model = sequential(hidden, layers.Dense(4, name="b"), layers.Dense(2))
        getattr(hidden, change)("int8" if change == "quantize" else 2)
        assert list(groups_of(model)) == ["b"]


def test_adapted_layers_in_a_layer_stay_and_are_told():
    for change in ("quantize", "enable_lora"):
        x = inputs = keras.Input((6, 16))
        attention = layers.MultiHeadAttention(4, 4, name="attention")
        x = layers.Dense(8, name="a")(layers.Flatten()(attention(x, x)))
        model = keras.Model(inputs, layers.Dense(3)(x))
        inside = attention.output_dense
        getattr(inside, change)("int8" if change == "quantize" else 2)
        found = pruning.structure(model)
        assert "attention_output: " in found.frozen["attention"]
        with pytest.raises(ValueError, match="'attention' cannot be made"):
            pruning.prune(model, keep=0.5, importance={"a": np.arange(8)})


# Importance.


def test_taylor_is_the_first_order_change_of_the_loss():
    keras.utils.set_random_seed(0)
    model = sequential(layers.Dense(5, activation="tanh"), layers.Dense(1))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(96, 6)).astype("float32")
    y = rng.normal(size=(96, 1)).astype("float32")
    (found,) = pruning.importance(model, (x, y), "mse", batch_size=32).values()
    first, bias, second, last = (np.float64(w) for w in model.get_weights())
    total = np.zeros(5)
    for start in range(0, 96, 32):
        rows, labels = np.float64(x[start:][:32]), y[start:][:32]
        hidden = np.tanh(rows @ first + bias)
        wrong = 2 * (hidden @ second + last - labels) / 32
        total += ((hidden.T @ wrong) * second).sum(1) ** 2 / 3
    np.testing.assert_allclose(found, total, rtol=1e-4)
    batches = [(x[i : i + 32], y[i : i + 32]) for i in (0, 32, 64)]
    (streamed,) = pruning.importance(
        model, batches, "mse", batch_size=32
    ).values()
    np.testing.assert_allclose(streamed, found, rtol=1e-6)


def test_weights_and_chance():
    model = sequential(layers.Dense(3, name="a"), layers.Dense(2))
    kernel, bias, second, last = model.get_weights()
    bias = np.float32([1, 2, 3])
    model.set_weights([kernel, bias, second, last])
    found = pruning.importance(model, method="weight")["a"]
    expected = (kernel**2).sum(0) + bias**2 + (second**2).sum(1)
    np.testing.assert_allclose(found, expected / expected.mean(), rtol=1e-5)
    one, two = (
        pruning.importance(model, method="random", seed=seed)["a"]
        for seed in (0, 1)
    )
    assert (one != two).all()


def squares(values, axis):
    values = np.square(np.asarray(values), dtype="float64")
    others = tuple(np.delete(np.arange(values.ndim), axis))
    found = values.mean(axis=others)
    return found / found.mean()


def test_activations_are_the_squares_of_what_is_read():
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input((5, 5, 3))
    x = convolved = layers.Conv2D(4, 3, activation="relu", name="a")(x)
    x = layers.Flatten()(layers.MaxPooling2D(3)(x))
    x = hidden = layers.Dense(6, activation="tanh", name="b")(x)
    model = keras.Model(inputs, layers.Dense(2)(x))
    inner = keras.Model(inputs, [convolved, hidden])
    rows = images(70, seed=1)
    found = pruning.importance(
        model, (rows, np.zeros(70, int)), method="activation"
    )
    first, second = inner(rows, training=False)
    pooled = np.asarray(first).max(axis=(1, 2))
    np.testing.assert_allclose(found["a"], squares(pooled, -1), rtol=1e-4)
    np.testing.assert_allclose(found["b"], squares(second, -1), rtol=1e-4)


def test_activations_inside_attention_and_loops():
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input((6, 8))
    x = layers.Dense(5, name="before")(x)
    attention = layers.MultiHeadAttention(3, 2, name="a")
    y = attention(x, x)
    x = layers.Bidirectional(layers.GRU(4), name="loop")(layers.Add()([x, y]))
    model = keras.Model(inputs, layers.Dense(2)(x))
    rows = np.random.default_rng(0).normal(size=(40, 6, 8)).astype("float32")
    seen = []

    def keep(layer, call, x, *args, **kwargs):
        seen.append(np.asarray(x))
        return call(x, *args, **kwargs)

    data = rows, np.zeros(40, int)
    with wrap_calls([attention.output_dense], keep):
        found = pruning.importance(model, data, method="activation")
    inside = np.concatenate(seen)
    assert inside.shape == (40, 6, 3, 2)
    np.testing.assert_allclose(found["a/heads"], squares(inside, -2), rtol=1e-4)
    before = keras.Model(inputs, model.get_layer("loop").input)
    assert set(found) == {"before+a", "a/heads", "loop"}
    assert np.asarray(before(rows)).shape == (40, 6, 5)
    last = keras.Model(inputs, model.get_layer("loop").output)(rows)
    both = np.square(np.asarray(last), dtype="float64").mean(0)
    pairs = both[:4] + both[4:]
    np.testing.assert_allclose(found["loop"], pairs / pairs.mean(), rtol=1e-4)
    smaller = pruning.prune(model, 0.5, found)
    assert smaller.count_params() < model.count_params()


def test_the_least_important_go():
    model = sequential(layers.Dense(5, name="a"), layers.Dense(2))
    values = {"a": [5.0, 1.0, 4.0, 2.0, 3.0]}
    kernel = model.get_weights()[0]
    for keep, stay in ((0.4, [0, 2]), (0.41, [0, 2, 4]), (1e-9, [0])):
        smaller = pruning.prune(model, keep, values)
        np.testing.assert_array_equal(smaller.get_weights()[0], kernel[:, stay])
    by_name = pruning.prune(model, {"a": 0.2}, values)
    assert by_name.layers[0].units == 1
    # Without importance by the weights.
    found = pruning.importance(model, method="weight")
    np.testing.assert_array_equal(
        pruning.prune(model, 0.4).get_weights()[0],
        pruning.prune(model, 0.4, found).get_weights()[0],
    )


def test_a_plan_is_json_that_repeats_the_cut():
    model = tiny_graphs.drawn(1)
    plan = drawn_plan(pruning.structure(model), 1)
    again = json.loads(
        json.dumps({k: [int(i) for i in v] for k, v in plan.items()})
    )
    first, second = pruning.cut(model, plan), pruning.cut(model, again)
    for a, b in zip(first.get_weights(), second.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


# To a budget.


def counted_by_hand(model):
    """Multiplications of convolutions and dense layers, by their shapes."""
    total = 0
    for layer in model.layers:
        if isinstance(layer, layers.Conv2D):
            height, width, out = layer.output.shape[1:]
            total += height * width * out * np.prod(layer.kernel.shape[:3])
        elif isinstance(layer, layers.Dense):
            total += np.prod(layer.kernel.shape)
    return int(total)


def residual(widths=(8, 12)):
    x = inputs = keras.Input((8, 8, 3))
    x = layers.Conv2D(6, 3, padding="same", name="stem")(x)
    for i, width in enumerate(widths):
        y = layers.Conv2D(width, 3, padding="same", name=f"inner_{i}")(x)
        y = layers.Conv2D(6, 3, padding="same", name=f"outer_{i}")(y)
        x = layers.Add()([x, layers.ReLU()(y)])
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(4, name="logits")(x))


@pytest.mark.parametrize("kind", ["parameters", "multiplications"])
@pytest.mark.parametrize("share", [1.0, 0.8, 0.37])
def test_a_model_is_within_its_budget_and_near_it(kind, share):
    model = residual()
    count = {
        "parameters": lambda model: model.count_params(),
        "multiplications": counted_by_hand,
    }[kind]
    whole = count(model)
    smaller = pruning.search(model, {kind: share}, verbose=0)
    assert count(smaller) <= share * whole
    # One unit less gone would be more than the budget.
    dearest = max(
        getattr(group, {"parameters": "weights"}.get(kind, kind)).max()
        for group in pruning.structure(model).groups.values()
    )
    assert count(smaller) > share * whole - dearest
    absolute = pruning.search(model, {kind: int(share * whole)}, verbose=0)
    for a, b in zip(smaller.get_weights(), absolute.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_is_worth_least_for_its_cost_goes_first():
    model = residual()
    groups = pruning.structure(model).groups
    # All are worth the same for each multiplication, but two units.
    values = {
        name: np.float64(group.multiplications)
        for name, group in groups.items()
    }
    values["inner_1"][[2, 5]] = 1.0
    whole = counted_by_hand(model)
    gone = 2 * groups["inner_1"].multiplications[0]
    smaller = pruning.search(
        model, {"multiplications": int(whole - gone)}, None, values, verbose=0
    )
    assert smaller.get_layer("inner_1").filters == 10
    assert smaller.count_params() < model.count_params()
    stay = np.delete(np.arange(12), [2, 5])
    np.testing.assert_array_equal(
        smaller.get_layer("inner_1").kernel,
        np.asarray(model.get_layer("inner_1").kernel)[..., stay],
    )


def test_each_group_keeps_its_least_share():
    model = residual()
    with pytest.raises(ValueError, match=r"parameters [\d,]+ at least") as told:
        pruning.search(model, {"parameters": 1e-9}, least=0.5, verbose=0)
    reached = int(
        str(told.value).split("parameters ")[1].split()[0].replace(",", "")
    )
    smaller = pruning.search(
        model, {"parameters": reached}, least=0.5, verbose=0
    )
    assert smaller.count_params() == reached
    assert groups_of(smaller) == {
        "stem+outer_0+outer_1": 3,
        "inner_0": 4,
        "inner_1": 6,
    }


def test_steps_go_on_where_they_were(tmp_path):
    model = residual()
    x, y = np.zeros((4, 8, 8, 3), "float32"), np.arange(4)
    seen = []

    def train(student, stop=None):
        seen.append(student.count_params())
        if len(seen) == stop:
            raise KeyboardInterrupt
        student.get_layer("logits").bias.assign_add(keras.ops.ones(4))

    def run(folder=None, stop=None):
        return pruning.search(
            model,
            {"multiplications": 0.3},
            (x, y),
            steps=3,
            train=lambda student: train(student, stop),
            folder=folder,
            verbose=0,
        )

    expected, sizes = run(), seen.copy()
    assert len(sizes) == 3
    assert sizes == sorted(sizes, reverse=True)
    np.testing.assert_array_equal(
        expected.get_layer("logits").bias, np.full(4, 3)
    )
    seen.clear()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "a", stop=2)
    assert json.loads((tmp_path / "a" / "step-1.json").read_text())
    found = run(tmp_path / "a")
    assert seen == [*sizes[:2], *sizes[1:]]
    for a, b in zip(found.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    plan = json.loads((tmp_path / "a" / "step-1.json").read_text())
    assert pruning.cut(model, plan).count_params() == sizes[0]
    with pytest.raises(ValueError, match="or of the same search"):
        pruning.search(model, {"parameters": 0.5}, folder=tmp_path / "a")


@pytest.mark.parametrize(
    "other",
    [
        {"freeze": ["a"]},
        {"importance": {"a": np.arange(10.0), "b": np.arange(10.0)}},
    ],
)
def test_another_search_in_the_folder_is_told(other, tmp_path):
    a, b = layers.Dense(10, name="a"), layers.Dense(10, name="b")
    model = sequential(a, b, layers.Dense(2), shape=(8,))
    budget, folder = {"parameters": 0.5}, tmp_path / "a"
    with pytest.raises(ValueError, match="what can be reached"):
        pruning.search(model, {"parameters": 3}, folder=folder, verbose=0)
    pruning.search(model, budget, folder=folder, verbose=0)
    with pytest.raises(ValueError, match="`freeze` and importance"):
        pruning.search(model, budget, folder=folder, verbose=0, **other)


@pytest.mark.parametrize("steps", [1, 2, 3, 5])
def test_several_steps_reach_what_one_does(steps):
    """Of 10 units a tenth is one, after two roundings up it was two."""
    model = sequential(layers.Dense(10), layers.Dense(2), shape=(8,))
    found = pruning.search(model, {"parameters": 13}, steps=steps, verbose=0)
    assert found.count_params() == 13


def test_what_cannot_be_reached_is_told_before_training():
    def train(student):
        raise AssertionError(student)

    with pytest.raises(ValueError, match="at least with these groups"):
        pruning.search(
            residual(), {"multiplications": 0.001}, steps=3, train=train
        )


@pytest.mark.large
@pytest.mark.parametrize("kind", ["size_bytes", "latency_ms"])
def test_files_are_measured(kind, tmp_path):
    model = residual((32, 32))
    x = np.zeros((4, 8, 8, 3), "float32")

    def measured(model):
        report = export.litert(model, tmp_path / "a.tflite", examples=x)
        return getattr(report, kind)

    whole = measured(model)
    smaller = pruning.search(
        model, {kind: 0.6 * whole}, (x, np.arange(4)), verbose=0
    )
    assert smaller.count_params() < 0.9 * model.count_params()
    if kind == "size_bytes":
        assert 0.9 < measured(smaller) / (0.6 * whole) <= 1


# What comes of it.


@pytest.mark.large
@pytest.mark.parametrize("kind", ["keras", "SavedModel"])
def test_cut_models_load_without_this_package(kind, tmp_path):
    if keras.backend.backend() != "tensorflow" and kind == "SavedModel":
        pytest.skip("JAX exports through TensorFlow, tested with it")
    model = pruning.prune(tiny_graphs.drawn(3), 0.5)
    np.save(tmp_path / "x.npy", images())
    path = tmp_path / ("model.keras" if kind == "keras" else "model")
    if kind == "keras":
        model.save(path)
    else:
        model.export(path, verbose=False)
    command = [
        sys.executable,
        "-c",
        WITHOUT,
        str(path),
        str(tmp_path / "x.npy"),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    np.testing.assert_allclose(
        json.loads(done.stdout.splitlines()[-1]),
        outputs(model, images()),
        atol=1e-5,
    )


def test_what_tensorflow_would_crash_on_is_told():
    x = inputs = keras.Input((8, 8, 3))
    for name, strides in (("plain", 1), ("strided", 2)):
        x = layers.Conv2D(20, 1, strides, name=name)(x)
    model = keras.Model(inputs, layers.Dense(2)(layers.Flatten()(x)))
    if keras.backend.backend() == "tensorflow":
        with pytest.warns(UserWarning, match=r"\['strided'\].*ONEDNN"):
            pruning.cut(model, {"plain": range(15)})
    pruning.cut(model, {"plain": range(16)})


def test_a_student_is_cut_and_trained_on():
    model = students.text_cnn(2, (50, 8), filters=4)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(True))
    ids = np.arange(60).reshape(6, 10) % 50
    rows = {"token_ids": ids, "padding_mask": np.int32(ids > 0)}
    labels = np.arange(6) % 2
    found = pruning.importance(model, (rows, labels))
    smaller = pruning.prune(model, 0.5, found)
    assert smaller.count_params() < 0.6 * model.count_params()
    # It goes on as it was compiled, with weights of its own.
    before = model.get_weights()
    smaller.fit(rows, labels, verbose=0)
    for a, b in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)


# Bad input.


class Subclassed(keras.Model):
    def call(self, x):
        return x


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": 0}, "`keep` must be above 0"),
        ({"keep": 1.5}, "must be between 0 and 1"),
        ({"keep": {"b": 0.5}}, r"no group 'b'\. There are \['a'\]"),
        ({"importance": "random"}, "must be a dict from groups to arrays"),
        ({"importance": {}}, "must hold an array for each group"),
        ({"importance": {"a": [1, 2]}}, "must hold 3 finite numbers"),
        ({"importance": {"a": [1, 2, np.nan]}}, "must hold 3 finite numbers"),
    ],
)
def test_wrong_choices_are_told(options, message):
    model = sequential(layers.Dense(3, name="a"), layers.Dense(2))
    with pytest.raises(ValueError, match=message):
        pruning.prune(model, **options)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"b": [0]}, "no group 'b'"),
        ({"a": []}, "At least one unit"),
        ({"a": [3]}, "those from 0 to 2"),
        ({"a": [-1]}, "those from 0 to 2"),
    ],
)
def test_wrong_plans_are_told(plan, message):
    model = sequential(layers.Dense(3, name="a"), layers.Dense(2))
    with pytest.raises(ValueError, match=message):
        pruning.cut(model, plan)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 0.5}, "must be a dict of one of"),
        ({"budget": {"parameters": 1, "size_bytes": 1}}, "dict of one of"),
        ({"budget": {"bits": 3}}, "`budget` must be"),
        ({"budget": {"parameters": 0}}, "must be positive"),
        ({"budget": {"parameters": np.nan}}, "must be positive"),
        ({"budget": {"parameters": 5}}, "parameters 11 at least"),
        ({"budget": {"size_bytes": 0.5}}, "needs `data`"),
        ({"steps": 0}, "`steps` must be"),
        ({"least": 0}, "`least` must be"),
        ({"importance": {}}, "must hold an array for each group"),
        ({"importance": {}, "steps": 2}, "must be a function"),
        ({"data": np.zeros((2, 6))}, "with labels"),
        ({"data": iter([]), "steps": 2}, "read more than once"),
    ],
)
def test_a_search_that_cannot_be_is_told(options, message):
    model = sequential(layers.Dense(3, name="a"), layers.Dense(2))
    options = {"budget": {"parameters": 0.9}, "verbose": 0} | options
    with pytest.raises(ValueError, match=message):
        pruning.search(model, **options)


@pytest.mark.parametrize(
    "model", [Subclassed(), keras.Sequential([layers.Dense(2)]), None]
)
def test_a_model_without_a_graph_is_told(model):
    with pytest.raises(ValueError, match="must be a functional or Sequential"):
        pruning.structure(model)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "needs `data`"),
        (np.zeros((2, 6)), "with labels"),
        ([], "0 batches"),
        ((np.full((2, 6), np.nan), np.array([0, 1])), "finite loss"),
    ],
)
def test_taylor_needs_labelled_data(data, message):
    model = sequential(layers.Dense(3), layers.Dense(2))
    with pytest.raises(ValueError, match=message):
        pruning.importance(model, data)
    if "loss" not in message:
        with pytest.raises(ValueError, match=message):
            pruning.importance(model, data, method="activation")
    with pytest.raises(ValueError, match="`method` must be"):
        pruning.importance(model, data, method="magic")
