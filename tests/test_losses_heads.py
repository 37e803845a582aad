"""Every loss on logits under every head: refused or trained, as it says."""

import functools

import keras
import numpy as np
import pytest
import tiny
import tiny_gkd

from keras_distill import cache
from keras_distill import losses
from keras_distill.gkd.arguments import divergence_function

X, Y = tiny.data(8)
MULTI_HOT = np.eye(tiny.CLASSES, dtype="float32")[Y]
# What is exported, so that nobody can forget to add a new one here.
LOSSES = {
    name: kind
    for name, kind in vars(losses).items()
    if isinstance(kind, type)
    and issubclass(kind, losses.LogitsLoss)
    and kind is not losses.LogitsLoss
}
HEADS = {
    "logits": (3, None),
    "softmax": (3, "softmax"),
    "sigmoid": (3, "sigmoid"),
    "one unit": (1, None),
    "other width": (2, None),
}


def layers(units, activation):
    hidden = keras.layers.Dense(4, "tanh")
    return [hidden, keras.layers.Dense(units, activation)]


def functional(units, activation):
    inputs = keras.Input((tiny.FEATURES,))
    hidden, head = layers(units, activation)
    return keras.Model(inputs, head(hidden(inputs)))


def sequential(units, activation):
    return keras.Sequential(
        [keras.Input((tiny.FEATURES,)), *layers(units, activation)]
    )


def sequential_built_later(units, activation):
    model = keras.Sequential(layers(units, activation))
    model(X)
    return model


class Subclassed(keras.Model):
    def __init__(self, units, activation):
        super().__init__()
        self.hidden, self.head = layers(units, activation)

    def call(self, inputs):
        return self.head(self.hidden(inputs))


def subclassed(units, activation):
    model = Subclassed(units, activation)
    model(X)
    return model


KINDS = {
    "functional": functional,
    "sequential": sequential,
    "subclassed": subclassed,
}


@functools.cache
def pair(kind, teacher_head, student_head):
    return kind(*teacher_head), kind(*student_head)


def train(kind, loss, teacher_head, student_head):
    """A student, and a callable that trains it and gives the loss."""
    teacher, student = pair(kind, teacher_head, student_head)

    def run():
        model = tiny.distiller(
            teacher, student, loss=None, soft_loss=loss, run_eagerly=True
        )
        return model.train_on_batch(X, Y, return_dict=True)["soft_loss"]

    return student, run


def test_all_are_found():
    assert {"ForwardKL", "DKD", "TotalVariation", "BinaryKL"} <= set(LOSSES)
    assert len(LOSSES) >= 21


@pytest.mark.parametrize("name", LOSSES)
def test_what_a_loss_says(name):
    kind = LOSSES[name]
    assert kind.over in ("classes", "labels", "vectors", "anything")
    assert kind().takes_one_unit == (kind.over in ("labels", "anything"))


def refused(loss, head):
    """Part of the message for this head, or None where it trains."""
    units, activation = HEADS[head]
    if activation is not None:
        return f"`{loss.title}` needs logits, the student "
    if units == 1 and not loss.takes_one_unit:
        why = {
            "classes": "softmax is constant",
            "vectors": "direction is a sign",
        }
        return f"has one unit, whose {why[loss.over]}"
    return None


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("name", LOSSES)
def test_refused_or_trained_as_declared(name, head, kind):
    loss = LOSSES[name]()
    width = HEADS["logits" if head == "other width" else head][0]
    student, run = train(KINDS[kind], loss, (width, None), HEADS[head])
    message = refused(loss, head)
    if head == "other width":
        message = "must have the same shape"
    before = tiny.values(student)
    if message is None:
        assert np.isfinite(run())
        assert not tiny.equal(before, tiny.values(student))
    else:
        with pytest.raises(ValueError, match=message):
            run()
        assert tiny.equal(before, tiny.values(student))


@pytest.mark.parametrize("kind", [sequential_built_later, Subclassed])
def test_a_student_that_was_not_built_with_its_inputs(kind):
    student = kind(1, None)
    with pytest.raises(ValueError, match="has one unit"):
        tiny.distiller(functional(1, None), student, loss=None).fit(
            X, verbose=0
        )


def test_what_can_be_read_once_is_refused_by_the_loss_itself():
    student = subclassed(1, None)
    before = tiny.values(student)
    model = tiny.distiller(subclassed(1, None), student, loss=None)
    with pytest.raises(ValueError, match="has one unit"):
        model.fit(((X, Y) for _ in "ab"), shuffle=False, verbose=0)
    if keras.backend.backend() == "tensorflow":
        # On JAX, a `fit` that raises leaves Keras' variables without values.
        assert tiny.equal(before, tiny.values(student))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("activation", ["softmax", "sigmoid"])
def test_a_teacher_of_probabilities_is_refused(kind, activation):
    loss = losses.SkewKL()
    _, run = train(KINDS[kind], loss, (3, activation), (3, None))
    with pytest.raises(ValueError, match="`SkewKL` needs logits, the teacher"):
        run()


def test_what_needs_no_logits_takes_probabilities():
    loss = keras.losses.KLDivergence()
    _, run = train(functional, loss, (3, "softmax"), (3, "softmax"))
    assert np.isfinite(run())


def test_a_layer_behind_the_head_is_seen():
    inputs = keras.Input((tiny.FEATURES,))
    nested = functional(3, "softmax")
    student = keras.Model(inputs, nested(inputs))
    with pytest.raises(ValueError, match="the student .* ends in 'softmax'"):
        tiny.distiller(tiny.mlp(), student, loss=None)
    logits = keras.layers.Dense(3)(nested(inputs))
    tiny.distiller(tiny.mlp(), keras.Model(inputs, logits), loss=None)


@pytest.mark.parametrize("name", LOSSES)
def test_a_divergence_of_tokens(name):
    loss = LOSSES[name]()
    by_token = not (loss.needs_labels or loss.relates_rows)
    if by_token and loss.over not in ("labels", "vectors"):
        found = divergence_function(loss, 0.5, 1.0, False)
        logits = np.random.default_rng(0).normal(size=(2, 5, 7))
        values = np.asarray(found(*logits))
        assert values.shape == (5,)
        assert np.all(np.isfinite(values))
    else:
        with pytest.raises(ValueError, match="one token at a time"):
            divergence_function(loss, 0.5, 1.0, False)


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (losses.DKD(), "the labels"),
        (losses.DIST(), "all tokens of a batch"),
        (cache.SparseForwardKL(), "the sparse targets of a cache"),
    ],
)
def test_a_gkd_distiller_refuses_it_when_it_is_built(loss, reason):
    with pytest.raises(ValueError, match=reason):
        tiny_gkd.distiller(divergence=loss)


HARD = {
    "a string": "sparse_categorical_crossentropy",
    "another name": keras.losses.CategoricalCrossentropy(name="ce"),
    "a function": keras.losses.binary_crossentropy,
    "focal": keras.losses.BinaryFocalCrossentropy(name="focal"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", HARD)
def test_a_hard_loss_of_probabilities_on_logits_is_refused(case, kind):
    student = KINDS[kind](3, None)
    before = tiny.values(student)
    with pytest.raises(ValueError, match=r"\(from_logits=True\)"):
        tiny.distiller(tiny.mlp(), student, loss=HARD[case]).fit(
            X, MULTI_HOT, verbose=0
        )
    assert tiny.equal(before, tiny.values(student))


@pytest.mark.parametrize(
    "loss",
    [
        keras.losses.CategoricalCrossentropy(from_logits=True, name="ce"),
        "mse",
        keras.losses.MeanSquaredError(name="categorical_crossentropy"),
    ],
)
def test_a_hard_loss_of_logits_is_not(loss):
    model = tiny.distiller(tiny.mlp(), tiny.mlp(4), loss=loss)
    assert "loss" in model.fit(X, MULTI_HOT, verbose=0).history


def test_a_hard_loss_of_probabilities_under_a_softmax():
    student = subclassed(3, "softmax")
    model = tiny.distiller(
        functional(3, "softmax"),
        student,
        loss="categorical_crossentropy",
        soft_loss=keras.losses.KLDivergence(),
    )
    assert "loss" in model.fit(X, MULTI_HOT, verbose=0).history
