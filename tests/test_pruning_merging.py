"""Linear maps taken in by what reads them: the same outputs, exactly."""

import keras
import numpy as np
import pytest
from keras import layers

from keras_distill import pruning
from keras_distill import students
from keras_distill.recording import wrap_calls

LENGTH, NARROW, WIDE = 7, 4, 12


def widen(**options):
    return layers.Dense(WIDE, name="map", **({"use_bias": False} | options))


def functional(*readers, middle=None, linear=None, further=()):
    """Inputs, a map, perhaps something else, and layers that read it."""
    inputs = keras.Input((LENGTH, NARROW))
    x = (linear or widen())(inputs)
    x = x if middle is None else middle(x)
    found = [layers.GlobalMaxPooling1D()(reader(x)) for reader in readers]
    found += [other(x) for other in further]
    return keras.Model(inputs, found)


def sequential(reader):
    return keras.Sequential([keras.Input((LENGTH, NARROW)), widen(), reader])


def nested():
    inputs = keras.Input((LENGTH, NARROW))
    inside = functional(layers.Conv1D(3, 3), layers.Dense(2))
    x = layers.Concatenate()(inside(inputs))
    return keras.Model(inputs, layers.Dense(2)(x))


def drawn(model):
    """The model with weights that are all of one size."""
    for i, weight in enumerate(model.weights):
        weight.assign(keras.random.normal(weight.shape, seed=i))
    return model


def outputs(model):
    rows = np.random.default_rng(0).normal(size=(5, LENGTH, NARROW))
    found = model(rows.astype("float32"), training=False)
    return [np.asarray(x) for x in (found if type(found) is list else [found])]


TAKEN = {
    "dense": lambda: functional(layers.Dense(3, activation="elu")),
    "convolution": lambda: functional(layers.Conv1D(3, 4, padding="same")),
    "causal": lambda: functional(
        layers.Conv1D(3, 4, padding="causal", dilation_rate=2)
    ),
    "several": lambda: functional(
        layers.Conv1D(3, 3), layers.Conv1D(2, 5), layers.Dense(2)
    ),
    "lstm": lambda: functional(layers.LSTM(3, return_sequences=True)),
    "gru": lambda: functional(layers.GRU(WIDE, return_sequences=True)),
    "both ways": lambda: functional(
        layers.Bidirectional(
            layers.LSTM(3, return_sequences=True),
            backward_layer=layers.LSTM(
                3, return_sequences=True, go_backwards=True
            ),
        )
    ),
    "dropout": lambda: functional(layers.Dense(3), middle=layers.Dropout(0.5)),
    "sequential": lambda: sequential(layers.Conv1D(3, 3)),
    "sequential, recurrent": lambda: sequential(
        layers.Bidirectional(layers.SimpleRNN(WIDE))
    ),
    "nested": nested,
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_outputs_stay(name, tmp_path):
    model = drawn(TAKEN[name]())
    before, expected = model.get_weights(), outputs(model)
    smaller = pruning.merge(model)
    names = [layer.name for layer in smaller._flatten_layers()]
    assert "map" not in names
    assert smaller.count_params() < model.count_params() - NARROW * WIDE
    for found, whole in zip(outputs(smaller), expected, strict=True):
        assert np.ptp(whole) > 0.1
        np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-4)
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    smaller.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for found, kept in zip(outputs(again), outputs(smaller), strict=True):
        np.testing.assert_array_equal(found, kept)


def twice():
    inputs = keras.Input((LENGTH, NARROW))
    x = widen()(inputs)
    reader = layers.Dense(WIDE)
    return keras.Model(inputs, reader(reader(x)))


def shared():
    first, second = keras.Input((3, NARROW)), keras.Input((3, NARROW))
    linear = widen()
    x = [layers.Dense(2)(linear(first)), layers.Dense(2)(linear(second))]
    return keras.Model([first, second], x)


LEFT = {
    "none": lambda: keras.Sequential([keras.Input((NARROW,)), layers.Dense(2)]),
    "bias": lambda: functional(layers.Dense(3), linear=widen(use_bias=True)),
    "activation": lambda: functional(
        layers.Dense(3), linear=widen(activation="relu")
    ),
    "it narrows": lambda: functional(
        layers.Dense(3), linear=layers.Dense(NARROW, use_bias=False)
    ),
    "normalised": lambda: functional(layers.LayerNormalization()),
    "read by another, too": lambda: functional(
        layers.Dense(3), further=[layers.Activation("linear")]
    ),
    "pooled before": lambda: functional(
        layers.Dense(3), middle=layers.MaxPooling1D(2)
    ),
    "groups": lambda: functional(layers.Conv1D(4, 3, groups=2)),
    "its units on another axis": lambda: functional(
        layers.Conv1D(4, 3, data_format="channels_first")
    ),
    "a state that drops units": lambda: functional(
        layers.LSTM(3, dropout=0.5, return_sequences=True)
    ),
    "depthwise": lambda: functional(layers.DepthwiseConv1D(3)),
    "the reader twice": twice,
    "the map twice": shared,
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_read_otherwise_stays(name):
    model = LEFT[name]()
    assert pruning.merge(model) is model


def test_the_map_itself_may_be_an_output():
    inputs = keras.Input((LENGTH, NARROW))
    x = widen()(inputs)
    model = keras.Model(inputs, [x, layers.Dense(2)(x)])
    assert pruning.merge(model) is model


def test_a_model_without_a_graph_is_refused():
    class Own(keras.Model):
        def call(self, x):
            return x

    with pytest.raises(ValueError, match="functional or Sequential.*Own"):
        pruning.merge(Own())


@pytest.mark.parametrize(
    ("build", "pair"),
    [
        (students.text_cnn, False),
        (students.text_cnn, True),
        (students.bilstm, False),
        (students.bilstm, True),
        (students.cnn_tagger, False),
        (students.bilstm_tagger, False),
    ],
)
def test_students_of_a_low_rank(build, pair):
    model = build(3, (50, 24), embedding_rank=8)
    if pair:
        model = students.siamese(model, separators=(2, 3))
    drawn(model)
    smaller = pruning.merge(model)
    kept = ("token_embedding", "bilstm", "convolution_3", "widen")
    names = {layer.name for layer in smaller._flatten_layers()}
    assert "token_projection" not in names
    assert {*kept} & names
    ids = np.random.default_rng(0).integers(5, 50, (6, 9)).astype("int32")
    ids[:, 4] = 3
    lengths = np.array([9, 8, 6, 5, 1, 0])[:, None]
    rows = {
        "token_ids": ids,
        "padding_mask": (np.arange(9) < lengths).astype("int32"),
    }
    expected = model.predict(rows, verbose=0)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(
        smaller.predict(rows, verbose=0), expected, rtol=1e-3, atol=1e-3
    )


# While a model is trained.

IDS = np.random.default_rng(0).integers(5, 50, (8, 9)).astype("int32")
ROWS = {
    "token_ids": IDS,
    "padding_mask": (np.arange(9) < np.arange(2, 10)[:, None]).astype("int32"),
}


def small(build=students.text_cnn):
    keras.utils.set_random_seed(0)
    return build(3, (50, 24), embedding_rank=8)


def steps(model, count=3):
    """Trains on the same rows; what is left, with the draws of dropout."""
    model.compile("sgd", keras.losses.MeanSquaredError())
    shape = (len(IDS), *model.output_shape[1:])
    target = np.ones([n or IDS.shape[1] for n in shape], "float32")
    for _ in range(count):
        model.train_on_batch(ROWS, target)
    return [np.asarray(variable) for variable in model.variables]


def is_called(layer, model):
    """Whether a call of a model comes to one of its layers."""
    seen = []

    def note(layer, call, *args, **kwargs):
        seen.append(layer)
        return call(*args, **kwargs)

    with wrap_calls([layer], note):
        model(ROWS)
    return bool(seen)


@pytest.mark.parametrize(
    ("build", "pair"),
    [
        (students.text_cnn, False),
        (students.text_cnn, True),
        (students.bilstm, False),
    ],
)
def test_the_training_is_the_same(build, pair):
    models = [small(build) for _ in range(2)]
    if pair:
        models = [students.siamese(m, separators=(2, 3)) for m in models]
        models[1].set_weights(models[0].get_weights())
    for model in models:
        dropout = model.get_layer("dropout")
        dropout.seed_generator.state.assign([3, 4])
    plain, other = models
    before = [np.asarray(variable) for variable in plain.variables]
    expected = steps(plain)
    with pruning.merged(other):
        found = steps(other)
    assert "call" not in vars(other)
    for start, whole, ours in zip(before, expected, found, strict=True):
        assert (start != whole).any() or start.size < 4
        np.testing.assert_allclose(ours, whole, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(
        other.predict(ROWS, verbose=0),
        plain.predict(ROWS, verbose=0),
        rtol=1e-3,
        atol=1e-5,
    )


def test_the_map_is_not_called_in_the_context_alone():
    model = small()
    layer = model.get_layer("token_projection")
    assert is_called(layer, model)
    with pruning.merged(model):
        assert not is_called(layer, model)
    assert is_called(layer, model)


@pytest.mark.parametrize("build", [students.cnn_tagger, students.bilstm_tagger])
def test_a_map_before_dropout_is_called(build):
    model = small(build)
    layer = model.get_layer("token_projection")
    with pruning.merged(model):
        assert is_called(layer, model)


def test_a_model_with_nothing_to_merge_is_as_it_was():
    model = students.text_cnn(3, (50, 24))
    with pruning.merged(model):
        assert "call" not in vars(model)


def test_a_reader_of_two_models_keeps_its_width():
    """One model merges its map; another one reads what is wide."""
    reader = layers.Dense(2)
    narrow, wide = keras.Input((3, NARROW)), keras.Input((3, WIDE))
    first = keras.Model(narrow, reader(widen()(narrow)))
    second = keras.Model(wide, reader(wide))
    inputs = keras.Input((3, NARROW)), keras.Input((3, WIDE))
    model = keras.Model(inputs, [first(inputs[0]), second(inputs[1])])
    assert pruning.merge(model) is model
