"""What a tap reads, against a second model with many outputs."""

import dataclasses
import threading

import keras
import keras_hub
import numpy as np
import pytest
import tiny
from scipy.special import softmax

from keras_distill import losses
from keras_distill import taps
from keras_distill.recording import record

ENCODERS = {
    "bert": (keras_hub.models.BertBackbone, {}),
    "roberta": (keras_hub.models.RobertaBackbone, {}),
    "distilbert": (keras_hub.models.DistilBertBackbone, {}),
    "albert": (
        keras_hub.models.AlbertBackbone,
        {"embedding_dim": 4, "num_groups": 1},
    ),
    "electra": (keras_hub.models.ElectraBackbone, {"embedding_dim": 4}),
}


def encoder(kind, num_layers=3):
    make, options = ENCODERS[kind]
    width = "embedding_dim" if kind == "electra" else None
    options = {**options, width: 8} if width else options
    names = {"vocabulary_size": tiny.VOCABULARY}
    if kind == "electra":
        names = {"vocab_size": tiny.VOCABULARY}
    return make(
        num_layers=num_layers,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=8,
        max_sequence_length=8,
        **names,
        **options,
    )


def inputs_of(model):
    inputs, _ = tiny.tokens(3)
    return {name: inputs[name] for name in model.input}


def read(model, references, inputs):
    with record(references) as recording:
        model(inputs)
    return [
        keras.ops.convert_to_numpy(recording.value(tap)) for tap in references
    ]


@pytest.mark.parametrize("kind", ENCODERS)
def test_hidden_states_are_those_of_a_model_with_many_outputs(kind):
    model = encoder(kind)
    states = taps.hidden_states(model)
    inputs = inputs_of(model)
    assert len(states) == 4
    got = read(model, states, inputs)
    calls = [
        state.layer._inbound_nodes[state.call_index].output_tensors[0]
        for state in states
    ]
    expected = keras.Model(model.input, calls)(inputs)
    for mine, theirs in zip(got, expected):
        np.testing.assert_array_equal(mine, theirs)
    final = model(inputs)
    if isinstance(final, dict):
        final = final["sequence_output"]
    np.testing.assert_array_equal(got[-1], final)
    assert not np.array_equal(got[0], got[1])


@pytest.mark.parametrize("kind", ENCODERS)
def test_attention_maps_are_probabilities_over_the_keys(kind):
    model = encoder(kind)
    inputs = inputs_of(model)
    maps = read(model, taps.attention_maps(model), inputs)
    assert [m.shape for m in maps] == [(3, 2, 6, 6)] * 3
    mask = inputs["padding_mask"][:, None, None, :]
    for values in maps:
        np.testing.assert_allclose(values.sum(-1), 1, rtol=1e-5)
        assert np.all(values * (1 - mask) < 1e-6)


@pytest.mark.parametrize("kind", ENCODERS)
def test_the_softmax_of_attention_scores_is_the_maps(kind):
    model = encoder(kind)
    inputs = inputs_of(model)
    maps = read(model, taps.attention_maps(model), inputs)
    scores = read(model, taps.attention_maps(model, scores=True), inputs)
    for probabilities, logits in zip(maps, scores):
        assert np.all(logits >= 0)
        np.testing.assert_allclose(
            softmax(np.float64(logits), axis=-1), probabilities, atol=1e-6
        )


def test_attention_ce_of_scores_is_the_cross_entropy_of_the_maps():
    model = encoder("bert")
    inputs = inputs_of(model)
    (p, *_), (scores, *_) = (
        read(model, taps.attention_maps(model, scores=s), inputs)
        for s in (False, True)
    )
    mask = inputs["padding_mask"]
    p = np.float64(p)
    entropy = -(p * np.log(np.maximum(p, 1e-12))).sum(-1).mean(1)
    np.testing.assert_allclose(
        losses.AttentionCE()(scores, scores, mask=mask),
        (entropy * mask).sum() / mask.sum(),
        rtol=1e-4,
    )


def test_attention_maps_are_the_scores_that_the_layer_returns():
    layer = keras.layers.MultiHeadAttention(2, 4, name="attention")
    x = keras.Input((5, 8))
    model = keras.Model(x, layer(x, x))
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    tap = taps.resolve(model, "attention:attention")
    (got,) = read(model, [tap], x)
    output, scores = layer(x, x, return_attention_scores=True)
    np.testing.assert_array_equal(got, scores)
    np.testing.assert_array_equal(model(x), output)
    with record([tap, taps.resolve(model, "attention")]) as recording:
        model(x)
    np.testing.assert_array_equal(
        recording.value(taps.resolve(model, "attention")), output
    )


def test_a_caller_that_asks_for_scores_still_gets_them():
    layer = keras.layers.MultiHeadAttention(1, 4)
    x = np.ones((1, 3, 4), "float32")
    layer(x, x)
    with record([taps.Tap(layer, "attention", 0, "attention")]):
        output, scores = layer(x, x, return_attention_scores=True)
    assert scores.shape == (1, 1, 3, 3)
    assert output.shape == (1, 3, 4)


@pytest.mark.parametrize("make", [tiny.mlp, tiny.sequential, tiny.subclassed])
def test_a_layer_of_any_model_by_name_or_object(make):
    model = make()
    x, _ = tiny.data(4)
    by_name = taps.resolve(model, "hidden")
    (got,) = read(model, [by_name], x)
    np.testing.assert_array_equal(got, by_name.layer(x))
    assert taps.resolve(model, by_name.layer) == by_name
    assert taps.resolve(model, by_name) == by_name


def nested(name):
    inputs = keras.Input((tiny.FEATURES,))
    inner = tiny.mlp(4)
    inner.name = name
    return keras.Model(inputs, inner(inputs))


def test_paths_reach_into_nested_models():
    model = tiny.bert(2)
    tap = taps.resolve(model, "bert_backbone/transformer_layer_1")
    assert tap.layer is model.backbone.transformer_layers[1]
    assert taps.resolve(model, "transformer_layer_1") == tap
    inside = taps.resolve(model, "transformer_layer_1/self_attention_layer")
    assert inside.layer is tap.layer._self_attention_layer
    assert taps.resolve(model, 2) == tap
    assert taps.resolve(model, -1) == tap
    with pytest.raises(ValueError, match="hidden states 0 to 2"):
        taps.resolve(model, 3)


def test_an_ambiguous_name_lists_the_longer_paths():
    inputs = keras.Input((tiny.FEATURES,))
    first, second = nested("first"), nested("second")
    first.name, second.name = "one", "two"
    model = keras.Model(inputs, [first(inputs), second(inputs)])
    with pytest.raises(ValueError, match="one/first/hidden, two/second/hid"):
        taps.resolve(model, "hidden")
    assert str(taps.resolve(model, "first/hidden")) == "one/first/hidden"


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'hidden'"):
        taps.resolve(tiny.mlp(), "hiden")
    with pytest.raises(ValueError, match="is not a part of model"):
        taps.resolve(tiny.mlp(), tiny.mlp().layers[1])
    with pytest.raises(ValueError, match="or an index"):
        taps.resolve(tiny.mlp(), 1.5)


def test_a_shared_layer_has_one_tap_for_each_call():
    layer = keras.layers.Dense(4, "tanh", name="shared")
    inputs = keras.Input((4,))
    model = keras.Model(inputs, layer(layer(inputs)))
    x, _ = tiny.data(3)
    first, second = (taps.resolve(model, f"shared@{i}") for i in range(2))
    got = read(model, [first, second], x)
    np.testing.assert_array_equal(got[0], layer(x))
    np.testing.assert_array_equal(got[1], layer(layer(x)))
    with pytest.raises(ValueError, match="was called 2 times"):
        read(model, [taps.resolve(model, "shared@2")], x)


def test_a_tap_needs_one_tensor():
    model = tiny.bert(1)
    (tap,) = [taps.resolve(model, "bert_backbone")]
    with pytest.raises(ValueError, match="must give one tensor"):
        read(model, [tap], inputs_of(model))


def test_nothing_stays_on_the_layers():
    model = tiny.mlp()
    tap = taps.resolve(model, "hidden")
    x, _ = tiny.data(3)
    with record([tap, tap]) as recording:
        model(x)
    assert "call" not in vars(tap.layer)
    assert recording.value(tap).shape == (3, 8)
    with pytest.raises(ZeroDivisionError), record([tap]):
        raise ZeroDivisionError
    assert "call" not in vars(tap.layer)
    with pytest.raises(ValueError, match="shape"), record([tap]):
        model(np.ones((2, 7), "float32"))
    assert "call" not in vars(tap.layer)


def test_an_instance_attribute_of_the_caller_comes_back():
    model = tiny.mlp()
    tap = taps.resolve(model, "hidden")
    mine = tap.layer.call
    object.__setattr__(tap.layer, "call", mine)
    with record([tap]), record([tap]) as inner:
        model(tiny.data(3)[0])
    assert inner.value(tap).shape == (3, 8)
    assert vars(tap.layer)["call"] is mine


def test_recordings_that_overlap_end_in_any_order():
    model = tiny.mlp()
    tap = taps.resolve(model, "hidden")
    x = tiny.data(3)[0]
    first, second = record([tap]), record([tap])
    one, two = first.__enter__(), second.__enter__()
    model(x)
    first.__exit__(None, None, None)
    model(x + 1)
    second.__exit__(None, None, None)
    assert "call" not in vars(tap.layer)
    model(x)
    again = dataclasses.replace(tap, call_index=1)
    np.testing.assert_array_equal(one.value(tap), two.value(tap))
    assert two.value(again).shape == (3, 8)
    for recording, call in ((one, 1), (two, 2)):
        with pytest.raises(ValueError, match=f"was called {call} times"):
            recording.value(dataclasses.replace(tap, call_index=call))


def test_recordings_of_other_threads_are_not_heard():
    model = tiny.mlp()
    tap = taps.resolve(model, "hidden")
    rows, found = (2, 5), {}
    inside, called = threading.Barrier(2), threading.Barrier(2)

    def work(count):
        with record([tap]) as recording:
            inside.wait(10)
            model(np.ones((count, *model.input_shape[1:]), "float32"))
            called.wait(10)
        found[count] = recording

    threads = [threading.Thread(target=work, args=(n,)) for n in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert "call" not in vars(tap.layer)
    for count in rows:
        assert found[count].value(tap).shape == (count, 8)
        with pytest.raises(ValueError, match="was called 1 times"):
            found[count].value(dataclasses.replace(tap, call_index=1))


def test_a_recording_of_maps_and_one_of_outputs_share_a_layer():
    model = tiny.backbone(1)
    (maps,) = taps.attention_maps(model)
    output = dataclasses.replace(maps, kind="output")
    with record([maps]) as one, record([output]) as two:
        model(inputs_of(model))
    assert one.value(maps).shape[1] == 2
    np.testing.assert_array_equal(one.value(output), two.value(output))


def test_the_mask_comes_with_the_value():
    inputs = keras.Input((4,), dtype="int32")
    x = keras.layers.Embedding(5, 3, mask_zero=True, name="embedding")(inputs)
    model = keras.Model(inputs, keras.layers.LSTM(2, name="lstm")(x))
    tap, without = (taps.resolve(model, n) for n in ("embedding", "lstm"))
    with record([tap, without]) as recording:
        model(np.array([[1, 2, 0, 0]]))
    assert tiny.array(recording.mask(tap)).tolist() == [
        [True, True, False, False]
    ]
    assert recording.mask(without) is None


def test_a_model_around_two_backbones_is_refused():
    first, second = (tiny.backbone(1, name=n) for n in ("first", "second"))
    inputs = first.input
    model = keras.Model(
        inputs,
        [first(inputs)["pooled_output"], second(inputs)["pooled_output"]],
    )
    with pytest.raises(ValueError, match="with 2 backbones"):
        taps.hidden_states(model)
    with pytest.raises(ValueError, match="with 0 backbones"):
        taps.hidden_states(tiny.mlp())
    with pytest.raises(ValueError, match="one of .'output', 'input'"):
        taps.Tap(first, "first", kind="scores")
