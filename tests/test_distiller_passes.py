"""One student and one teacher pass a step; the teacher never changes."""

import keras
import numpy as np
import pytest
import tiny

from keras_distill import taps
from keras_distill.matching import Match
from keras_distill.teachers import Ensemble

MODES = {
    "graph": {},
    "jit": {"jit_compile": True},
    "eager": {"run_eagerly": True},
}


def wrapped(model):
    """The model inside a model inside a model."""
    for _ in range(2):
        inputs = keras.Input((tiny.FEATURES,))
        model = keras.Model(inputs, model(inputs))
    return model


MODELS = {
    "functional": (tiny.mlp, "hidden", tiny.data),
    "nested": (lambda n=8: wrapped(tiny.mlp(n)), "hidden", tiny.data),
    "sequential": (tiny.sequential, "hidden", tiny.data),
    "subclassed": (tiny.subclassed, "hidden", tiny.data),
    "task": (
        lambda n=8: tiny.bert(2, n),
        "transformer_layer_0",
        lambda: tiny.tokens(16),
    ),
}
# The other combinations take longer and add little.
QUICK = {("task", "eager"), ("nested", "graph"), ("subclassed", "graph")}
QUICK |= {("sequential", "eager"), ("functional", "graph")}
CASES = [
    pytest.param(
        kind, mode, marks=[] if (kind, mode) in QUICK else [pytest.mark.large]
    )
    for kind in MODELS
    for mode in MODES
]


def innermost(model, name):
    return taps.resolve(model, name).layer


@pytest.mark.parametrize(("kind", "mode"), CASES)
def test_one_pass_of_each_model_per_step(kind, mode):
    make, layer, data = MODELS[kind]
    teacher, student = make(16), make(8)
    matches = [
        Match(layer, layer, keras.losses.MeanSquaredError(), name="first"),
        Match(layer, layer, keras.losses.MeanAbsoluteError(), name="second"),
    ]
    distiller = tiny.distiller(teacher, student, matches, **MODES[mode])
    x, y = data()
    with (
        tiny.passes(innermost(teacher, layer)) as of_teacher,
        tiny.passes(innermost(student, layer)) as of_student,
    ):
        distiller.train_on_batch(x, y)  # Keras' symbolic passes are over.
        teacher_passes, student_passes = (
            of_teacher.executed,
            of_student.executed,
        )
        distiller.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
        assert of_teacher.executed - teacher_passes == 8
        assert of_student.executed - student_passes == 8


@pytest.mark.parametrize("kind", ["functional", "nested"])
def test_evaluate_and_predict_run_the_student_alone(kind):
    make, layer, data = MODELS[kind]
    teacher, student = make(16), make(8)
    distiller = tiny.distiller(teacher, student, metrics=["accuracy"])
    x, y = data()
    with tiny.passes(innermost(teacher, layer)) as of_teacher:
        logs = distiller.evaluate(x, y, verbose=0, return_dict=True)
        predicted = distiller.predict(x, verbose=0)
    assert of_teacher.calls == 0
    assert sorted(logs) == ["accuracy", "loss"]
    np.testing.assert_allclose(predicted, student.predict(x, verbose=0))
    student.compile(loss=tiny.CROSS_ENTROPY, metrics=["accuracy"])
    alone = student.evaluate(x, y, verbose=0, return_dict=True)
    assert logs == pytest.approx(alone, rel=1e-6)


def test_the_teacher_does_not_run_when_no_term_needs_it():
    teacher, student = tiny.mlp(16), tiny.mlp(8)
    match = Match("hidden", "hidden", keras.losses.MeanSquaredError())
    distiller = tiny.distiller(teacher, student, [match])
    x, y = tiny.data()
    distiller.set_active(hard=True, soft=False, matches=[])
    with tiny.passes(teacher) as of_teacher:
        history = distiller.fit(x, y, verbose=0).history
        assert of_teacher.calls == 0
    assert sorted(history) == ["hard_loss", "loss"]


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_the_teacher_stays_as_it_is(mode):
    teacher, student = tiny.mlp(16, dropout=0.5), tiny.mlp(8)
    teacher.layers[1].trainable = False
    flags = [layer.trainable for layer in teacher.layers]
    before = tiny.values(teacher)
    match = Match("hidden", "hidden", keras.losses.MeanSquaredError())
    distiller = tiny.distiller(
        teacher,
        student,
        [match],
        optimizer=keras.optimizers.AdamW(0.1, weight_decay=0.1),
        **MODES[mode],
    )
    start = tiny.values(student)
    distiller.fit(*tiny.data(), epochs=2, verbose=0)
    assert tiny.equal(before, tiny.values(teacher))
    assert [layer.trainable for layer in teacher.layers] == flags
    assert not any(
        np.array_equal(a, b) for a, b in zip(start, tiny.values(student))
    )
    ours = {id(v) for v in teacher.variables}
    trained = {id(v) for v in distiller.trainable_variables}
    assert not ours & trained
    assert len(trained) == 6  # Two layers and a projection.


def test_dropout_of_the_teacher_is_off_and_batch_norm_does_not_move():
    inputs = keras.Input((tiny.FEATURES,))
    x = keras.layers.BatchNormalization(name="norm")(inputs)
    x = keras.layers.Dropout(0.9)(x)
    teacher = keras.Model(inputs, keras.layers.Dense(tiny.CLASSES)(x))
    before = tiny.values(teacher)
    distiller = tiny.distiller(teacher, tiny.mlp(8))
    x, y = tiny.data()
    first = distiller.teacher_signal(x)["logits"]
    second = distiller.teacher_signal(x)["logits"]
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, teacher(x, training=False))
    distiller.fit(x, y, verbose=0)
    assert tiny.equal(before, tiny.values(teacher))


def test_dropout_of_the_student_is_on():
    student = tiny.mlp(8, dropout=0.5)
    distiller = tiny.distiller(tiny.mlp(16), student)
    x, y = tiny.data()
    signal = distiller.teacher_signal(x)
    outputs = [
        keras.ops.convert_to_numpy(
            distiller.training_loss(x, y, None, signal)[1]
        )
        for _ in range(2)
    ]
    assert not np.array_equal(*outputs)


def test_both_models_of_an_ensemble_run_once():
    teachers = [tiny.mlp(16, seed=1), tiny.mlp(12, seed=2)]
    of_second = taps.resolve(teachers[1], "hidden")
    match = Match(of_second, "hidden", keras.losses.MeanSquaredError())
    distiller = tiny.distiller(Ensemble(teachers), tiny.mlp(8), [match])
    x, y = tiny.data()
    with tiny.passes(teachers[0]) as first, tiny.passes(teachers[1]) as second:
        distiller.train_on_batch(x, y)
        done = first.executed, second.executed
        distiller.train_on_batch(x, y)
        assert (first.executed - done[0], second.executed - done[1]) == (1, 1)
