"""Encoder layers of KerasHub taken apart: the same outputs, heads to cut."""

import keras
import keras_hub
import numpy as np
import pytest
from keras import layers

import keras_distill as kd
from keras_distill import pruning
from keras_distill import students

ROWS, LENGTH, WIDTH, HEADS = 4, 7, 12, 3


def folded(name, **options):
    return keras_hub.layers.TransformerEncoder(
        intermediate_dim=10, num_heads=HEADS, name=name, **options
    )


def bert():
    return keras_hub.models.BertBackbone(20, 2, HEADS, WIDTH, 10)


def classifier():
    return keras_hub.models.BertTextClassifier(
        bert(), num_classes=2, preprocessor=None
    )


def around():
    """A backbone as a layer of a model."""
    return students.mean_pooled_classifier(bert(), 2)


def distilbert():
    return keras_hub.models.DistilBertBackbone(20, 2, HEADS, WIDTH, 10)


def roberta():
    return keras_hub.models.RobertaBackbone(20, 1, HEADS, WIDTH, 10)


def shared():
    """A layer that is called twice, and one that normalises first."""
    ids = keras.Input((LENGTH,), dtype="int32", name="token_ids")
    mask = keras.Input((LENGTH,), dtype="bool", name="padding_mask")
    x = layers.Embedding(20, WIDTH, name="table")(ids)
    twice = folded("twice", activation="gelu", layer_norm_epsilon=0.1)
    x = twice(twice(x, padding_mask=mask), padding_mask=mask)
    x = folded("first", normalize_first=True)(x, padding_mask=mask)
    return keras.Model([ids, mask], layers.Dense(2, name="logits")(x))


def sequential():
    """Keras hands the mask on by itself here."""
    return keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32", name="token_ids"),
            layers.Embedding(20, WIDTH, mask_zero=True, name="table"),
            folded("one"),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2, name="logits"),
        ]
    )


KINDS = [bert, classifier, around, distilbert, roberta, shared, sequential]


def randomised(model):
    """Biases and scales that are none by default count, too."""
    rng = np.random.default_rng(0)
    for weight in model.weights:
        if keras.backend.is_float_dtype(weight.dtype):
            weight.assign(rng.normal(size=weight.shape, scale=0.4))
    return model


def rows(model):
    ids = np.random.default_rng(1).integers(1, 20, (ROWS, LENGTH))
    mask = np.arange(LENGTH) < [[7], [3], [5], [1]]
    held = {
        "token_ids": np.int32(ids * mask),
        "padding_mask": mask.astype("int32"),
        "segment_ids": np.int32(ids % 2),
    }
    names = [x.name for x in model.inputs]
    if len(names) == 1:
        return held[names[0]]
    if isinstance(model.input, dict):
        return {name: held[name] for name in names}
    return [held[name] for name in names]


def outputs(model, read):
    found = keras.tree.flatten(model(read, training=False))
    return [keras.ops.convert_to_numpy(x) for x in found]


def check_same(found, expected, read):
    pairs = zip(outputs(found, read), outputs(expected, read), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, atol=2e-5)


@pytest.mark.parametrize("build", KINDS)
def test_taken_apart_it_computes_the_same(build, tmp_path):
    model = randomised(build())
    before, read = model.get_weights(), rows(model)
    found = pruning.unfold(model)
    assert found.count_params() == model.count_params()
    kinds = {type(layer).__name__ for layer in found._flatten_layers()}
    assert "TransformerEncoder" not in kinds
    check_same(found, model, read)
    check_same(pruning.prune(found, keep=1.0), model, read)
    found.save(tmp_path / "model.keras")
    check_same(keras.models.load_model(tmp_path / "model.keras"), model, read)
    for old, now in zip(before, model.get_weights()):
        np.testing.assert_array_equal(old, now)


def heads(model):
    return [
        layer
        for layer in model._flatten_layers()
        if type(layer) is layers.MultiHeadAttention
    ]


@pytest.mark.parametrize("build", KINDS)
def test_heads_that_nobody_reads_change_nothing(build):
    model = pruning.unfold(randomised(build()))
    read = rows(model)
    plan = {}
    for number, layer in enumerate(heads(model)):
        kernel = np.array(layer.output_dense.kernel)
        kernel[number % HEADS] = 0
        layer.output_dense.kernel.assign(kernel)
        kept = np.delete(np.arange(HEADS), number % HEADS)
        plan[f"{layer.name}/heads"] = kept.tolist()
    smaller = pruning.cut(model, plan)
    assert [layer.num_heads for layer in heads(smaller)] == [2] * len(plan)
    check_same(smaller, model, read)


@pytest.mark.large
def test_its_output_has_its_name():
    """What is matched by an encoder layer still can be."""
    teacher, read = randomised(classifier()), rows(classifier())
    student = pruning.prune(pruning.unfold(teacher), keep=0.7)
    last = "transformer_layer_1"
    inside = student.get_layer(teacher.backbone.name)
    match = kd.Match(
        teacher.backbone.get_layer(last),
        inside.get_layer(last),
        kd.losses.HiddenMSE(),
        name="last",
    )
    distiller = kd.Distiller(teacher=teacher, student=student, matches=[match])
    distiller.compile(
        "adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    labels = np.array([0, 1, 0, 1])
    history = distiller.fit(read, labels, verbose=0).history
    assert 0 < history["last"][0] < 10


def test_training_draws_dropout():
    model = keras.Sequential(
        [keras.Input((LENGTH, WIDTH)), folded("one", dropout=0.5)]
    )
    found = pruning.unfold(model)
    x = np.ones((1, LENGTH, WIDTH), "float32")
    first, second = (np.asarray(found(x, training=True)) for _ in range(2))
    assert abs(first - second).max() > 0.1
    rates = [
        layer.rate
        for layer in found._flatten_layers()
        if isinstance(layer, layers.Dropout)
    ]
    assert set(rates) == {0.5}


def with_scores():
    x = keras.Input((LENGTH, WIDTH))
    mask = keras.Input((LENGTH, LENGTH), dtype="bool")
    y = folded("one")(x, attention_mask=mask)
    return keras.Model([x, mask], y)


def with_lora():
    model = bert()
    model.enable_lora(2)
    return model


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (students.text_cnn(2, (20, 4), filters=2), "TransformerEncoder"),
        (with_scores(), "the mask of padding alone"),
        (with_lora(), "LoRA"),
        (keras.Sequential([layers.Dense(2)]), "functional or Sequential"),
    ],
)
def test_what_cannot_be_taken_apart_is_told(build, message):
    with pytest.raises(ValueError, match=message):
        pruning.unfold(build)
