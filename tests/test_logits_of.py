"""Classifiers that end in probabilities, as models of logits."""

import keras
import keras_hub
import numpy as np
import pytest
import tiny_images
import tiny_text
from keras import layers
from keras import ops

import keras_distill as kd
from keras_distill._errors import UsageError
from keras_distill._logits import logits_of
from keras_distill.experiments.teaching import Teacher
from keras_distill.tasks import presets

X = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")


def functional(units, end):
    x = keras.Input((4,))
    return keras.Model(x, end(layers.Dense(5, "relu")(x), units))


def nested(end):
    def build(units):
        inner = functional(units, end)
        x = keras.Input((4,))
        return keras.Model(x, inner(layers.Rescaling(2.0)(x)))

    return build


def within(end):
    return lambda units: functional(units, end)


ENDS = {
    "in the dense layer": lambda x, units: layers.Dense(units, "softmax")(x),
    "a layer": lambda x, units: layers.Softmax()(layers.Dense(units)(x)),
    "an activation": lambda x, units: layers.Activation("softmax")(
        layers.Dense(units)(x)
    ),
    "an operation": lambda x, units: ops.softmax(layers.Dense(units)(x)),
}
BUILDERS = {name: within(end) for name, end in ENDS.items()}
BUILDERS |= {f"nested: {name}": nested(end) for name, end in ENDS.items()}
BUILDERS["sequential"] = lambda units: keras.Sequential(
    [keras.Input((4,)), layers.Dense(5), layers.Dense(units, "softmax")]
)
BUILDERS["within a Sequential"] = lambda units: keras.Sequential(
    [keras.Input((4,)), BUILDERS["sequential"](units)]
)


@pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
def test_a_softmax_is_taken_off(build):
    model = build(3)
    found = logits_of(model, "classes", 3)
    logits = found(X)
    assert not np.allclose(np.sum(logits, axis=-1), 1, atol=1e-2)
    np.testing.assert_allclose(ops.softmax(logits), model(X), atol=1e-6)
    # The model itself is as it was, and the new one needs nothing more.
    np.testing.assert_allclose(np.sum(model(X), axis=-1), 1, atol=1e-6)
    assert logits_of(found, "classes", 3) is found


@pytest.mark.parametrize("activation", ["sigmoid", None])
def test_one_unit_stands_for_two_classes(activation):
    model = functional(1, lambda x, units: layers.Dense(units, activation)(x))
    found = logits_of(model, "classes", 2)
    second = ops.softmax(found(X))[:, 1]
    expected = model(X)[:, 0]
    if activation is None:
        expected = ops.sigmoid(expected)
    np.testing.assert_allclose(second, expected, atol=1e-6)


def test_of_labels_a_sigmoid_is_taken_off():
    model = functional(3, lambda x, units: layers.Dense(units, "sigmoid")(x))
    found = logits_of(model, "labels", 3)
    np.testing.assert_allclose(ops.sigmoid(found(X)), model(X), atol=1e-6)


def test_other_activations_stay():
    bounded = functional(3, lambda x, units: layers.Dense(units, "sigmoid")(x))
    for over, outputs in [("classes", 3), ("anything", 3), (None, 3)]:
        assert logits_of(bounded, over, outputs) is bounded
    score = functional(1, lambda x, units: layers.Dense(units, "sigmoid")(x))
    assert logits_of(score, None, 1) is score
    hidden = functional(3, lambda x, u: layers.Dense(u)(ops.softmax(x)))
    assert logits_of(hidden, "classes", 3) is hidden


def with_softmax(model):
    return keras.Model(model.input, ops.softmax(model.output))


def test_a_teacher_of_text_teaches_its_logits():
    task, model = tiny_text.task(), tiny_text.network()
    expected = Teacher.of(task, model).logits
    found = Teacher.of(task, with_softmax(model)).logits
    for part, logits in expected.items():
        np.testing.assert_allclose(found[part], logits, atol=1e-6)


def test_a_kerashub_classifier_with_a_softmax():
    task = tiny_text.task()
    backbone = tiny_text.encoder(task).layers
    (backbone,) = (
        x for x in backbone if isinstance(x, keras_hub.models.Backbone)
    )
    model = keras_hub.models.BertTextClassifier(
        backbone, num_classes=2, activation="softmax", dropout=0.0
    )
    found = task.adapted(model)
    rows = task.encoded["dev"].inputs
    np.testing.assert_allclose(ops.softmax(found(rows)), model(rows), atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_preset_with_a_softmax_gives_logits(tmp_path, classes):
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=9,
        num_layers=1,
        num_heads=1,
        hidden_dim=4,
        intermediate_dim=4,
        max_sequence_length=8,
    )
    saved = keras_hub.models.BertTextClassifier(
        backbone, num_classes=2, activation="softmax"
    )
    saved.save_to_preset(str(tmp_path))
    model, knows = presets.classifier(
        keras_hub.models.TextClassifier, str(tmp_path), classes
    )
    assert knows == (classes == 2)
    rows = {
        name: np.ones((2, 8), "int32")
        for name in ("token_ids", "segment_ids", "padding_mask")
    }
    logits = model(rows)
    assert not np.allclose(np.sum(logits, axis=-1), 1, atol=1e-3)
    if knows:
        np.testing.assert_allclose(ops.softmax(logits), saved(rows), atol=1e-6)


def test_images_of_a_model_with_a_softmax():
    task = tiny_images.task("none")
    model = tiny_images.network()
    expected = tiny_images.teacher(task, model).logits
    found = tiny_images.teacher(task, with_softmax(model)).logits
    np.testing.assert_allclose(found["test"], expected["test"], atol=1e-5)


class Unseen(keras.Model):
    """A softmax that no graph shows."""

    def __init__(self):
        super().__init__()
        self.inner = tiny_text.network()

    def call(self, x):
        return ops.softmax(self.inner(x))


def test_probabilities_are_refused():
    task = tiny_text.task()
    with pytest.raises(ValueError, match="must give logits.*sum is 1"):
        task.check_teacher(Unseen())
    with pytest.raises(UsageError, match="must give logits.*logarithm"):
        kd.distill(task, Unseen(), tiny_text.SMALL, "never")
    task.check_teacher(tiny_text.network())
