"""Padding: what stands there is never compared, and never counted."""

import keras
import numpy as np
import pytest
import tiny

from keras_distill import losses
from keras_distill import taps
from keras_distill.matching import Match

MEAN = "mean_with_sample_weight"


def garbage(inputs):
    """The same inputs with other tokens under the padding."""
    padded = inputs["padding_mask"] == 0
    assert padded.any()
    other = np.where(padded, 7, inputs["token_ids"])
    return {**inputs, "token_ids": other}


def encoder_distiller(**kwargs):
    teacher, student = tiny.bert(2, 8), tiny.bert(1, 4, dropout=0.0)
    matches = [
        Match(2, 1, losses.HiddenMSE(), name="state"),
        Match(-1, -1, losses.HiddenCosine(), name="cosine"),
        Match((0, 1), (0, 1), losses.NeuronSelectivity(), name="nst"),
        Match((0, 1), (0, 1), losses.FlowOfSolution(), name="fsp"),
        Match(
            taps.attention_maps(teacher)[1],
            taps.attention_maps(student)[0],
            losses.AttentionMSE(),
            name="attention",
        ),
    ]
    return tiny.distiller(
        teacher, student, matches, optimizer=keras.optimizers.SGD(0.0), **kwargs
    )


def floats(logs):
    return {name: float(value) for name, value in logs.items()}


@pytest.fixture(scope="module")
def encoders():
    return encoder_distiller(run_eagerly=True)


def test_padding_tokens_change_no_term(encoders):
    inputs, labels = tiny.tokens()
    first, second = (
        floats(encoders.train_on_batch(x, labels, return_dict=True))
        for x in (inputs, garbage(inputs))
    )
    assert first == pytest.approx(second, rel=1e-5)
    assert set(first) == {
        *("loss", "hard_loss", "soft_loss"),
        *("state", "cosine", "nst", "fsp", "attention"),
    }
    assert min(first.values()) > 0


def test_a_row_of_weight_zero_counts_no_tokens(encoders):
    inputs, labels = tiny.tokens()
    keep = np.arange(8) < 5
    part = {name: value[keep] for name, value in inputs.items()}
    got = floats(
        encoders.train_on_batch(
            inputs,
            labels,
            sample_weight=keep.astype("float32"),
            return_dict=True,
        )
    )
    expected = floats(
        encoders.train_on_batch(part, labels[keep], return_dict=True)
    )
    for name in ("state", "cosine", "nst", "fsp", "attention"):
        assert got[name] == pytest.approx(expected[name] * 5 / 8, rel=1e-4)


def test_a_batch_of_padding_gives_zero_for_each_match(encoders):
    inputs, labels = tiny.tokens()
    inputs["padding_mask"] = np.zeros_like(inputs["padding_mask"])
    logs = floats(encoders.train_on_batch(inputs, labels, return_dict=True))
    assert all(np.isfinite(value) for value in logs.values())
    for name in ("state", "cosine", "nst", "fsp", "attention"):
        assert logs[name] == 0


def tagger(units):
    """Token-level logits [batch, length, classes]."""
    inputs = {
        "token_ids": keras.Input((None,), dtype="int32", name="token_ids"),
        "padding_mask": keras.Input(
            (None,), dtype="int32", name="padding_mask"
        ),
    }
    x = keras.layers.Embedding(tiny.VOCABULARY, units)(inputs["token_ids"])
    outputs = keras.layers.Dense(tiny.CLASSES, name="logits")(x)
    return keras.Model(inputs, outputs)


def tagger_data():
    inputs, _ = tiny.tokens()
    labels = np.random.default_rng(1).integers(0, 3, (8, 6)).astype("int32")
    return {k: inputs[k] for k in ("token_ids", "padding_mask")}, labels


def token_losses():
    hard = keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, reduction=MEAN
    )
    return {"loss": hard, "soft_loss": losses.ForwardKL(2.0, reduction=MEAN)}


def tagger_distiller(**kwargs):
    return tiny.distiller(
        tagger(8),
        tagger(4),
        optimizer=keras.optimizers.SGD(0.0),
        **token_losses() | kwargs,
    )


def test_token_level_terms_are_means_over_the_tokens():
    distiller = tagger_distiller(metrics=["accuracy"])
    inputs, labels = tagger_data()
    valid = inputs["padding_mask"].astype(bool)
    logs = floats(distiller.train_on_batch(inputs, labels, return_dict=True))
    t, s = (
        tiny.array(model(inputs))[valid]
        for model in (distiller.teacher, distiller.student)
    )
    expected = token_losses()
    assert logs["hard_loss"] == pytest.approx(
        float(expected["loss"](labels[valid], s)), rel=1e-5
    )
    assert logs["soft_loss"] == pytest.approx(
        float(expected["soft_loss"](t, s)), rel=1e-3
    )
    hits = s.argmax(-1) == labels[valid]
    assert logs["accuracy"] == pytest.approx(hits.mean(), rel=1e-5)
    seen = distiller.evaluate(inputs, labels, verbose=0, return_dict=True)
    assert seen["loss"] == pytest.approx(logs["hard_loss"], rel=1e-5)
    assert seen["accuracy"] == pytest.approx(hits.mean(), rel=1e-5)


def test_token_level_weights():
    distiller = tagger_distiller()
    inputs, labels = tagger_data()
    weight = np.random.default_rng(2).integers(0, 2, (8, 6)).astype("float32")
    logs = floats(
        distiller.train_on_batch(
            inputs, labels, sample_weight=weight, return_dict=True
        )
    )
    valid = (inputs["padding_mask"] * weight).astype(bool)
    inputs = {**inputs, "padding_mask": valid.astype("int32")}
    expected = floats(
        distiller.train_on_batch(inputs, labels, return_dict=True)
    )
    assert logs == pytest.approx(expected, rel=1e-5)


def test_a_batch_of_padded_tokens_gives_zero():
    distiller = tagger_distiller()
    inputs, labels = tagger_data()
    inputs["padding_mask"] = np.zeros_like(inputs["padding_mask"])
    logs = floats(distiller.train_on_batch(inputs, labels, return_dict=True))
    assert logs == {"loss": 0, "hard_loss": 0, "soft_loss": 0}


def test_the_mask_of_an_embedding_counts():
    def recurrent(units):
        inputs = keras.Input((None,), dtype="int32")
        x = keras.layers.Embedding(
            tiny.VOCABULARY, units, mask_zero=True, name="embedding"
        )(inputs)
        x = keras.layers.GRU(units, return_sequences=True, name="states")(x)
        x = keras.layers.GlobalAveragePooling1D()(x)
        return keras.Model(inputs, keras.layers.Dense(tiny.CLASSES)(x))

    match = Match("embedding", "embedding", losses.HiddenMSE(), name="match")
    distiller = tiny.distiller(
        recurrent(4),
        recurrent(4),
        [match],
        optimizer=keras.optimizers.SGD(0.0),
    )
    inputs, labels = tiny.tokens()
    ids = inputs["token_ids"] * inputs["padding_mask"]
    got = floats(distiller.train_on_batch(ids, labels, return_dict=True))
    t, s = (
        tiny.array(model.get_layer("embedding")(ids))[ids > 0]
        for model in (distiller.teacher, distiller.student)
    )
    assert got["match"] == pytest.approx(np.square(t - s).mean(), rel=1e-5)


def test_a_keras_loss_in_a_match_sees_the_mask():
    teacher, student = tagger(4), tagger(4)
    layer = [
        next(x for x in m.layers if isinstance(x, keras.layers.Embedding))
        for m in (teacher, student)
    ]
    loss = keras.losses.MeanSquaredError(reduction=MEAN)
    distiller = tiny.distiller(
        teacher,
        student,
        [Match(*layer, loss, name="match")],
        optimizer=keras.optimizers.SGD(0.0),
        **token_losses(),
    )
    inputs, labels = tagger_data()
    valid = inputs["padding_mask"].astype(bool)
    got = floats(distiller.train_on_batch(inputs, labels, return_dict=True))
    t, s = (tiny.array(x(inputs["token_ids"])) for x in layer)
    squares = np.square(t - s).mean(-1)
    assert got["match"] == pytest.approx(squares[valid].mean(), rel=1e-5)
    weight = np.arange(8, dtype="float32")
    got = distiller.train_on_batch(
        inputs, labels, sample_weight=weight[:, None], return_dict=True
    )
    by_token = valid * weight[:, None]
    expected = (squares * by_token).sum() / by_token.sum()
    assert float(got["match"]) == pytest.approx(expected, rel=1e-5)


def pooled(**kwargs):
    return tiny.distiller(
        tiny.bert(2, 8),
        tiny.bert(1, 4, dropout=0.0),
        [Match("pooled_dense", "pooled_dense", **kwargs)],
        optimizer=keras.optimizers.SGD(0.0),
        run_eagerly=True,
    )


@pytest.mark.parametrize("rows", [4, 6])
def test_a_mask_of_tokens_masks_no_pooled_state(rows):
    loss = keras.losses.MeanSquaredError()
    distiller = pooled(loss=loss, name="pooled")
    inputs, labels = tiny.tokens(rows)
    got = floats(distiller.train_on_batch(inputs, labels, return_dict=True))
    t, s = (
        model.backbone(inputs)["pooled_output"]
        for model in (distiller.teacher, distiller.student)
    )
    (projection,) = distiller.projections
    expected = tiny.array(projection(s)) - tiny.array(t)
    assert got["pooled"] == pytest.approx(np.square(expected).mean(), rel=1e-5)


def test_pooled_states_of_different_tokenizers():
    distiller = pooled(loss=keras.losses.MeanSquaredError(), name="pooled")
    (teacher, labels), (student, _) = tiny.tokens(6, 6), tiny.tokens(6, 4)
    both = {"teacher": teacher, "student": student}
    got = floats(distiller.train_on_batch(both, labels, return_dict=True))
    assert np.isfinite(got["pooled"])


def test_a_keras_loss_refuses_the_mask_of_attention():
    teacher, student = tiny.bert(2, 8), tiny.bert(1, 4)
    match = Match(
        taps.attention_maps(teacher)[0],
        taps.attention_maps(student)[0],
        keras.losses.MeanSquaredError(),
        name="maps",
    )
    distiller = tiny.distiller(teacher, student, [match])
    with pytest.raises(ValueError, match="'maps'.*`AttentionMSE`"):
        distiller.train_on_batch(*tiny.tokens())
