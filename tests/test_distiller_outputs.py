"""Students and teachers of other kinds than one softmax over classes."""

import keras
import numpy as np
import pytest
import tiny

from keras_distill import losses
from keras_distill import taps
from keras_distill.matching import Match
from keras_distill.teachers import Ensemble

X, Y = tiny.data(8)


def still():
    return keras.optimizers.SGD(0.0)


def floats(logs):
    return {name: float(value) for name, value in logs.items()}


def logs_of(distiller, *args, **kwargs):
    return floats(distiller.train_on_batch(*args, return_dict=True, **kwargs))


def two_heads(units, as_list=False):
    inputs = keras.Input((tiny.FEATURES,))
    hidden = keras.layers.Dense(units, "tanh", name="hidden")(inputs)
    topic = keras.layers.Dense(tiny.CLASSES, name="topic")(hidden)
    score = keras.layers.Dense(1, name="score")(hidden)
    heads = [topic, score] if as_list else {"topic": topic, "score": score}
    return keras.Model(inputs, heads)


LABELS = {"topic": Y, "score": X[:, :1]}


@pytest.mark.parametrize("as_list", [False, True])
@pytest.mark.parametrize("skip", [False, True])
def test_several_outputs_have_a_soft_loss_each(as_list, skip):
    hard = {"topic": tiny.CROSS_ENTROPY, "score": "mse"}
    soft = {
        "topic": losses.ForwardKL(2.0),
        "score": None if skip else keras.losses.MeanSquaredError(),
    }
    labels = LABELS
    if as_list:
        hard, soft, labels = (
            [thing["topic"], thing["score"]] for thing in (hard, soft, labels)
        )
    distiller = tiny.distiller(
        two_heads(8, as_list),
        two_heads(4, as_list),
        optimizer=still(),
        loss=hard,
        soft_loss=soft,
    )
    logs = logs_of(distiller, X, labels)
    (t_topic, t_score), (s_topic, s_score) = (
        list(out) if as_list else (out["topic"], out["score"])
        for out in (distiller.teacher(X), distiller.student(X))
    )
    kl = float(losses.ForwardKL(2.0)(t_topic, s_topic))
    mse = float(keras.losses.MeanSquaredError()(t_score, s_score))
    assert logs["soft_loss"] == pytest.approx(kl + (not skip) * mse, rel=1e-4)
    ce = float(tiny.CROSS_ENTROPY(Y, s_topic))
    error = float(keras.losses.MeanSquaredError()(LABELS["score"], s_score))
    assert logs["hard_loss"] == pytest.approx(ce + error, rel=1e-4)


def test_each_output_has_its_own_temperature_and_weights():
    distiller = tiny.distiller(
        two_heads(8),
        two_heads(4),
        optimizer=still(),
        loss={"topic": tiny.CROSS_ENTROPY, "score": "mse"},
        soft_loss={
            "topic": losses.ForwardKL(2.0),
            "score": losses.LogitsMSE(3.0),
        },
    )
    temperatures = distiller.schedules.temperatures
    assert {k: float(v) for k, v in temperatures.items()} == {
        "topic": 2.0,
        "score": 3.0,
    }
    logs = logs_of(
        distiller,
        X,
        LABELS,
        sample_weight={"topic": np.zeros(8), "score": np.ones(8)},
    )
    t, s = (m(X)["score"] for m in (distiller.teacher, distiller.student))
    assert logs["soft_loss"] == pytest.approx(
        float(losses.LogitsMSE(3.0)(t, s)), rel=1e-4
    )


@pytest.mark.parametrize(
    ("soft", "message"),
    [
        (losses.ForwardKL(), "must be a dict or a list"),
        ({"subject": losses.ForwardKL()}, "names output 'subject'"),
        ({"score": losses.ForwardKL()}, "softmax is constant"),
        ({"topic": "kl_divergence"}, "an instance of a loss"),
    ],
)
def test_soft_losses_that_do_not_fit(soft, message):
    with pytest.raises(ValueError, match=message):
        tiny.distiller(two_heads(8), two_heads(4), loss=None, soft_loss=soft)


def test_labels_that_may_be_several():
    labels = np.random.default_rng(3).integers(0, 2, (8, 3)).astype("float32")
    distiller = tiny.distiller(
        tiny.mlp(8),
        tiny.mlp(4),
        optimizer=still(),
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
        soft_loss=losses.BinaryKL(temperature=2.0),
    )
    logs = logs_of(distiller, X, labels)
    t, s = (
        1 / (1 + np.exp(-tiny.array(m(X)) / 2))
        for m in (distiller.teacher, distiller.student)
    )
    kl = t * np.log(t / s) + (1 - t) * np.log((1 - t) / (1 - s))
    assert logs["soft_loss"] == pytest.approx(4 * kl.mean(), rel=1e-4)


def test_regression():
    distiller = tiny.distiller(
        tiny.mlp(8, classes=1),
        tiny.mlp(4, classes=1),
        optimizer=still(),
        loss="mse",
        soft_loss=keras.losses.MeanSquaredError(),
    )
    logs = logs_of(distiller, X, X[:, :1])
    t, s = (tiny.array(m(X)) for m in (distiller.teacher, distiller.student))
    assert logs["soft_loss"] == pytest.approx(np.square(t - s).mean(), rel=1e-5)
    assert logs["hard_loss"] == pytest.approx(
        np.square(X[:, :1] - s).mean(), rel=1e-5
    )


@pytest.mark.parametrize("average", ["probabilities", "logits"])
def test_an_ensemble_is_its_average(average):
    teachers = [tiny.mlp(8, seed=1), tiny.mlp(6, seed=2)]
    ensemble = Ensemble(teachers, weights=[1, 3], average=average)
    distiller = tiny.distiller(ensemble, tiny.mlp(4), optimizer=still())
    logs = logs_of(distiller, X, Y)
    first, second = (tiny.array(m(X)) for m in teachers)
    if average == "logits":
        target = 0.25 * first + 0.75 * second
    else:
        first, second = (
            np.exp(v) / np.exp(v).sum(-1, keepdims=True)
            for v in (first, second)
        )
        target = np.log(0.25 * first + 0.75 * second)
    expected = losses.ForwardKL(2.0)(target, distiller.student(X))
    assert logs["soft_loss"] == pytest.approx(float(expected), rel=1e-4)


def test_a_match_into_one_model_of_an_ensemble():
    teachers = [tiny.mlp(8, seed=1), tiny.mlp(4, seed=2)]
    match = Match(
        taps.resolve(teachers[1], "hidden"),
        "hidden",
        keras.losses.MeanSquaredError(),
        name="match",
    )
    student = tiny.mlp(4, seed=3)
    distiller = tiny.distiller(
        Ensemble(teachers), student, [match], optimizer=still()
    )
    assert distiller.projections == []
    t, s = (
        tiny.array(m.get_layer("hidden")(X)) for m in (teachers[1], student)
    )
    assert logs_of(distiller, X, Y)["match"] == pytest.approx(
        np.square(t - s).mean(), rel=1e-5
    )


def test_teacher_and_student_read_different_inputs():
    distiller = tiny.distiller(tiny.mlp(8), tiny.mlp(4), optimizer=still())
    other = X[::-1].copy()
    logs = logs_of(distiller, {"teacher": other, "student": X}, Y)
    expected = losses.ForwardKL(2.0)(
        distiller.teacher(other), distiller.student(X)
    )
    assert logs["soft_loss"] == pytest.approx(float(expected), rel=1e-4)
    inputs = {"teacher": other, "student": X}
    np.testing.assert_allclose(
        distiller.predict(inputs, verbose=0),
        distiller.student.predict(X, verbose=0),
    )
    history = distiller.fit(
        inputs, Y, validation_data=(X, Y), verbose=0
    ).history
    assert "val_loss" in history


def test_models_take_the_entries_they_have_names_for():
    def named(name, units):
        inputs = {name: keras.Input((tiny.FEATURES,), name=name)}
        x = keras.layers.Dense(units)(inputs[name])
        return keras.Model(inputs, keras.layers.Dense(tiny.CLASSES)(x))

    distiller = tiny.distiller(
        named("long", 8), named("short", 4), optimizer=still()
    )
    logs = logs_of(distiller, {"long": X[::-1].copy(), "short": X}, Y)
    expected = losses.ForwardKL(2.0)(
        distiller.teacher({"long": X[::-1]}), distiller.student({"short": X})
    )
    assert logs["soft_loss"] == pytest.approx(float(expected), rel=1e-4)


def pair_of_matches():
    return [
        Match("hidden", "hidden", keras.losses.MeanSquaredError(), name="one"),
        Match(
            ("hidden", "logits"),
            ("hidden", "logits"),
            PairLoss(),
            projection=None,
            name="two",
        ),
    ]


class PairLoss(losses.FeatureLoss):
    """The squared difference of the means of both layers."""

    across_widths = True
    pairs = True

    def compare(self, teacher_state, student_state, mask):
        means = [
            sum(keras.ops.mean(state, axis=-1) for state in states)
            for states in (teacher_state, student_state)
        ]
        return keras.ops.square(means[0] - means[1])


def test_a_signal_in_the_batch_replaces_the_teacher():
    teacher = tiny.mlp(8)
    hidden = tiny.array(teacher.get_layer("hidden")(X))
    logits = tiny.array(teacher(X))
    signal = {"logits": logits, "one": hidden, "two": (hidden, logits)}
    both = []
    for with_teacher in (True, False):
        keras.utils.set_random_seed(0)
        distiller = tiny.distiller(
            teacher if with_teacher else None,
            tiny.mlp(4),
            pair_of_matches(),
            optimizer=keras.optimizers.SGD(0.1),
        )
        x = {"student": X}
        x |= {"teacher": X} if with_teacher else {"teacher_signal": signal}
        history = distiller.fit(x, Y, epochs=3, shuffle=False, verbose=0)
        both.append((history.history, tiny.values(distiller.student)))
    assert sorted(both[0][0]) == [
        *("hard_loss", "loss", "one", "soft_loss", "two")
    ]
    for name, history in both[0][0].items():
        assert history == pytest.approx(both[1][0][name], rel=1e-6)
    for live, cached in zip(both[0][1], both[1][1]):
        np.testing.assert_allclose(live, cached, rtol=1e-6, atol=1e-7)


def test_a_signal_without_a_needed_entry():
    distiller = tiny.distiller(None, tiny.mlp(4), pair_of_matches())
    signal = {"logits": tiny.array(tiny.mlp(8)(X))}
    with pytest.raises(ValueError, match=r"Missing: \['one', 'two'\]"):
        distiller.fit({"student": X, "teacher_signal": signal}, Y, verbose=0)
    with pytest.raises(ValueError, match="must carry its signal"):
        distiller.fit(X, Y, verbose=0)


def test_the_teacher_does_not_run_where_a_signal_came():
    teacher = tiny.mlp(8)
    distiller = tiny.distiller(teacher, tiny.mlp(4))
    signal = {"logits": tiny.array(teacher(X))}
    with tiny.passes(teacher) as counter:
        distiller.fit({"student": X, "teacher_signal": signal}, Y, verbose=0)
    assert counter.calls == 0


def test_a_loss_object_of_keras_distillation():
    wrapped = keras.distillation.LogitsDistillation(
        loss=keras.losses.MeanSquaredError(), temperature=2.0
    )
    distiller = tiny.distiller(
        tiny.mlp(8), tiny.mlp(4), optimizer=still(), soft_loss=wrapped
    )
    t, s = (m(X) for m in (distiller.teacher, distiller.student))
    assert logs_of(distiller, X, Y)["soft_loss"] == pytest.approx(
        float(wrapped.compute_loss(t, s)), rel=1e-5
    )
    with pytest.raises(ValueError, match="take no `sample_weight`"):
        distiller.train_on_batch(X, Y, sample_weight=np.ones(8))


def test_no_matches_and_several_arrays_of_a_list():
    def summed(units):
        inputs = [keras.Input((2,)), keras.Input((2,))]
        x = keras.layers.Concatenate()(inputs)
        return keras.Model(inputs, tiny.mlp(units)(x))

    distiller = tiny.distiller(summed(8), summed(4), optimizer=still())
    parts = [X[:, :2], X[:, 2:]]
    expected = losses.ForwardKL(2.0)(
        distiller.teacher(parts), distiller.student(parts)
    )
    assert logs_of(distiller, parts, Y)["soft_loss"] == pytest.approx(
        float(expected), rel=1e-4
    )


# keras_nlp is an older name of keras_hub and says so.
@pytest.mark.filterwarnings("ignore:.*keras.nlp.*")
def test_a_model_built_through_keras_nlp():
    keras_nlp = pytest.importorskip("keras_nlp")

    def make(layers):
        backbone = keras_nlp.models.BertBackbone(
            vocabulary_size=tiny.VOCABULARY,
            num_layers=layers,
            num_heads=2,
            hidden_dim=8,
            intermediate_dim=8,
            max_sequence_length=8,
        )
        return keras_nlp.models.BertTextClassifier(
            backbone, num_classes=tiny.CLASSES, preprocessor=None
        )

    teacher, student = make(2), make(1)
    matches = [Match(2, 1, losses.HiddenMSE(), name="last")]
    distiller = tiny.distiller(teacher, student, matches)
    history = distiller.fit(*tiny.tokens(), verbose=0).history
    assert sorted(history) == ["hard_loss", "last", "loss", "soft_loss"]


def test_loss_weights_outlive_a_change_of_losses():
    hard = {"topic": tiny.CROSS_ENTROPY, "score": "mse"}
    distiller = tiny.distiller(
        two_heads(8),
        two_heads(4),
        optimizer=still(),
        loss=hard,
        loss_weights={"topic": 3.0, "score": 0.0},
        soft_loss={"topic": losses.ForwardKL(2.0), "score": None},
    )
    before = logs_of(distiller, X, LABELS)["hard_loss"]
    distiller.set_losses(loss=hard)
    assert logs_of(distiller, X, LABELS)["hard_loss"] == pytest.approx(before)
