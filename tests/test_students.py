"""Students: padding changes nothing, copies are exact, files stand alone."""

import functools
import os
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras_hub import models
from tiny_encoders import RNG
from tiny_encoders import SIZES
from tiny_encoders import VOCABULARY
from tiny_encoders import WIDTH
from tiny_encoders import fresh_backbone
from tiny_encoders import randomized

from keras_distill._layers import backbone_class
from keras_distill.experiments.sources import TeacherSource
from keras_distill.layer_maps import uniform_layer_map
from keras_distill.students import Shrink
from keras_distill.students import bilstm
from keras_distill.students import mean_pooled_classifier
from keras_distill.students import ngram
from keras_distill.students import shrink
from keras_distill.students import text_cnn

CLASSES = 3


def fresh_bert(num_layers=6, **kwargs):
    kwargs = {"vocabulary_size": VOCABULARY, **SIZES, **kwargs}
    return randomized(models.BertBackbone(num_layers=num_layers, **kwargs))


# Teachers, which nothing changes.
bert = functools.cache(fresh_bert)
backbone = functools.cache(fresh_backbone)


def tokens(length, padding=0):
    """Two rows, the second one shorter, padded with arbitrary ids."""
    token_ids = RNG.integers(0, VOCABULARY, size=(2, length + padding))
    padding_mask = np.zeros((2, length + padding), "int32")
    padding_mask[0, :length] = 1
    padding_mask[1, : max(1, length - 2)] = 1
    return {
        "token_ids": token_ids,
        "segment_ids": np.zeros_like(token_ids),
        "padding_mask": padding_mask,
    }


def call(model, x):
    """The states (or the logits) of `model`, which may need no segments."""
    if isinstance(model.input, dict):
        x = {name: x[name] for name in model.input}
    y = model(x)
    return np.asarray(y["sequence_output"] if isinstance(y, dict) else y)


SMALL = {
    "cnn_345": lambda: text_cnn(CLASSES, (VOCABULARY, WIDTH), filters=8),
    "cnn_1_2_6": lambda: text_cnn(
        CLASSES, (VOCABULARY, WIDTH), filters=8, kernel_sizes=(1, 2, 6)
    ),
    "cnn_rank": lambda: text_cnn(
        CLASSES, (VOCABULARY, WIDTH), embedding_rank=4, filters=8
    ),
    "cnn_ngrams": lambda: text_cnn(
        CLASSES, (VOCABULARY, WIDTH), filters=8, ngram_buckets=64
    ),
    "ngram_mean": lambda: ngram(CLASSES, (VOCABULARY, WIDTH), buckets=4096),
    "ngram_mean_rank": lambda: ngram(
        CLASSES, (VOCABULARY, WIDTH), 4, buckets=64, width=WIDTH, hidden=8
    ),
    "bilstm_max": lambda: bilstm(CLASSES, (VOCABULARY, WIDTH), units=8),
    "bilstm_mean": lambda: bilstm(
        CLASSES, (VOCABULARY, WIDTH), units=8, pooling="mean"
    ),
    "mean_pooled": lambda: mean_pooled_classifier(bert(2), CLASSES),
}


@functools.cache
def small(name):
    return randomized(SMALL[name]())


@pytest.mark.parametrize(
    ("length", "padding"), [(1, 1), (1, 8), (2, 3), (7, 4)]
)
@pytest.mark.parametrize("student", SMALL)
@pytest.mark.filterwarnings("ignore:You are using a softmax")
def test_padding_changes_nothing(student, length, padding):
    model = small(student)
    long = tokens(length, padding)
    short = {name: value[:, :length] for name, value in long.items()}
    expected = call(model, short)
    assert expected.shape == (2, CLASSES)
    np.testing.assert_allclose(call(model, long), expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("student", SMALL)
def test_all_tokens_count(student):
    model = small(student)
    x = tokens(5)
    for i in range(5):
        other = {name: value.copy() for name, value in x.items()}
        other["token_ids"][:, i] = (x["token_ids"][:, i] + 7) % VOCABULARY
        changed = np.abs(call(model, other) - call(model, x)).max(-1) > 1e-5
        valid = x["padding_mask"][:, i] == 1
        # A maximum may ignore a token; it must not see a padded one.
        assert not changed[~valid].any()
        if "mean" in student:
            assert changed[valid].all()


@pytest.mark.parametrize("student", SMALL)
def test_a_row_without_tokens_gives_finite_logits(student):
    x = tokens(4)
    x["padding_mask"][1] = 0
    assert np.isfinite(call(small(student), x)).all()


def test_text_cnn_equals_reference():
    model = randomized(
        text_cnn(CLASSES, (VOCABULARY, WIDTH), filters=4, kernel_sizes=(2, 3))
    )
    x = tokens(6)
    weight = {w.path: w.numpy() for w in model.weights}
    rows = []
    for ids, mask in zip(x["token_ids"], x["padding_mask"]):
        text = weight["token_embedding/embeddings"][ids[mask == 1]]
        pooled = []
        for size in (2, 3):
            padded = np.pad(text, (((size - 1) // 2, size // 2), (0, 0)))
            windows = [padded[i : i + size] for i in range(len(text))]
            kernel = weight[f"convolution_{size}/kernel"]
            values = np.einsum("wsd,sdf->wf", windows, kernel)
            values += weight[f"convolution_{size}/bias"]
            pooled.append(np.maximum(values, 0).max(0))
        rows.append(np.concatenate(pooled) @ weight["logits/kernel"])
    np.testing.assert_allclose(
        call(model, x), rows + weight["logits/bias"], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("student", ["cnn_345", "ngram_mean", "bilstm_max"])
def test_reads_the_teachers_inputs(student):
    model = small(student)
    x = tokens(5)
    expected = call(model, x)
    only = [x["token_ids"], x["padding_mask"]]
    np.testing.assert_array_equal(model(only), expected)
    as_bool = {**x, "padding_mask": x["padding_mask"].astype(bool)}
    np.testing.assert_array_equal(model(as_bool), expected)
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-6)


@pytest.mark.parametrize("student", [text_cnn, bilstm, ngram])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda encoder: encoder,
        lambda encoder: models.BertTextClassifier(encoder, CLASSES),
        lambda encoder: mean_pooled_classifier(encoder, CLASSES),
        lambda encoder: encoder.token_embedding.embeddings.numpy(),
    ],
    ids=["backbone", "task", "functional", "array"],
)
def test_table_is_a_copy_of_the_teachers(student, wrap):
    encoder = bert(1)
    model = student(CLASSES, embeddings=wrap(encoder))
    table = model.get_layer("token_embedding")
    source = encoder.token_embedding.embeddings
    np.testing.assert_array_equal(table.embeddings.numpy(), source.numpy())
    table.embeddings.assign(table.embeddings + 1)
    assert np.abs(table.embeddings.numpy() - source.numpy()).min() > 0.5


@pytest.mark.parametrize("rank", [1, 5, 15])
def test_factorised_table_is_the_truncated_svd(rank):
    table = RNG.normal(size=(VOCABULARY, WIDTH)).astype("float32")
    model = text_cnn(CLASSES, table, embedding_rank=rank)
    left = model.get_layer("token_embedding").embeddings.numpy()
    right = model.get_layer("token_projection").kernel.numpy()
    u, s, v = np.linalg.svd(table)
    assert left.shape == (VOCABULARY, rank)
    np.testing.assert_allclose(
        np.array(left) @ np.array(right),
        (u[:, :rank] * s[:rank]) @ v[:rank],
        atol=1e-5,
    )


def test_dtype_policy():
    model = text_cnn(CLASSES, (VOCABULARY, WIDTH), dtype="mixed_float16")
    assert model.get_layer("logits").compute_dtype == "float16"
    assert np.isfinite(call(model, tokens(4))).all()
    student = shrink(bert(2, dtype="bfloat16"), 1)
    assert student.dtype_policy.name == "bfloat16"
    assert shrink(bert(2), 1, dtype="bfloat16").dtype_policy.name == "bfloat16"


@pytest.mark.large
def test_files_load_without_the_package(tmp_path):
    x = tokens(5)
    students = {name: small(name) for name in SMALL}
    students["shrunk"] = shrink(classifier(), 2)
    np.savez(tmp_path / "x.npz", **x)
    logits = {}
    for name, model in students.items():
        model.save(tmp_path / f"{name}.keras")
        logits[name] = call(model, x)
    np.savez(tmp_path / "logits.npz", **logits)
    script = """
import sys, keras, keras_hub, numpy as np
folder = sys.argv[1]
x = dict(np.load(folder + "/x.npz"))
for name, expected in np.load(folder + "/logits.npz").items():
    model = keras.models.load_model(f"{folder}/{name}.keras")
    np.testing.assert_allclose(model(x), expected, atol=1e-6)
assert "keras_distill" not in sys.modules
"""
    subprocess.run(
        [sys.executable, "-c", script, tmp_path],
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ""},
    )


@functools.cache
def classifier(family="Bert", num_layers=4):
    task = getattr(models, f"{family}TextClassifier")
    encoder = fresh_backbone(family, num_layers)
    return randomized(task(encoder, num_classes=CLASSES))


FAMILIES = [
    *("Bert", "Roberta", "DistilBert", "Albert"),
    *("XLMRoberta", "DebertaV3", "RoformerV2", "Electra"),
]
WITH_CLASSIFIER = FAMILIES[:-1]


@pytest.mark.parametrize(
    ("preset", "kind"),
    [
        ("f_net_base_en", models.FNetBackbone),
        ("xlm_roberta_base_multi", models.XLMRobertaBackbone),
        ("bert_tiny_en_uncased", models.BertBackbone),
        ("some_preset", None),
    ],
)
def test_a_preset_tells_its_kind_before_it_is_loaded(preset, kind):
    assert backbone_class(preset) is kind
    if kind is models.FNetBackbone:
        with pytest.raises(ValueError, match="BertBackbone.*FNetBackbone"):
            Shrink().check_backbone(kind)
    else:
        Shrink().check_backbone(kind)


def test_a_folder_tells_its_kind_too(tmp_path):
    models.FNetBackbone(20, 1, 8, 8).save_to_preset(tmp_path)
    source = TeacherSource(str(tmp_path))
    assert source.backbone is models.FNetBackbone
    (tmp_path / "config.json").write_text("[]")
    assert source.backbone is None


@pytest.mark.parametrize("family", FAMILIES)
def test_full_depth_copy_has_the_teachers_states(family):
    teacher = backbone(family)
    student = shrink(teacher, num_layers=4)
    assert type(student) is type(teacher)
    x = tokens(6)
    np.testing.assert_array_equal(call(student, x), call(teacher, x))


@pytest.mark.parametrize("family", WITH_CLASSIFIER)
def test_full_depth_copy_of_a_task_has_the_teachers_logits(family):
    teacher = classifier(family)
    student = shrink(teacher, num_layers=4)
    assert type(student) is type(teacher)
    x = tokens(6)
    np.testing.assert_array_equal(call(student, x), call(teacher, x))


@pytest.mark.parametrize("family", FAMILIES)
def test_narrower_student_keeps_the_vocabulary(family):
    teacher = backbone(family)
    student = shrink(teacher, num_layers=2, hidden_dim=8)
    assert student.hidden_dim == 8
    assert student.num_heads == 2
    assert student.intermediate_dim == 16
    assert student.token_embedding.input_dim == VOCABULARY
    assert call(student, tokens(4)).shape == (2, 4, 8)


@pytest.mark.parametrize("family", WITH_CLASSIFIER)
def test_narrower_task_keeps_the_classes(family):
    student = shrink(classifier(family), num_layers=2, hidden_dim=8)
    assert call(student, tokens(4)).shape == (2, CLASSES)
    assert getattr(student, "hidden_dim", 8) == 8


@pytest.mark.parametrize("family", ["Albert", "Electra"])
def test_embeddings_of_their_own_width_are_copied(family):
    teacher = backbone(family)
    student = shrink(teacher, num_layers=2, hidden_dim=4)
    assert_same_weights(teacher.token_embedding, student.token_embedding)
    assert_same_weights(teacher.position_embedding, student.position_embedding)


def assert_same_weights(one, other):
    for a, b in zip(one.weights, other.weights, strict=True):
        assert a is not b
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(
    ("layer_map", "expected"),
    [
        (None, [2, 4, 6]),
        ("even", [2, 4, 6]),
        ("first", [1, 2, 3]),
        ([(1, 1), (2, 2), (6, 3)], [1, 2, 6]),
        ([(0, 0), (6, 3), (6, 2), (1, 1)], [1, 6, 6]),
    ],
)
def test_layers_follow_the_map(layer_map, expected):
    teacher = bert(6)
    student = shrink(teacher, num_layers=3, layer_map=layer_map)
    for layer, index in zip(student.transformer_layers, expected, strict=True):
        assert_same_weights(teacher.transformer_layers[index - 1], layer)
    for name in ("token_embedding", "embeddings_layer_norm", "pooled_dense"):
        assert_same_weights(teacher.get_layer(name), student.get_layer(name))


def test_albert_copies_its_groups():
    teacher = backbone("Albert")
    student = shrink(teacher, num_layers=2)
    pairs = zip(teacher.transformer_layers, student.transformer_layers)
    for group, twin in pairs:
        for layer, copy in zip(group, twin, strict=True):
            assert_same_weights(layer, copy)


def test_changed_sublayers_start_afresh_and_the_others_are_copied():
    teacher = bert(2)
    student = shrink(teacher, num_layers=2, intermediate_dim=24)
    one, other = teacher.transformer_layers[0], student.transformer_layers[0]
    assert_same_weights(one._self_attention_layer, other._self_attention_layer)
    inner = other._feedforward_output_dense
    assert inner.kernel.shape == (24, WIDTH)
    assert not np.any(inner.bias.numpy())


def test_standard_small_encoder():
    student = shrink(bert(4, hidden_dim=384, num_heads=16), 1, hidden_dim=312)
    assert (student.num_heads, student.intermediate_dim) == (12, 1200)


def test_heads_keep_their_number_or_else_their_size():
    teacher = bert(1, hidden_dim=24, num_heads=6)
    assert shrink(teacher, 1, hidden_dim=12).num_heads == 6
    assert shrink(teacher, 1, hidden_dim=8).num_heads == 2


def test_training_the_student_leaves_the_teacher_as_it_is():
    teacher = classifier()
    before = [weight.numpy() for weight in teacher.weights]
    student = shrink(teacher, num_layers=2)
    student.run_eagerly = True
    student.train_on_batch(tokens(4), np.zeros(2))
    for weight, value in zip(teacher.weights, before):
        np.testing.assert_array_equal(weight.numpy(), value)
    head = student.output_dense.kernel.numpy()
    assert np.any(head != teacher.output_dense.kernel.numpy())


def on_pooled_output(encoder):
    inputs = {name: keras.Input((None,), name=name) for name in encoder.input}
    pooled = encoder(inputs)["pooled_output"]
    return keras.Model(inputs, keras.layers.Dense(CLASSES)(pooled))


@pytest.mark.parametrize(
    ("build", "frozen"),
    [
        (lambda: fresh_bert(2), 0),
        (lambda: models.BertTextClassifier(fresh_bert(2), CLASSES), 0),
        (lambda: on_pooled_output(fresh_bert(2)), 0),
        # Nothing follows the pooler's kernel and bias.
        (lambda: mean_pooled_classifier(fresh_bert(2), CLASSES), 2),
        (lambda: mean_pooled_classifier(fresh_backbone("Roberta"), CLASSES), 0),
    ],
    ids=["backbone", "task", "pooled", "mean_pooled", "without_pooler"],
)
def test_student_of_a_frozen_teacher_is_trainable(build, frozen):
    teacher = build()
    teacher.trainable = False
    student = shrink(teacher, num_layers=1)
    assert len(student.trainable_weights) == len(student.weights) - frozen
    assert not teacher.trainable_weights


def test_task_keeps_the_preprocessor():
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
    tokenizer = models.BertTokenizer(vocabulary)
    teacher = models.BertTextClassifier(
        bert(2),
        CLASSES,
        models.BertTextClassifierPreprocessor(tokenizer, sequence_length=8),
    )
    student = shrink(teacher, num_layers=1)
    assert student.preprocessor is teacher.preprocessor
    student.run_eagerly = True
    assert student.predict(["good", "bad"], verbose=0).shape == (2, CLASSES)


def test_functional_model_around_a_backbone():
    teacher = randomized(mean_pooled_classifier(bert(2), CLASSES))
    x = tokens(5)
    twin = shrink(teacher, num_layers=2)
    np.testing.assert_array_equal(call(twin, x), call(teacher, x))
    assert not {id(w) for w in twin.weights} & {id(w) for w in teacher.weights}
    narrow = shrink(teacher, num_layers=1, hidden_dim=8)
    assert call(narrow, x).shape == (2, CLASSES)


def test_seed_repeats_the_fresh_weights():
    teacher = bert(2)
    twins = []
    for _ in range(2):
        keras.utils.set_random_seed(3)
        twins.append(shrink(teacher, 1, hidden_dim=8))
    assert_same_weights(*twins)


@pytest.mark.parametrize("teacher_layers", [1, 2, 5, 6, 12, 24])
def test_uniform_layer_map_is_increasing_and_meets_both_ends(teacher_layers):
    for layers in range(1, teacher_layers + 1):
        pairs = uniform_layer_map(teacher_layers, layers)
        states = [teacher for teacher, _ in pairs]
        assert [student for _, student in pairs] == list(range(layers + 1))
        assert states == sorted(set(states))
        assert (states[0], states[-1]) == (0, teacher_layers)
        for teacher, student in pairs:
            assert abs(teacher - student * teacher_layers / layers) <= 0.5


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.encoder = bert(2)


def quantized():
    teacher = fresh_bert(1)
    teacher.pooled_dense.quantize("int8")
    return teacher


TABLE = (VOCABULARY, WIDTH)
WRONG = [
    (lambda: text_cnn(0, TABLE), r"num_classes=0"),
    (lambda: text_cnn(True, TABLE), r"num_classes=True"),
    (lambda: text_cnn(2, 16), r"a tuple `\(vocabulary, dim\)`.*shape=\(\)"),
    (lambda: text_cnn(2, None), r"`embeddings` must be .*shape=\(\)"),
    (lambda: text_cnn(2, (50, 0)), r"embeddings\[1\]=0"),
    (lambda: text_cnn(2, np.zeros(5)), r"shape=\(5,\)"),
    (lambda: text_cnn(2, SMALL["cnn_345"]()), r"embeddings=text_cnn"),
    (lambda: text_cnn(2, TABLE, embedding_rank=16), r"embedding_rank=16"),
    (lambda: text_cnn(2, TABLE, embedding_rank=0), r"embedding_rank=0"),
    (lambda: text_cnn(2, TABLE, filters=1.5), r"filters=1.5"),
    (lambda: text_cnn(2, TABLE, dropout=1.0), r"dropout=1.0"),
    (lambda: text_cnn(2, TABLE, kernel_sizes=3), r"kernel_sizes=3"),
    (lambda: text_cnn(2, TABLE, kernel_sizes=()), r"kernel_sizes=\(\)"),
    (lambda: text_cnn(2, TABLE, kernel_sizes=(0, 2)), r"kernel_sizes=0"),
    (lambda: text_cnn(2, TABLE, kernel_sizes=(3, 3)), r"raise `filters`"),
    (lambda: text_cnn(2, TABLE, ngram_buckets=0), r"ngram_buckets=0"),
    (lambda: bilstm(2, TABLE, units=0), r"units=0"),
    (lambda: bilstm(2, TABLE, pooling="cls"), r"pooling='cls'"),
    (lambda: mean_pooled_classifier(bert(1), 0), r"num_classes=0"),
    (lambda: mean_pooled_classifier(keras.layers.Dense(2), 2), "padding_mask"),
    (lambda: shrink(SMALL["cnn_345"]()), r"`teacher` must be .*Functional"),
    (lambda: shrink("bert"), r"`teacher` must be .*teacher=bert \(str\)"),
    (lambda: shrink(Subclassed()), r"pass its backbone"),
    (
        lambda: shrink(models.GPT2Backbone(50, 2, 2, 16, 32)),
        r"must be a KerasHub encoder .*GPT2Backbone",
    ),
    (lambda: shrink(quantized(), 1), r"before it is quantized"),
    (lambda: shrink(bert(2)), r"at most the teacher's, 2.*num_layers=4"),
    (lambda: shrink(bert(2), 0), r"num_layers=0"),
    (lambda: shrink(backbone("Albert"), 3), r"`num_groups`, 2.*num_layers=3"),
    (lambda: shrink(bert(2), 1, 32), r"at most .* 16. Received: hidden_dim=32"),
    (lambda: shrink(bert(2), 1, 15), r"`num_heads` must be given.*=15"),
    (lambda: shrink(bert(2), 1, 8.0), r"hidden_dim=8.0"),
    (lambda: shrink(bert(2), 1, num_heads=3), r"hidden_dim=16, num_heads=3"),
    (lambda: shrink(bert(2), 1, intermediate_dim=0), r"intermediate_dim=0"),
    (lambda: shrink(bert(2), 1, layer_map=[(3, 1)]), r"layer_map=\[\(3, 1\)\]"),
    (lambda: shrink(bert(2), 1, layer_map=[(1, 2)]), r"layers 1 to 1"),
    (lambda: shrink(bert(2), 2, layer_map=[(1, 1)]), r"one pair"),
    (lambda: shrink(bert(2), 1, layer_map=[(1, 1), (2, 1)]), r"one pair"),
    (lambda: shrink(bert(2), 1, layer_map=[(1, 0), (1, 1)]), r"\(0, 0\)"),
    (lambda: shrink(bert(2), 1, layer_map=[2]), r"one pair"),
    (lambda: shrink(bert(2), 1, layer_map="last"), r"layer_map='last'"),
    (lambda: Shrink(layer_map="last"), r"layer_map='last'"),
    (lambda: shrink(bert(2), 1, layer_map=iter([])), r"layer_map=\[\]"),
    (
        lambda: shrink(bert(2), 1, hidden_dim=8, layer_map=[(2, 1)]),
        r"`layer_map` must be left out .*hidden_dim=8",
    ),
    (
        lambda: shrink(backbone("Albert"), 2, layer_map=[(1, 1), (2, 2)]),
        r"left out for ALBERT",
    ),
    (lambda: uniform_layer_map(4, 6), r"teacher_layers=4, student_layers=6"),
    (lambda: uniform_layer_map(4, 0), r"student_layers=0"),
    (lambda: uniform_layer_map(4.0, 2), r"teacher_layers=4.0"),
]


@pytest.mark.parametrize(("build", "message"), WRONG, ids=lambda x: None)
def test_message(build, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        build()
