"""KerasHub's models: what is cut inside them, and what stays one of them."""

import keras
import keras_hub
import numpy as np
import pytest
import tiny_lm
import tiny_text

import keras_distill as kd
from keras_distill import gkd
from keras_distill import pruning
from keras_distill.data import bert_preprocessor

FAMILIES = {
    "gpt2": tiny_lm.gpt2,
    "llama": tiny_lm.llama,
    "mistral": tiny_lm.mistral,
    "qwen": tiny_lm.qwen,
    "qwen3": tiny_lm.qwen3,
}


def widths(model):
    return {
        name: len(group)
        for name, group in pruning.structure(model).groups.items()
    }


def give_nothing(model, gone):
    """Units between the dense layers that nobody reads, in place."""
    for layer, units in zip(model.backbone.transformer_layers, gone):
        (last,) = (
            child
            for child in layer._flatten_layers()
            if child.name == "feedforward_output_dense"
        )
        kernel = np.array(last.kernel)
        kernel[units] = 0
        last.kernel.assign(kernel)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_causal_model_of_one_width_stays_one(family):
    model = FAMILIES[family]()
    rows = tiny_lm.tokens()
    found = widths(model)
    size = model.backbone.intermediate_dim
    assert list(found.values()) == [size] * 2
    plan = {
        name: np.delete(np.arange(size), [i, 7 + i])
        for i, name in enumerate(found)
    }
    smaller = pruning.cut(model, plan)
    give_nothing(model, [[i, 7 + i] for i in range(2)])
    assert type(smaller) is type(model)
    assert smaller.backbone.intermediate_dim == size - 2
    assert smaller.count_params() < model.count_params()
    np.testing.assert_allclose(
        np.asarray(smaller(rows)), np.asarray(model(rows)), atol=1e-5
    )
    whole = pruning.prune(model, keep=1.0)
    assert type(whole) is type(model)
    np.testing.assert_array_equal(
        np.asarray(whole(rows)), np.asarray(model(rows))
    )


@pytest.mark.parametrize("family", ["gpt2", "mistral", "qwen"])
def test_of_several_widths_it_is_plain_layers(family):
    model = FAMILIES[family]()
    rows = tiny_lm.tokens()
    first, second = widths(model)
    smaller = pruning.cut(model, {first: [0, 3], second: [1, 2, 4]})
    size = model.backbone.intermediate_dim
    others = [np.delete(np.arange(size), kept) for kept in ([0, 3], [1, 2, 4])]
    give_nothing(model, others)
    assert type(smaller) is not type(model)
    np.testing.assert_allclose(
        np.asarray(smaller(rows)), np.asarray(model(rows)), atol=1e-5
    )


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_a_layer_that_kerashub_cannot_copy_is_told(family):
    model = FAMILIES[family]()
    first, _ = widths(model)
    with pytest.raises(ValueError, match="Cut all layers of its kind alike"):
        pruning.cut(model, {first: [0, 3]})


@pytest.mark.large
@pytest.mark.parametrize("family", ["gpt2", "llama"])
def test_it_learns_from_the_whole_model_by_what_it_writes(family):
    teacher = FAMILIES[family]()
    student = pruning.prune(teacher, keep=0.5)
    preprocessor = gkd.GKDPreprocessor(
        None, max_completion_length=4, max_prompt_length=4, stop_token_id=1
    )
    prompts, responses = [[5, 6, 7], [8, 9]], [[14, 15], [16]]
    rows = preprocessor.batches(prompts, responses, batch_size=2, seed=0)
    distiller = kd.GKDDistiller(
        *(teacher, student),
        lmbda=1.0,
        max_completion_length=4,
        stop_token_ids=(1,),
    )
    distiller.compile(keras.optimizers.Adam(1e-2))
    history = distiller.fit(rows, epochs=8, verbose=0).history
    assert np.mean(history["loss"][-3:]) < np.mean(history["loss"][:3])


@pytest.mark.large
def test_a_classifier_keeps_its_preprocessor(tmp_path):
    preprocessor = bert_preprocessor(tiny_text.VOCABULARY, 8)
    size = len(tiny_text.VOCABULARY)
    backbone = keras_hub.models.BertBackbone(size, 2, 2, 8, 16, dropout=0.0)
    model = keras_hub.models.BertTextClassifier(
        backbone, num_classes=2, preprocessor=preprocessor, dropout=0.0
    )
    smaller = pruning.prune(model, keep=0.5, freeze=["pooled_dense"])
    assert isinstance(smaller, keras_hub.models.BertTextClassifier)
    assert smaller.backbone.intermediate_dim == 8
    texts = ["good film", "bad"]
    assert np.asarray(smaller.predict(texts, verbose=0)).shape == (2, 2)
    smaller.save_to_preset(tmp_path / "smaller")
    again = keras_hub.models.TextClassifier.from_preset(
        str(tmp_path / "smaller")
    )
    np.testing.assert_allclose(
        again.predict(texts, verbose=0),
        smaller.predict(texts, verbose=0),
        atol=1e-6,
    )
    # The width of the pooled output is no setting of the task.
    plain = pruning.prune(model, keep=0.5)
    assert not isinstance(plain, keras_hub.models.Task)


def test_a_model_of_which_some_layers_stay_is_plain_layers():
    """Of BART the decoder's, which read another sequence."""
    backbone = keras_hub.models.BartBackbone(40, 2, 2, 8, 16, dropout=0.0)
    rows = {name: tiny_lm.tokens()["token_ids"] for name in backbone.input}
    for name in rows:
        if "mask" in name:
            rows[name] = tiny_lm.tokens()["padding_mask"]
    assert len(widths(backbone)) == 2
    smaller = pruning.prune(backbone, keep=0.5)
    assert type(smaller) is not type(backbone)
    assert smaller.count_params() < backbone.count_params()
    whole = pruning.prune(backbone, keep=1.0)
    assert type(whole) is type(backbone)
    for found, expected in zip(
        keras.tree.flatten(whole(rows)), keras.tree.flatten(backbone(rows))
    ):
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_what_is_not_plain_stays():
    model = tiny_lm.gpt2()
    model.backbone.enable_lora(2)
    assert not widths(model)
    decoder = keras_hub.layers.TransformerDecoder(16, 2, name="decoder")
    texts, images = keras.Input((5, 8)), keras.Input((4, 8))
    reading = keras.Model([texts, images], decoder(texts, images))
    assert "another sequence" in pruning.structure(reading).frozen["decoder"]
