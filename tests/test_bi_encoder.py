"""Pairs whose texts a copied encoder reads each by itself."""

import importlib

import keras
import keras_hub
import numpy as np
import pytest
import tiny_text
from tiny_encoders import RNG
from tiny_encoders import fresh_backbone
from tiny_encoders import randomized
from tiny_text import END
from tiny_text import START
from tiny_text import pair_row as row

import keras_distill as kd
from keras_distill import data
from keras_distill import students
from keras_distill.export.latency import LiteRTModel
from keras_distill.recipes.hidden_states import match_states
from keras_distill.students import Shrink

# The package has a function of that name.
bi_encoder = importlib.import_module("keras_distill.students.bi_encoder")

FAMILIES = "Bert", "Roberta", "DistilBert", "Albert", "XLMRoberta", "Electra"
FIRST, SECOND = [9, 5, 7], [8, 9, 6, 6]
PAIRS = [("fine great", "great fine"), ("awful dull", "nice")] * 6


def states_alone(backbone, ids):
    """What an encoder makes of one text, float64 array `[length, dim]`."""
    ids = np.array([ids])
    inputs = {
        "token_ids": ids,
        "padding_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
    }
    states = backbone({name: inputs[name] for name in backbone.input})
    if isinstance(states, dict):
        states = states["sequence_output"]
    return np.asarray(states)[0].astype("float64")


def units(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def comparisons(first, second, own, others):
    """The five numbers that are read of two texts' states.

    Args:
        first: Array `[length, dim]`, the first text's states.
        second: Array `[length, dim]`, those of the second text.
        own: Slice of the first text's words among its tokens.
        others: Slice of the second text's words.
    """
    u, v = units(first.mean(axis=0)), units(second.mean(axis=0))
    cosines = units(first[own]) @ units(second[others]).T
    best, back = cosines.max(axis=1), cosines.max(axis=0)
    found = [u @ v, best.mean(), best.min(), back.mean(), back.min()]
    return u, v, np.array(found)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("separators", [1, 2])
def test_each_text_is_read_as_if_alone(family, separators):
    backbone = fresh_backbone(family, num_layers=4)
    student = students.bi_encoder(backbone, 3, (START, END))
    layers = [student.get_layer(name) for name in ("vectors", "logits")]
    for layer, size in zip(layers, (1.0, 0.25)):
        layer.set_weights(
            [RNG.normal(size=w.shape, scale=size) for w in layer.weights]
        )
    ends = [END] * (separators - 1)
    first = states_alone(backbone, [START, *FIRST, *ends])
    second = states_alone(backbone, [START, *SECOND, END])
    u, v, found = comparisons(first, second, slice(1, 4), slice(1, 5))
    of_vectors, kernel, bias = (
        np.asarray(w, "float64") for layer in layers for w in layer.weights
    )
    vectors = np.concatenate([u, v, np.abs(u - v), u * v])
    scaled = 80.0 * (found - 0.5) / 0.25
    logits = vectors @ of_vectors + scaled @ kernel + bias
    for length in (11, 14):
        rows = row(FIRST, SECOND, separators, length)
        np.testing.assert_allclose(
            np.asarray(student(rows))[0], logits, atol=2e-3
        )


@pytest.mark.parametrize(
    "texts", [([], [5, 7]), ([5, 7], []), ([], [])], ids=str
)
def test_a_text_without_words_has_numbers(texts):
    backbone = fresh_backbone("Bert", num_layers=1)
    student = students.bi_encoder(backbone, 2, (START, END))
    randomized(student.get_layer("logits"))
    assert np.isfinite(np.asarray(student(row(*texts)))).all()


def test_comparisons_begin_as_they_vary_among_the_rows(monkeypatch):
    # Every second row is enough, wherever it stands in the file.
    monkeypatch.setattr(bi_encoder, "MEASURED", 10)
    backbone = fresh_backbone("Bert", num_layers=1)
    rows = [
        row(RNG.integers(5, 50, 3), RNG.integers(5, 50, 4)) for _ in range(20)
    ]
    rows = {key: np.concatenate([r[key] for r in rows]) for key in rows[0]}
    student = students.bi_encoder(backbone, 2, (START, END), rows)
    layer = student.get_layer("comparisons")
    found = keras.Model(student.inputs, layer.output).predict(rows, verbose=0)
    scale = np.array(layer.scale)
    deviation = found[::2].std(axis=0) / scale
    # But what is nearly the same for all rows is not blown up.
    np.testing.assert_allclose(scale, 80 / np.maximum(deviation, 0.02), 1e-3)
    assert scale.max() == 4000
    # In deviations, of which one is 80.
    np.testing.assert_allclose(found[::2].mean(axis=0) / 80, 0.0, atol=5e-5)
    np.testing.assert_array_equal(student.predict(rows, verbose=0), 0.0)


@pytest.mark.parametrize("family", FAMILIES)
def test_training_compares_the_states_that_the_student_has(family):
    backbone = fresh_backbone(family, num_layers=4)
    config = backbone.get_config() | {"dropout": 0.5}
    backbone = randomized(type(backbone).from_config(config))
    student = students.bi_encoder(backbone, 2, (START, END))
    layer = student.get_layer("comparisons")
    compared = keras.Model(student.inputs, layer.output)
    rows = row(FIRST, SECOND)
    np.testing.assert_array_equal(
        compared(rows, training=True), compared(rows, training=False)
    )


@pytest.mark.parametrize("family", ["DebertaV3", "RoformerV2"])
def test_layers_that_take_no_mask_are_refused(family):
    backbone = fresh_backbone(family, num_layers=1)
    with pytest.raises(
        ValueError, match=f"--pair-encoder cross.*{family}Backbone"
    ):
        students.bi_encoder(backbone, 2, (START, END))


@pytest.fixture(scope="module")
def task():
    texts = data.TextDataset(PAIRS, [1, 0] * 6)
    return kd.tasks.PairClassification.from_texts(
        data.TextSplits(texts, texts, texts, ["other", "same"]),
        data.bert_preprocessor(tiny_text.VOCABULARY, 8),
    )


@pytest.fixture(scope="module")
def teacher(task):
    backbone = randomized(task.embedded_backbone(layers=4, width=8))
    # Tokens that differ by more than dropout changes them.
    table = backbone.token_embedding.embeddings
    table.assign(RNG.normal(size=table.shape))
    return keras_hub.models.BertTextClassifier(backbone, 2)


def test_a_student_of_the_task_has_the_copied_layers(task, teacher):
    student = Shrink(layers=2, layer_map="first", pair_encoder="bi")
    model = student.build(task, teacher)
    layer = model.get_layer("transformer_layer_1")
    for own, theirs in zip(
        layer.weights, teacher.backbone.transformer_layers[1].weights
    ):
        np.testing.assert_array_equal(own, theirs)
    assert student.hidden_states(model) == []
    kd.experiments.fine_tune(model, task, epochs=40, learning_rate=1e-2)
    logits = model.predict(task.encoded["test"].inputs, verbose=0)
    assert task.score({"test": logits}, "test") == 1.0


@pytest.fixture(scope="module")
def another(task, tmp_path_factory):
    """Another encoder of the teacher's sizes, in a folder and in a file."""
    backbone = randomized(task.embedded_backbone(layers=3, width=8))
    folder = tmp_path_factory.mktemp("encoders")
    backbone.save_to_preset(str(folder / "preset"))
    states = backbone(backbone.input)["sequence_output"]
    keras.Model(backbone.input, states).save(folder / "around.keras")
    backbone.save(folder / "backbone.keras")
    return folder, backbone


@pytest.mark.parametrize("file", ["preset", "backbone.keras", "around.keras"])
@pytest.mark.parametrize("pair_encoder", ["bi", "cross"])
@pytest.mark.parametrize(("layer_map", "last"), [("even", 3), ("first", 2)])
def test_layers_of_another_encoder(
    task, teacher, another, file, pair_encoder, layer_map, last
):
    folder, backbone = another
    student = Shrink(
        layers=2,
        layer_map=layer_map,
        pair_encoder=pair_encoder,
        copy_from=folder / file,
    )
    assert student.starts_from(teacher) == str(folder / file)
    model = student.build(task, teacher)
    own = getattr(model, "backbone", model)
    if pair_encoder == "cross":
        for mine, theirs in zip(
            model.get_layer("logits").weights,
            teacher.get_layer("logits").weights,
        ):
            np.testing.assert_array_equal(mine, theirs)
    for name, source in (
        ("token_embedding", "token_embedding"),
        ("embeddings_layer_norm", "embeddings_layer_norm"),
        ("transformer_layer_1", f"transformer_layer_{last - 1}"),
    ):
        pairs = zip(
            own.get_layer(name).weights, backbone.get_layer(source).weights
        )
        for mine, theirs in pairs:
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"layers": 1, "width": 8}, "at least the student's layers.*'num_lay"),
        ({"layers": 4, "width": 16}, "'hidden_dim': 8.*'hidden_dim': 16"),
    ],
)
def test_an_encoder_of_other_sizes(task, teacher, tmp_path, sizes, words):
    task.embedded_backbone(**sizes).save(tmp_path / "other.keras")
    student = Shrink(layers=2, copy_from=tmp_path / "other.keras")
    with pytest.raises(ValueError, match=f"`copy_from`.*{words}"):
        student.build(task, teacher)


def test_a_file_without_an_encoder(task, teacher, tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.save(tmp_path / "plain.keras")
    student = Shrink(layers=2, copy_from=tmp_path / "plain.keras")
    with pytest.raises(ValueError, match="`copy_from` must be a KerasHub enc"):
        student.build(task, teacher)


@pytest.mark.parametrize("name", ["none.keras", "none", "."])
def test_no_encoder_to_copy_from(tmp_path, name):
    with pytest.raises(ValueError, match="`copy_from` must be a .keras file"):
        Shrink(copy_from=tmp_path / name)


def scored_task(task, texts):
    part = data.TextDataset(texts, np.array([500.0, 100.0] * 6))
    return kd.tasks.TextRegression.from_texts(
        data.ScoreSplits(part, part, part, ["cents"]), task.preprocessor
    )


def test_a_score_of_a_pair_is_in_its_unit(task, teacher):
    scored = scored_task(task, PAIRS)
    model = Shrink(layers=1).build(scored, teacher)
    found = model.predict(scored.encoded["dev"].inputs, verbose=0)
    np.testing.assert_allclose(found, 300.0)


def test_scores_of_pairs_are_of_texts_read_one_by_one(task, teacher):
    layers = teacher.backbone.transformer_layers
    student = Shrink(layers=2)
    texts = scored_task(task, ["fine great", "awful"] * 6)
    for given, kind, last in (
        (task, keras_hub.models.BertTextClassifier, 2),
        (texts, keras_hub.models.BertTextClassifier, 2),
        (scored_task(task, PAIRS), keras.Model, 4),
    ):
        model = student.build(given, teacher)
        assert isinstance(model, kind)
        copy = (getattr(model, "backbone", None) or model).get_layer(
            "transformer_layer_1"
        )
        for own, theirs in zip(copy.weights, layers[last - 1].weights):
            np.testing.assert_array_equal(own, theirs)


def test_scores_of_pairs_by_layers_that_take_no_mask(task):
    backbone = fresh_backbone("DebertaV3", num_layers=2)
    other = keras_hub.models.DebertaV3TextClassifier(backbone, 1)
    model = Shrink().build(scored_task(task, PAIRS), other)
    assert isinstance(model, keras_hub.models.DebertaV3TextClassifier)


def test_one_text_has_nothing_to_be_read_apart_from(task, teacher):
    texts = data.TextDataset(["fine great", "awful"] * 6, [1, 0] * 6)
    single = kd.tasks.TextClassification.from_texts(
        data.TextSplits(texts, texts, texts, ["bad", "good"]),
        task.preprocessor,
    )
    with pytest.raises(ValueError, match="--pair-encoder bi.*one text"):
        Shrink(layers=1, pair_encoder="bi").build(single, teacher)


def test_states_of_both_texts_need_both_in_a_row(task, teacher):
    student = Shrink(layers=1, pair_encoder="bi")
    model = student.build(task, teacher)
    with pytest.raises(
        ValueError, match="--student shrink --pair-encoder cross"
    ):
        match_states(student, teacher, model)


@pytest.mark.large
@pytest.mark.parametrize("quantization", [None, "dynamic"])
def test_files_agree(task, teacher, tmp_path, quantization):
    model = randomized(Shrink(layers=1, pair_encoder="bi").build(task, teacher))
    rows = task.encoded["train"].inputs
    path = tmp_path / "student.tflite"
    kd.export.litert(model, path, quantization, examples=rows, min_agreement=0)
    expected = model.predict(rows, verbose=0)
    found = LiteRTModel(path).predict(rows)["logits"]
    error = np.abs(found - expected).max() / np.abs(expected).max()
    assert error < (1e-4 if quantization is None else 0.05)
    model.save(tmp_path / "student.keras")
    again = keras.models.load_model(tmp_path / "student.keras")
    np.testing.assert_array_equal(again.predict(rows, verbose=0), expected)


@pytest.mark.large
def test_int8_rounds_vectors_by_their_own_range(tmp_path):
    backbone = keras_hub.models.BertBackbone(50, 1, 2, 256, 32)
    student = students.bi_encoder(backbone, 2, (START, END))
    # As trained: what is said of the vectors counts as much as the rest.
    student.get_layer("vectors").set_weights([RNG.normal(size=(1024, 2))])
    kernel = 0.001 * RNG.normal(size=(5, 2))
    student.get_layer("logits").set_weights([kernel, np.zeros(2)])
    rows = row(FIRST, SECOND)
    path = tmp_path / "student.tflite"
    kd.export.litert(student, path, "dynamic", examples=rows, min_agreement=0)
    found = LiteRTModel(path).predict(rows)["logits"]
    expected = student.predict(rows, verbose=0)
    np.testing.assert_allclose(found, expected, atol=0.05)
