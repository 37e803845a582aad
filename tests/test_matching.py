"""Projections, names and lengths of matches."""

import keras
import numpy as np
import pytest
import tiny

from keras_distill import losses
from keras_distill.matching import Match

X, Y = tiny.data(8)


def mse():
    return keras.losses.MeanSquaredError()


def still(*matches, teacher=None, student=None):
    return tiny.distiller(
        teacher or tiny.mlp(6),
        student or tiny.mlp(4),
        matches,
        optimizer=keras.optimizers.SGD(0.0),
    )


@pytest.mark.parametrize(
    ("projection", "function"),
    [
        ("auto", lambda x: x),
        ("linear", lambda x: x),
        ("relu", lambda x: np.maximum(x, 0)),
        ("tanh", np.tanh),
    ],
)
def test_a_projection_brings_the_student_to_the_teachers_width(
    projection, function
):
    match = Match("hidden", "hidden", mse(), projection=projection, name="m")
    distiller = still(match)
    (layer,) = distiller.projections
    kernel, bias = tiny.values(layer)
    assert kernel.shape == (4, 6)
    t, s = (
        tiny.array(model.get_layer("hidden")(X))
        for model in (distiller.teacher, distiller.student)
    )
    expected = np.square(function(s @ kernel + bias) - t).mean()
    logs = distiller.train_on_batch(X, Y, return_dict=True)
    assert float(logs["m"]) == pytest.approx(expected, rel=1e-5)


def test_a_layer_of_the_users_own():
    layer = keras.Sequential(
        [keras.layers.Dense(3, "relu"), keras.layers.Dense(6)]
    )
    distiller = still(Match("hidden", "hidden", mse(), projection=layer))
    assert distiller.projections == [layer]
    assert len(layer.trainable_variables) == 4
    trained = {id(v) for v in distiller.trainable_variables}
    assert {id(v) for v in layer.trainable_variables} <= trained


def test_equal_widths_and_losses_across_widths_need_none():
    distiller = still(
        Match("hidden", "hidden", mse()), student=tiny.mlp(6, seed=3)
    )
    assert distiller.projections == []
    teacher, student = tiny.bert(2, 8), tiny.bert(1, 4)
    gram = Match((1, 2), (0, 1), losses.NeuronSelectivity())
    distiller = still(gram, teacher=teacher, student=student)
    distiller.prepare(tiny.tokens()[0])
    assert distiller.projections == []


def test_one_projection_serves_both_layers_of_a_pair():
    teacher, student = tiny.bert(2, 8), tiny.bert(1, 4)
    flow = Match((0, 2), (0, 1), losses.FlowOfSolution())
    distiller = still(flow, teacher=teacher, student=student)
    distiller.prepare(tiny.tokens()[0])
    (layer,) = distiller.projections
    assert tiny.values(layer)[0].shape == (4, 8)


def test_a_projection_is_trained_and_no_part_of_the_student():
    match = Match("hidden", "hidden", mse(), weight=1.0)
    distiller = tiny.distiller(tiny.mlp(6), tiny.mlp(4), [match])
    before = tiny.values(distiller.projections[0])
    distiller.train_on_batch(X, Y)
    after = tiny.values(distiller.projections[0])
    assert not any(np.array_equal(a, b) for a, b in zip(before, after))
    assert len(distiller.student.variables) == 4


def test_names_come_from_the_loss_and_the_students_layer():
    teacher, student = tiny.bert(2, 8), tiny.bert(1, 4)
    distiller = still(
        Match(2, 1, losses.HiddenMSE()),
        Match((0, 1), (0, 1), losses.NeuronSelectivity()),
        Match(
            "transformer_layer_1/self_attention_layer:attention",
            "self_attention_layer:attention",
            losses.AttentionMSE(),
        ),
        Match(2, 1, losses.HiddenCosine(), name="mine"),
        teacher=teacher,
        student=student,
    )
    assert [match.name for match in distiller.matches] == [
        "hidden_mse_transformer_layer_0",
        "neuron_selectivity_embeddings_dropout-transformer_layer_0",
        "attention_mse_self_attention_layer_attention",
        "mine",
    ]


def sequence(length, units):
    inputs = keras.Input((length, tiny.FEATURES))
    x = keras.layers.Dense(units, name="hidden")(inputs)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, keras.layers.Dense(tiny.CLASSES)(x))


def test_a_loss_that_pools_takes_other_lengths():
    teacher, student = sequence(6, 4), sequence(3, 4)
    match = Match("hidden", "hidden", losses.PatientKD(), name="first")
    distiller = still(match, teacher=teacher, student=student)
    rng = np.random.default_rng(0)
    long, short = (
        rng.normal(size=(4, n, tiny.FEATURES)).astype("float32") for n in (6, 3)
    )
    logs = distiller.train_on_batch(
        {"teacher": long, "student": short}, Y[:4], return_dict=True
    )
    expected = losses.PatientKD()(
        teacher.get_layer("hidden")(long), student.get_layer("hidden")(short)
    )
    assert float(logs["first"]) == pytest.approx(float(expected), rel=1e-5)


def test_lengths_that_differ_in_a_batch_alone():
    teacher, student = sequence(None, 4), sequence(None, 4)
    distiller = still(
        Match("hidden", "hidden", losses.HiddenMSE(), name="states"),
        teacher=teacher,
        student=student,
    )
    batch = {
        name: np.ones((4, length, tiny.FEATURES), "float32")
        for name, length in (("teacher", 6), ("student", 3))
    }
    before = tiny.values(student)
    with pytest.raises(ValueError, match="'states'.*same sequence length"):
        distiller.train_on_batch(batch, Y[:4])
    assert tiny.equal(before, tiny.values(student))


def test_messages_name_the_match():
    for match in (
        Match("hiden", "hidden", mse(), name="mine"),
        Match("hidden", "hiden", mse(), name="mine"),
        Match("hidden", "hidden", mse(), projection=None, name="mine"),
        Match(("hidden", "logits"), ("hidden", "logits"), mse(), name="mine"),
    ):
        with pytest.raises(ValueError, match="Match 'mine'"):
            still(match)
