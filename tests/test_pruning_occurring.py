"""Training without the rows that nobody reads: the same steps, to the bit."""

import contextlib

import keras
import numpy as np
import pytest
import tiny_text
import variants
from keras import layers

import keras_distill as kd
from keras_distill import pruning
from keras_distill import recipes
from keras_distill import students
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import Cell
from keras_distill.quantization import QuantizationAware

VOCABULARY, WIDTH, LENGTH = 3000, 32, 6


def rows(count=24, seed=0):
    """Ids of few tokens, some rows padded, and labels."""
    rng = np.random.default_rng(seed)
    ids = 40 * rng.integers(1, 70, (count, LENGTH), dtype="int32")
    mask = np.ones_like(ids)
    mask[::3, 4:] = 0
    x = {"token_ids": ids * mask, "padding_mask": mask}
    return x, rng.integers(0, 3, count)


def of_tables(**options):
    """A model of one input, whose table is a layer's as it is."""
    ids = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    x = layers.Embedding(VOCABULARY, WIDTH, **options)(ids)
    x = layers.GlobalAveragePooling1D()(x)
    return keras.Model(ids, layers.Dense(3)(x))


def sequential():
    return keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32", name="token_ids"),
            layers.Embedding(VOCABULARY, WIDTH),
            layers.Flatten(),
            layers.Dense(3),
        ]
    )


def twice():
    """One table for both ends of a text, in a model in the model."""
    ids = keras.Input((3,), dtype="int32")
    x = layers.Flatten()(layers.Embedding(VOCABULARY, WIDTH)(ids))
    inside = keras.Model(ids, layers.Dense(4)(x))
    ids = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    ends = [inside(ids[:, :3]), inside(ids[:, 3:])]
    return keras.Model(ids, layers.Dense(3)(layers.Concatenate()(ends)))


def pair():
    one = students.text_cnn(3, (VOCABULARY, WIDTH), filters=4)
    return students.siamese(one, separators=(40, 80))


MODELS = {
    "convolutions": lambda: students.text_cnn(
        3, (VOCABULARY, WIDTH), filters=4, ngram_buckets=2**13
    ),
    "a map": lambda: students.text_cnn(3, (VOCABULARY, 64), 32, filters=4),
    "n-grams": lambda: students.ngram(3, (VOCABULARY, WIDTH)),
    "recurrent": lambda: students.bilstm(3, (VOCABULARY, WIDTH), units=4),
    "tags": lambda: students.cnn_tagger(3, (VOCABULARY, WIDTH), filters=4),
    "pair": pair,
    "sequential": sequential,
    "twice": twice,
}


def made(build):
    keras.utils.set_random_seed(0)
    return build()


def fitted(model):
    """Its weights after some steps of Adam, as the engine trains."""
    x, y = rows()
    if len(model.outputs[0].shape) == 3:
        y = np.repeat(y[:, None], LENGTH, axis=1)
    model.compile(
        keras.optimizers.Adam(0.01),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    if len(model.inputs) == 1:
        x = x["token_ids"]
    model.fit(x, y, batch_size=8, epochs=3, shuffle=False, verbose=0)


@pytest.mark.parametrize(
    "name",
    variants.in_ci(MODELS, "a map", "n-grams", "sequential", "twice"),
)
def test_the_training_is_the_same(name):
    plain, other = (made(MODELS[name]) for _ in range(2))
    before = [np.asarray(weight) for weight in plain.weights]
    # As a run does it, where a map is multiplied into what reads it, too.
    with pruning.merged(plain):
        fitted(plain)
    with pruning.occurring(other, rows()[0]) as small:
        assert small.count_params() < 0.6 * other.count_params()
        with pruning.merged(small):
            fitted(small)
    for start, whole, ours in zip(before, plain.weights, other.weights):
        assert (start != np.asarray(whole)).any()
        # Adam makes a step of a gradient that is rounding alone, by XLA.
        np.testing.assert_allclose(
            np.asarray(ours), np.asarray(whole), rtol=1e-3, atol=1e-3
        )


def test_rows_that_are_not_read_are_as_they_were():
    model = made(of_tables)
    table = model.layers[1].embeddings
    before = np.asarray(table)
    with pruning.occurring(model, rows()[0], rows(9, seed=1)[0]) as small:
        fitted(small)
    read = np.unique(
        [*rows()[0]["token_ids"].flat, *rows(9, seed=1)[0]["token_ids"].flat]
    )
    assert small.layers[-3].input_dim == len(read)
    moved = (np.asarray(table) != before).any(axis=1)
    assert set(np.flatnonzero(moved)) == set(rows()[0]["token_ids"].flat)


def test_what_was_learnt_before_an_error_stays():
    model = made(of_tables)
    table = model.layers[1].embeddings
    before = np.asarray(table)

    def interrupted():
        with pruning.occurring(model, rows()[0]) as small:
            fitted(small)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (np.asarray(table) != before).any()


@pytest.mark.parametrize("policy", ["float32", "mixed_float16"])
def test_rows_may_be_floats(policy):
    """As a `keras.Input` is without a dtype; float16 would round the rows."""
    ids = keras.Input((LENGTH,), name="token_ids")
    x = layers.Embedding(6000, 32, dtype=policy)(ids)
    model = keras.Model(ids, layers.GlobalAveragePooling1D()(x))
    x = 2051 + 2 * np.arange(4 * LENGTH).reshape(4, LENGTH)
    expected = model.predict(x, verbose=0)
    with pruning.occurring(model, {"token_ids": x}) as small:
        assert small is not model
        np.testing.assert_array_equal(small.predict(x, verbose=0), expected)


class Tied(layers.Layer):
    """Reads a table that another layer has."""

    def __init__(self, table):
        super().__init__()
        self.table = table

    def call(self, x):
        return keras.ops.matmul(
            x, keras.ops.transpose(self.table.embeddings[:3])
        )


def tied():
    ids = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    table = layers.Embedding(VOCABULARY, WIDTH)
    x = layers.GlobalAveragePooling1D()(table(ids))
    return keras.Model(ids, Tied(table)(x))


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.inside = of_tables()

    def call(self, inputs):
        return self.inside(inputs)


WHOLE = {
    "mask": lambda: of_tables(mask_zero=True),
    "penalty": lambda: of_tables(embeddings_regularizer="l2"),
    "constraint": lambda: of_tables(embeddings_constraint="unit_norm"),
    "frozen": lambda: of_tables(trainable=False),
    "tied": tied,
    "subclassed": Subclassed,
    "rounded": lambda: QuantizationAware(of_tables(), weights="int8"),
    "small": lambda: students.text_cnn(3, (70, WIDTH), filters=4),
    "no table": lambda: students.conv_net(3, (8, 8, 3)),
}


@pytest.mark.parametrize("name", WHOLE)
def test_other_models_are_trained_as_they_are(name):
    model = WHOLE[name]()
    x = rows()[0]
    x["token_ids"] = x["token_ids"] % 70
    with pruning.occurring(model, x) as small:
        assert small is model


class Foreign(layers.Layer):
    """Has no configuration."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def call(self, x):
        return self.factor * x


def test_layers_of_all_kinds_are_shared():
    ids = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    x = layers.Embedding(VOCABULARY, WIDTH)(ids)
    x = Foreign(np.float32(2.0))(layers.GlobalAveragePooling1D()(x))
    model = keras.Model(ids, layers.Dense(3, name="last")(x))
    with pruning.occurring(model, rows()[0]) as small:
        assert small is not model
        assert small.get_layer("last") is model.get_layer("last")


@pytest.mark.parametrize(
    "recipe", variants.in_ci(["hard", "kd", "pooled"], "pooled")
)
def test_a_cell_is_trained_so_and_as_with_all_rows(monkeypatch, recipe):
    def build(task, teacher):
        del teacher
        table = VOCABULARY, WIDTH
        return students.text_cnn(task.num_outputs, table, filters=4)

    def noted(model, *inputs):
        used.append(len(inputs))
        return occurring(model, *inputs)

    task = tiny_text.task()
    bench = Bench(task, tiny_text.teacher(task, tiny_text.encoder(task)))
    student = students.Custom(builder=build, epochs=2)
    recipe = getattr(recipes, recipe)()
    cell = Cell("c", "c", "CNN", student, "arm", recipe, seed=0).for_task(task)
    occurring, used = pruning.occurring, []
    monkeypatch.setattr(pruning, "occurring", noted)
    found = bench.fit(cell)
    assert used == [2]
    monkeypatch.setattr(
        pruning, "occurring", lambda model, *_: contextlib.nullcontext(model)
    )
    plain = bench.fit(cell)
    assert found.curves.keys() == plain.curves.keys()
    for name, values in plain.curves.items():
        assert found.curves[name] == pytest.approx(values, rel=1e-4), name
    for ours, held in zip(
        found.student.get_weights(), plain.student.get_weights()
    ):
        np.testing.assert_allclose(ours, held, rtol=1e-4, atol=1e-6)


def test_a_distiller_matches_states_of_the_table():
    teacher, student = (made(MODELS["a map"]) for _ in range(2))
    loss = kd.losses.HiddenMSE()
    match = kd.Match("token_projection", "token_projection", loss)
    with pruning.occurring(student, rows()[0]) as small:
        distiller = kd.Distiller(teacher, small, matches=[match])
        distiller.compile(
            "adam", soft_loss=kd.losses.ForwardKL(), hard_weight=0.0
        )
        x, y = rows()
        history = distiller.fit(x, y, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
