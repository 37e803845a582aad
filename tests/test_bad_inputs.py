"""Wrong uses, each with the key part of the message a user sees.

All of them fail before a weight has changed.
"""

import keras
import numpy as np
import pytest
import tiny

import keras_distill as kd

X, Y = tiny.data(8)
MSE = keras.losses.MeanSquaredError


def models():
    return tiny.mlp(8), tiny.mlp(4)


def build(*matches, **kwargs):
    return tiny.distiller(*models(), matches, **kwargs)


def softmax_head(units=8, activation="softmax"):
    inputs = keras.Input((tiny.FEATURES,))
    outputs = keras.layers.Dense(tiny.CLASSES, activation=activation)(inputs)
    return keras.Model(inputs, outputs)


def match(teacher="hidden", student="hidden", loss=None, **kwargs):
    return kd.Match(teacher, student, loss or MSE(), **kwargs)


def sequences(length, units):
    inputs = keras.Input((length, tiny.FEATURES))
    x = keras.layers.Dense(units, name="hidden")(inputs)
    x = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(inputs, keras.layers.Dense(tiny.CLASSES)(x))


def sharing():
    teacher = tiny.mlp(8)
    inputs = keras.Input((tiny.FEATURES,))
    hidden = teacher.get_layer("hidden")(inputs)
    student = keras.Model(inputs, keras.layers.Dense(tiny.CLASSES)(hidden))
    return tiny.distiller(teacher, student)


def same_model():
    model = tiny.mlp()
    return kd.Distiller(model, model)


MODELS = {
    "the student is the teacher": (same_model, "are the same model"),
    "they share a layer": (sharing, "share variables"),
    "the student is no model": (
        lambda: kd.Distiller(tiny.mlp(), "student"),
        "`student` must be a `keras.Model`. Received: student='student'",
    ),
    "the teacher is no model": (
        lambda: kd.Distiller(len, tiny.mlp()),
        "`teacher` must be a `keras.Model`, an `Ensemble` of models, or None",
    ),
    "the teacher has no weights": (
        lambda: kd.Distiller(tiny.Subclassed(), tiny.mlp()),
        "has no weights yet",
    ),
    "other classes": (
        lambda: tiny.distiller(tiny.mlp(), tiny.mlp(classes=2)),
        "must have the same shape",
    ),
    "an empty ensemble": (lambda: kd.Ensemble([]), "at least one teacher"),
    "ensemble weights": (
        lambda: kd.Ensemble(list(models()), weights=[1.0]),
        "one number for each of the 2 teachers",
    ),
    "ensemble of other outputs": (
        lambda: tiny.distiller(
            kd.Ensemble([tiny.mlp(), tiny.mlp(classes=2)]), tiny.mlp()
        ),
        "the ensemble's first teacher",
    ),
}

LOSSES = {
    "nothing to distil": (
        lambda: build(soft_loss=None),
        "There is nothing to distil",
    ),
    "labels against logits": (
        lambda: build(loss="sparse_categorical_crossentropy"),
        "SparseCategoricalCrossentropy(from_logits=True)",
    ),
    "labels against logits, an object": (
        lambda: build(loss=keras.losses.BinaryCrossentropy()),
        "BinaryCrossentropy(from_logits=True)",
    ),
    "the teacher gives probabilities": (
        lambda: tiny.distiller(softmax_head(), tiny.mlp()),
        "needs logits, the teacher",
    ),
    "the student gives probabilities": (
        lambda: tiny.distiller(
            tiny.mlp(),
            softmax_head(),
            loss="sparse_categorical_crossentropy",
        ),
        "needs logits, the student",
    ),
    "a negative weight": (
        lambda: build(hard_weight=-1),
        "`hard_weight` must be a finite number of at least 0",
    ),
    "a weight that is no number": (
        lambda: build(soft_weight=float("nan")),
        "Received: soft_weight=nan",
    ),
    "a weight for no hard loss": (
        lambda: tiny.distiller(
            tiny.mlp(8), tiny.mlp(4), loss=None, hard_weight=0.9
        ),
        "Received: hard_weight=0.9, loss=None",
    ),
    "a weight for no soft loss": (
        lambda: build(match(), soft_loss=None, soft_weight=2.0),
        "Received: soft_weight=2.0, soft_loss=None",
    ),
    "a loss by name": (
        lambda: build(soft_loss="kl_divergence"),
        "must be an instance of a loss",
    ),
    "a class for a loss": (
        lambda: build(soft_loss=kd.losses.ForwardKL),
        "must be an instance of a loss",
    ),
    "an output that is not there": (
        lambda: build(soft_loss={"topic": kd.losses.ForwardKL()}),
        "names output 'topic'",
    ),
    "softmax of one unit": (
        lambda: tiny.distiller(
            tiny.mlp(classes=1), tiny.mlp(classes=1), loss="mse"
        ),
        "whose softmax is constant",
    ),
    "new losses of other outputs": (
        lambda: build().set_losses(soft_loss={"b": kd.losses.ForwardKL()}),
        "`soft_loss` must be one of ['soft']",
    ),
    "a temperature of 0": (
        lambda: kd.losses.ForwardKL(0.0),
        "`temperature` must be positive",
    ),
    "beta": (
        lambda: kd.losses.GeneralizedJSD(beta=1.5),
        "`beta` must be between 0 and 1",
    ),
    "annealing above its maximum": (
        lambda: kd.losses.AnnealedMSE(max_temperature=4, temperature=5),
        "between 1 and max_temperature=4",
    ),
    "heads": (
        lambda: kd.losses.AttentionMSE(heads="mean"),
        "`heads` must be one of ['match', 'sum']",
    ),
}

MATCHES = {
    "an unknown layer": (
        lambda: build(match("hiden")),
        "has no layer 'hiden'. Did you mean 'hidden'",
    ),
    "a layer of another model": (
        lambda: build(match(student=tiny.mlp().layers[1])),
        "is not a part of model",
    ),
    "a hidden state of no encoder": (
        lambda: build(match(teacher=0)),
        "Expected a KerasHub backbone",
    ),
    "no projection": (
        lambda: build(match(projection=None)),
        "must have the same width. Received: teacher shape (None, 8)",
    ),
    "an unknown projection": (
        lambda: match(projection="cubic"),
        "`projection` must be None, 'auto', 'linear', 'relu', 'tanh'",
    ),
    "a projection of another width": (
        lambda: build(match(projection=keras.layers.Dense(5))),
        "must give the teacher's width. Expected 8. Received: 5",
    ),
    "a loss by name in a match": (
        lambda: kd.Match("hidden", "hidden", "mse"),
        "`loss` must be an instance of `keras.losses.Loss`",
    ),
    "a weight of a match": (
        lambda: match(weight=-0.5),
        "Received: weight=-0.5",
    ),
    "a multiplier": (
        lambda: match(learning_rate_multiplier=-1),
        "Received: learning_rate_multiplier=-1",
    ),
    "two matches of one name": (
        lambda: build(match(), match()),
        "Each match needs a name of its own",
    ),
    "a pair and a single layer": (
        lambda: build(match(("hidden", "logits"), "hidden")),
        "must name the same number of layers",
    ),
    "a pair for a loss of single layers": (
        lambda: build(
            match(
                ("hidden", "logits"),
                ("hidden", "logits"),
                kd.losses.HiddenMSE(),
            )
        ),
        "compares single layers",
    ),
    "single layers for a loss of pairs": (
        lambda: build(match(loss=kd.losses.FlowOfSolution())),
        "compares pairs of layers",
    ),
    "a tuple for a match": (
        lambda: build(("hidden", "hidden")),
        "`matches` must be a list of `kd.Match`",
    ),
    "other lengths": (
        lambda: tiny.distiller(sequences(6, 4), sequences(5, 4), [match()]),
        "must have the same sequence length",
    ),
    "a match that is not there": (
        lambda: build(match()).set_active(matches=["other"]),
        "`matches` must be one of ['mean_squared_error_hidden']",
    ),
    "more layers than the teacher": (
        lambda: kd.uniform_layer_map(4, 6),
        "`student_layers` must be at most `teacher_layers`",
    ),
}

TRAINING = {
    "no compile": (
        lambda: kd.Distiller(*models()).fit(X, Y, verbose=0),
        "call `compile()` before",
    ),
    "no labels": (
        lambda: build().fit(X, verbose=0),
        "The hard loss needs labels",
    ),
    "no teacher and no signal": (
        lambda: tiny.distiller(None, tiny.mlp()).fit(X, Y, verbose=0),
        "must carry its signal",
    ),
    "a signal without logits": (
        lambda: tiny.distiller(None, tiny.mlp()).fit(
            {"student": X, "teacher_signal": {"hidden": X}}, Y, verbose=0
        ),
        "must hold 'logits'",
    ),
    "a signal of other classes": (
        lambda: tiny.distiller(None, tiny.mlp()).fit(
            {"student": X, "teacher_signal": {"logits": X}}, Y, verbose=0
        ),
        "must have the same shape",
    ),
    "a checkpoint of the whole": (
        lambda: build().fit(
            X,
            Y,
            verbose=0,
            callbacks=[keras.callbacks.ModelCheckpoint("x.keras")],
        ),
        "save_weights_only=True",
    ),
    "a weight for each output and a match": (
        lambda: build(match(), loss=None, soft_loss=None).train_on_batch(
            X, sample_weight=[np.ones(8), np.ones(8)]
        ),
        "one `sample_weight` of shape [batch]",
    ),
    "an input that is missing": (
        lambda: tiny.distiller(
            *(tiny.bert(1) for _ in range(2))
        ).train_on_batch({"token_ids": np.ones((2, 4), "int32")}, Y[:2]),
        "missing: ['padding_mask', 'segment_ids']",
    ),
    "a temperature for another model": (
        lambda: compiled_plain().fit(
            X,
            Y,
            verbose=0,
            callbacks=[
                kd.callbacks.AnnealTemperature(kd.schedules.StepDown(3))
            ],
        ),
        "works with a `kd.Distiller`",
    ),
    "a schedule that is a number": (
        lambda: kd.callbacks.AnnealTemperature(4.0),
        "`schedule` must be a schedule such as",
    ),
    "a schedule upwards": (
        lambda: kd.schedules.StepDown(1, 3),
        "`end` must be at most `start`",
    ),
    "no stages": (
        lambda: kd.callbacks.StageSwitch([]),
        "at least one `kd.Stage`",
    ),
    "a stage without epochs": (
        lambda: kd.Stage(epochs=0),
        "`epochs` must be an integer of at least 1",
    ),
    "fewer epochs than stages": (
        lambda: build().fit(
            X,
            Y,
            verbose=0,
            callbacks=[kd.callbacks.StageSwitch([kd.Stage(epochs=3)])],
        ),
        "Expected: epochs=3 or more. Received: epochs=1",
    ),
}

AROUND = {
    "a deeper student": (
        lambda: kd.students.shrink(tiny.bert(2), num_layers=3),
        "`num_layers` must be at most the teacher's, 2",
    ),
    "shrinking no encoder": (
        lambda: kd.students.shrink(tiny.mlp()),
        "`teacher` must be a KerasHub encoder",
    ),
    "no kernels": (
        lambda: kd.students.text_cnn(3, (20, 4), kernel_sizes=()),
        "`kernel_sizes` must be a tuple of at least one integer",
    ),
    "a table of one axis": (
        lambda: kd.students.bilstm(3, np.zeros(4)),
        "an array of shape `[vocabulary, dim]`",
    ),
    "exporting the distiller": (
        lambda: kd.export.litert(build(), "x.tflite"),
        "Pass `distiller.student`",
    ),
    "exporting without examples": (
        lambda: kd.export.litert(tiny.mlp(), "x.tflite"),
        "`examples` must hold real inputs",
    ),
    "an unknown quantization": (
        lambda: kd.export.litert(
            tiny.mlp(), "x.tflite", quantization="int3", examples=X
        ),
        "`quantization` must be one of",
    ),
    "agreement above 1": (
        lambda: kd.export.litert(
            tiny.mlp(), "x.tflite", examples=X, min_agreement=99
        ),
        "`min_agreement` must be between 0 and 1",
    ),
    "fewer labels than texts": (
        lambda: kd.data.TextDataset(("one", "two"), np.array([0])),
        "one label for each of `texts`",
    ),
}

CASES = {**MODELS, **LOSSES, **MATCHES, **TRAINING, **AROUND}


def compiled_plain():
    model = tiny.mlp()
    model.compile(loss=tiny.CROSS_ENTROPY)
    return model


@pytest.mark.parametrize("case", CASES)
def test_message(case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    act, message = CASES[case]
    with pytest.raises((ValueError, NotImplementedError)) as caught:
        act()
    assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_misspelt_argument():
    with pytest.raises(TypeError, match="soft_los"):
        build(soft_los=kd.losses.ForwardKL())


def test_there_are_enough_of_them():
    assert len(CASES) >= 25
