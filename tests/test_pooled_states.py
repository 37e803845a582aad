"""The recipe whose student predicts the teacher's averaged states."""

import dataclasses

import keras
import keras_hub
import numpy as np
import pytest
import tiny_images
import tiny_text
import variants
from keras import layers

import keras_distill as kd
from keras_distill import recipes
from keras_distill import students
from keras_distill import taps
from keras_distill._errors import UsageError
from keras_distill.experiments import configurations
from keras_distill.experiments import defaults
from keras_distill.experiments import training
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import Cell
from keras_distill.experiments.signals import Signals
from keras_distill.recipes.pooled_states import NAME
from keras_distill.recipes.pooled_states import PLACE
from keras_distill.recipes.pooled_states import AveragedStates
from keras_distill.recording import record

LAYERS = 3
SMALL = students.TextCNN(width=4, epochs=4, batch_size=8, learning_rate=1e-2)


@pytest.fixture(scope="module")
def task():
    return tiny_text.task()


@pytest.fixture(scope="module")
def teacher(task):
    keras.utils.set_random_seed(3)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(tiny_text.VOCABULARY),
        num_layers=LAYERS,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=8,
        max_sequence_length=8,
    )
    model = students.mean_pooled_classifier(backbone, num_classes=2)
    return tiny_text.teacher(task, model)


@pytest.fixture(scope="module")
def signals(task, teacher):
    return Signals(task, teacher)


def in_numpy(teacher, inputs, of):
    """The means over the tokens, from a model of many outputs."""
    (backbone,) = (
        layer
        for layer in teacher.layers
        if isinstance(layer, keras_hub.models.Backbone)
    )
    states = [backbone.transformer_layers[i].output for i in of]
    outputs = keras.Model(backbone.input, states).predict(inputs, verbose=0)
    mask = np.asarray(inputs["padding_mask"], "float64")[..., None]
    means = [
        (np.asarray(held, "float64") * mask).sum(1) / mask.sum(1)
        for held in outputs
    ]
    return np.concatenate(means, axis=-1)


def test_what_the_teacher_says(task, teacher, signals):
    recipe = recipes.pooled().with_transfer()
    rows, signal = signals.rows(recipe, task.labels(None, 0))
    assert set(signal) == {"logits", NAME}
    assert len(rows) == len(signal[NAME]) == 24 + len(tiny_text.TRANSFER)
    # After two thirds of three layers, and after the last one.
    expected = in_numpy(teacher.model, task.taught().inputs, of=[1, 2])
    expected -= expected.mean(axis=0)
    expected /= expected.std()
    np.testing.assert_allclose(signal[NAME], expected, atol=1e-2)
    again = signals.rows(recipe, task.labels(None, 0))[1]
    assert again[NAME] is signal[NAME]


def test_rows_without_transfer_are_those_with_a_label(task, signals):
    whole = signals.rows(recipes.pooled(), task.labels(None, 0))[1][NAME]
    labels = task.labels(6, 0)
    rows, signal = signals.rows(recipes.pooled(), labels)
    assert len(rows) == 6
    known = np.flatnonzero(kd.data.has_label(labels))
    np.testing.assert_array_equal(signal[NAME], whole[known])
    assert set(signals.rows(recipes.kd(), labels)[1]) == {"logits"}


def test_states_of_batches_are_those_of_their_rows(task, signals):
    rows, signal = signals.rows(recipes.pooled(), task.labels(None, 0))
    taught = dict(zip(map(tuple, rows.inputs["token_ids"]), signal[NAME]))
    for x, _ in training.batches(rows, 8, 0, signal).take(3):
        found = x["teacher_signal"][NAME].numpy()
        assert found.dtype == "float32"
        for ids, row in zip(x["student"]["token_ids"].numpy(), found):
            padded = tuple(np.pad(ids, (0, 8 - len(ids))))
            np.testing.assert_array_equal(row, taught[padded])


def cell(recipe, student=SMALL):
    return Cell("a", "A", student.title, student, recipe.name, recipe, 0)


@pytest.mark.parametrize(
    "student",
    [
        SMALL,
        variants.exhaustive(
            students.BiLSTM(width=4, epochs=4, batch_size=8, learning_rate=1e-2)
        ),
        variants.exhaustive(
            students.NGram(width=4, epochs=4, batch_size=8, learning_rate=1e-2)
        ),
        dataclasses.replace(SMALL, embeddings="vectors", embedding_rank=4),
        variants.exhaustive(dataclasses.replace(SMALL, quantization="int8")),
    ],
    ids=["text_cnn", "bilstm", "ngram", "with a map", "under rounding"],
)
def test_students_learn_the_states(task, teacher, student):
    fitted = Bench(task, teacher).fit(cell(recipes.pooled(), student))
    values = fitted.curves[NAME]
    assert values[-1] < values[0]
    assert fitted.best.failure is None
    # The map to the states is none of the student's own weights.
    bare = Bench(task, teacher).fit(cell(recipes.kd(), student)).student
    assert fitted.student.count_params() == bare.count_params()


def test_states_of_no_weight_change_nothing(task, teacher):
    def weights(recipe):
        return Bench(task, teacher).fit(cell(recipe)).student.get_weights()

    plain = weights(recipes.kd())
    for ours, theirs in zip(weights(recipes.pooled(weight=0.0)), plain):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)
    changed = weights(recipes.pooled())
    assert not all(map(np.allclose, changed, plain))


def test_the_teacher_runs_once(task, teacher, monkeypatch):
    recipe = recipes.pooled()
    assert not recipe.needs_model(task)
    assert not recipe.matches_layers
    assert recipes.hidden().matches_layers
    bench = Bench(task, teacher)
    bench.fit(cell(recipe))

    def fail(*args, **kwargs):
        raise AssertionError("the teacher ran again")

    monkeypatch.setattr(AveragedStates, "call", fail)
    bench.fit(cell(recipe))


def test_what_it_is_made_with(task, teacher):
    bench = Bench(task, teacher)
    made = {
        name: configurations.configuration(
            bench.made_with(cell(recipe))["recipe"]
        )
        for name, recipe in [
            ("kd", recipes.kd()),
            ("one", recipes.pooled()),
            ("same", recipes.pooled()),
            ("two", recipes.pooled(weight=1.0)),
        ]
    }
    assert made["one"] == made["same"] != made["two"]
    assert "signals" in made["one"]
    assert "signals" not in made["kd"]


class Subclassed(keras.Model):
    """A model without a graph, with a vector before its last layer."""

    def __init__(self):
        super().__init__()
        self.first = layers.Dense(3)
        self.dropout = layers.Dropout(0.5, name="dropout")
        self.last = layers.Dense(2)

    def call(self, x):
        return self.last(self.dropout(inputs=self.first(x)))


def functional():
    x = keras.Input((4,))
    y = layers.Dropout(0.5, name="dropout")(layers.Dense(3)(x))
    return keras.Model(x, layers.Dense(2)(y))


def sequential():
    dropout = layers.Dropout(0.5, name="dropout")
    return keras.Sequential(
        [keras.Input((4,)), layers.Dense(3), dropout, layers.Dense(2)]
    )


@pytest.mark.parametrize("build", [functional, sequential, Subclassed])
def test_a_tap_of_what_a_layer_reads(build):
    model, x = build(), np.ones((2, 4), "float32")
    model(x)
    (first,) = (
        layer
        for layer in model._flatten_layers()
        if isinstance(layer, layers.Dense) and layer.units == 3
    )
    tap, given = taps.resolve(model, PLACE), taps.resolve(model, "dropout")
    assert str(tap) == PLACE
    with record([tap, given]) as recording:
        model(x, training=True)
    np.testing.assert_array_equal(recording.value(tap), first(x))
    assert not np.array_equal(recording.value(given), first(x))
    assert recording.mask(tap) is None


def headless(task, teacher):
    """A student that ends in a way of its own."""
    del task, teacher
    model = tiny_text.network()
    read = model.get_layer("dropout").input
    return keras.Model(model.inputs, layers.Dense(2)(read))


def test_what_is_refused(task, teacher, tmp_path):
    recipe = recipes.pooled()

    def run(student, teacher, task=task):
        kd.distill(task, teacher, student, tmp_path, recipe=recipe)

    with pytest.raises(UsageError, match="one vector for each text"):
        run(headless, teacher)
    with pytest.raises(UsageError, match="model around one\n?.*backbone"):
        run(SMALL, tiny_text.teacher(task))
    with pytest.raises(UsageError, match="not its logits alone"):
        run(SMALL, tiny_text.logits_alone(teacher))
    images = tiny_images.task("none")
    with pytest.raises(UsageError, match="backbone"):
        run(tiny_images.SMALL, tiny_images.teacher(images), images)
    with pytest.raises(ValueError, match="weight=-1"):
        recipes.pooled(weight=-1)


def test_where_it_is_the_default(task, teacher):
    def chosen(student, model=teacher.model, task=task):
        return defaults.of_recipe(task, student, model)

    assert chosen(SMALL) == chosen(students.BiLSTM()) == "pooled"
    assert chosen(students.NGram()) == "kd"
    assert chosen(students.Shrink()) == "kd"
    assert chosen(students.Custom(builder=headless)) == "kd"
    assert chosen(SMALL, tiny_text.network()) == "kd"
    assert chosen(SMALL, None) == "kd"
    assert chosen(tiny_images.SMALL, task=tiny_images.task()) == "kd"
    assert chosen(SMALL, task=kd.tasks.TokenClassification) == "kd"
    assert chosen(SMALL, task=kd.tasks.TextVectors) == "kd"
    assert chosen(SMALL, task=kd.tasks.PairClassification) == "kd"


def test_distill_takes_it_by_itself(task, teacher, tmp_path):
    found = kd.distill(task, teacher, SMALL, tmp_path, export=False)
    learnt = {row["arm"]: row["learns_from"] for row in found["rows"]}
    assert "averaged over a text" in learnt["distilled"]
    assert "averaged" not in learnt["control"]
