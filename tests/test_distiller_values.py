"""The loss of a step and its gradient, against NumPy in float64."""

import keras
import numpy as np
import pytest
import tiny
from scipy.special import log_softmax
from scipy.special import softmax

from keras_distill import losses
from keras_distill.matching import Match

X, Y = tiny.data(8)
TEMPERATURE = 3.0
L2 = 0.01


def cross_entropy(logits, weights):
    values = -log_softmax(logits, -1)[np.arange(len(Y)), Y]
    return (values * weights).mean()


def forward_kl(teacher, student, weights):
    p, q = (log_softmax(x / TEMPERATURE, -1) for x in (teacher, student))
    values = TEMPERATURE**2 * (np.exp(p) * (p - q)).sum(-1)
    return (values * weights).mean()


def terms(teacher, weights, rows):
    """All terms for the student and projection with these six weights."""
    kernel, bias, head, head_bias, projection, offset = weights
    t_hidden, t_logits = teacher
    hidden = np.tanh(X.astype("float64") @ kernel + bias)
    logits = hidden @ head + head_bias
    squares = np.square(hidden @ projection + offset - t_hidden).mean(-1)
    return {
        "hard": cross_entropy(logits, rows),
        "soft": forward_kl(t_logits, logits, rows),
        "hidden": (squares * rows).mean(),
        "regulariser": L2 * np.square(kernel).sum(),
    }


FACTORS = {"hard": 0.3, "soft": 0.7, "hidden": 2.0, "regulariser": 1.0}


def make(**kwargs):
    teacher = tiny.mlp(6, seed=5)
    student = tiny.mlp(4, seed=9, kernel_regularizer=keras.regularizers.L2(L2))
    match = Match(
        "hidden", "hidden", keras.losses.MeanSquaredError(), 2.0, name="hidden"
    )
    return tiny.distiller(
        teacher,
        student,
        [match],
        soft_loss=losses.ForwardKL(TEMPERATURE),
        hard_weight=0.3,
        soft_weight=0.7,
        **kwargs,
    )


def reference(distiller, rows):
    teacher = distiller.teacher
    kernel, bias, head, head_bias = (
        v.astype("float64") for v in tiny.values(teacher)
    )
    hidden = np.tanh(X @ kernel + bias)
    states = hidden, hidden @ head + head_bias

    def total(weights):
        found = terms(states, weights, rows)
        return sum(FACTORS[name] * value for name, value in found.items())

    return total, lambda weights: terms(states, weights, rows)


def weights_of(distiller):
    variables = [
        *distiller.student.variables,
        *distiller.projections[0].variables,
    ]
    return variables, [v.astype("float64") for v in tiny.values(variables)]


def numeric_gradient(function, weights, epsilon=1e-6):
    gradients = []
    for weight in weights:
        gradient = np.zeros_like(weight)
        for index in np.ndindex(weight.shape):
            value = weight[index]
            weight[index] = value + epsilon
            above = function(weights)
            weight[index] = value - epsilon
            gradient[index] = (above - function(weights)) / (2 * epsilon)
            weight[index] = value
        gradients.append(gradient)
    return gradients


@pytest.mark.parametrize("rows", [None, np.arange(8) % 3 / 2.0])
def test_logs_and_gradient_of_one_step(rows):
    distiller = make(optimizer=keras.optimizers.SGD(1.0))
    total, parts = reference(distiller, np.ones(8) if rows is None else rows)
    variables, weights = weights_of(distiller)
    expected = parts(weights)
    logs = distiller.train_on_batch(X, Y, sample_weight=rows, return_dict=True)
    assert sorted(logs) == ["hard_loss", "hidden", "loss", "soft_loss"]
    for name in ("hard", "soft", "hidden"):
        key = name if name == "hidden" else f"{name}_loss"
        assert float(logs[key]) == pytest.approx(
            expected[name], rel=1e-5, abs=1e-6
        )
    assert float(logs["loss"]) == pytest.approx(
        total(weights), rel=1e-5, abs=1e-6
    )
    gradients = numeric_gradient(total, weights)
    for before, after, gradient in zip(
        weights, tiny.values(variables), gradients
    ):
        np.testing.assert_allclose(
            before - after, gradient, rtol=1e-3, atol=1e-6
        )


def test_logs_are_means_over_the_epoch():
    distiller = make(optimizer=keras.optimizers.SGD(0.0))
    total, parts = reference(distiller, np.ones(8))
    _, weights = weights_of(distiller)
    history = distiller.fit(X, Y, batch_size=3, verbose=0).history
    assert history["soft_loss"] == pytest.approx(
        [parts(weights)["soft"]], rel=1e-5, abs=1e-6
    )
    assert history["loss"] == pytest.approx(
        [total(weights)], rel=1e-5, abs=1e-6
    )


def test_a_factor_multiplies_the_base_weight():
    distiller = make(optimizer=keras.optimizers.SGD(0.0))
    _, parts = reference(distiller, np.ones(8))
    expected = parts(weights_of(distiller)[1])
    distiller.schedules.factors["soft"].assign(0.5)
    distiller.schedules.factors["hidden"].assign(0.0)
    logs = distiller.train_on_batch(X, Y, return_dict=True)
    assert float(logs["loss"]) == pytest.approx(
        0.3 * expected["hard"]
        + 0.35 * expected["soft"]
        + expected["regulariser"],
        rel=1e-5,
        abs=1e-6,
    )
    assert float(logs["soft_loss"]) == pytest.approx(
        expected["soft"], rel=1e-5, abs=1e-6
    )
    assert float(distiller.schedules.weights_by_term["soft"]) == (
        pytest.approx(0.7)
    )


@keras.saving.register_keras_serializable(package="tests")
class AddsLoss(keras.layers.Layer):
    def call(self, inputs):
        self.add_loss(0.5 * keras.ops.mean(keras.ops.square(inputs)))
        return inputs


def test_the_students_own_losses_stay():
    inputs = keras.Input((tiny.FEATURES,))
    x = keras.layers.Dense(4, activity_regularizer="l2", name="hidden")(inputs)
    x = AddsLoss()(x)
    student = keras.Model(inputs, keras.layers.Dense(tiny.CLASSES)(x))
    distiller = tiny.distiller(tiny.mlp(), student)
    student(X)
    own = float(sum(keras.ops.sum(loss) for loss in student.losses))
    assert own > 0.01
    logs = distiller.train_on_batch(X, Y, return_dict=True)
    rest = 0.5 * (float(logs["hard_loss"]) + float(logs["soft_loss"]))
    assert float(logs["loss"]) == pytest.approx(own + rest, rel=1e-5, abs=1e-6)


def mean_of_weighted(loss):
    return loss(reduction="mean_with_sample_weight")


@pytest.mark.parametrize("mode", ["tail", "class_weight"])
def test_a_row_of_weight_zero_is_a_row_left_out(mode):
    matches = [
        Match(
            "hidden",
            "hidden",
            mean_of_weighted(keras.losses.MeanSquaredError),
            name="hidden",
        )
    ]
    distiller = tiny.distiller(
        tiny.mlp(6),
        tiny.mlp(4),
        matches,
        optimizer=keras.optimizers.SGD(0.0),
        loss=keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, reduction="mean_with_sample_weight"
        ),
        soft_loss=mean_of_weighted(losses.ForwardKL),
    )
    if mode == "tail":
        keep = np.arange(8) < 5
        options = {"sample_weight": keep.astype("float32")}
    else:
        keep = Y != 1
        options = {"class_weight": {0: 1.0, 1: 0.0, 2: 1.0}}
    got = distiller.train_on_batch(X, Y, return_dict=True, **options)
    expected = distiller.train_on_batch(X[keep], Y[keep], return_dict=True)
    assert {k: float(v) for k, v in got.items()} == pytest.approx(
        {k: float(v) for k, v in expected.items()}, rel=1e-5, abs=1e-6
    )


@pytest.mark.parametrize("weight", [0.0, 2.0])
def test_weights_that_are_all_alike_scale_each_term(weight):
    distiller = make(optimizer=keras.optimizers.SGD(0.0))
    plain = distiller.train_on_batch(X, Y, return_dict=True)
    got = distiller.train_on_batch(
        X, Y, sample_weight=np.full(8, weight), return_dict=True
    )
    for name in ("hard_loss", "soft_loss", "hidden"):
        assert float(got[name]) == pytest.approx(
            weight * float(plain[name]), rel=1e-5, abs=1e-6
        )


def test_the_soft_loss_alone_pulls_towards_the_teacher():
    teacher, student = tiny.mlp(8), tiny.mlp(6)
    distiller = tiny.distiller(
        teacher,
        student,
        loss=None,
        soft_weight=1.0,
        optimizer=keras.optimizers.Adam(0.05),
    )
    history = distiller.fit(X, epochs=40, verbose=0).history
    assert sorted(history) == ["loss", "soft_loss"]
    assert history["soft_loss"][-1] < 0.05 * history["soft_loss"][0]
    gap = softmax(teacher(X), -1) - softmax(student(X), -1)
    assert np.abs(gap).max() < 0.1


def test_a_student_equal_to_its_teacher_has_no_soft_loss():
    teacher, student = tiny.mlp(6), tiny.mlp(6)
    for variable, source in zip(student.variables, teacher.variables):
        variable.assign(tiny.array(source))
    match = Match("hidden", "hidden", keras.losses.MeanSquaredError())
    distiller = tiny.distiller(teacher, student, [match])
    assert distiller.projections == []
    logs = distiller.train_on_batch(X, Y, return_dict=True)
    assert float(logs["soft_loss"]) == pytest.approx(0, abs=1e-6)
    assert float(logs[distiller.matches[0].name]) == 0


def test_a_constant_on_the_teachers_logits_changes_nothing():
    teacher = tiny.mlp(6)
    distiller = tiny.distiller(
        teacher, tiny.mlp(4), optimizer=keras.optimizers.SGD(0.0)
    )
    first = distiller.train_on_batch(X, Y, return_dict=True)
    teacher.get_layer("logits").bias.assign([5.0, 5.0, 5.0])
    second = distiller.train_on_batch(X, Y, return_dict=True)
    assert float(first["soft_loss"]) == pytest.approx(
        float(second["soft_loss"]), rel=1e-4
    )


def test_the_teachers_values_are_read_in_each_step():
    teacher = tiny.mlp(6)
    distiller = tiny.distiller(
        teacher, tiny.mlp(4), optimizer=keras.optimizers.SGD(0.0)
    )
    distiller.train_on_batch(X, Y)
    traces = distiller.traces
    for variable in teacher.variables:
        variable.assign(2.0 * variable)
    logs = distiller.train_on_batch(X, Y, return_dict=True)
    assert distiller.traces == traces
    expected = losses.ForwardKL(2.0)(teacher(X), distiller.student(X))
    assert float(logs["soft_loss"]) == pytest.approx(float(expected), rel=1e-4)
