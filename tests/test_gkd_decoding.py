"""Completions against KerasHub's own, and draws against the softmax."""

import functools

import keras
import keras_hub
import numpy as np
import pytest
import tiny
import tiny_lm
import variants
from keras import ops
from scipy.special import softmax
from scipy.stats import chisquare

from keras_distill._backend import nested_layers
from keras_distill._backend.adapters import adapters
from keras_distill.gkd.decoding import Generator
from keras_distill.gkd.decoding import cached
from keras_distill.gkd.decoding import families
from keras_distill.gkd.decoding.choice import find_family
from keras_distill.gkd.decoding.token_sampling import sample_tokens

LENGTH = 16
LENGTHS = np.array([3, 5, 2, LENGTH, 4, 9])
LIMITS = np.array([LENGTH, 9, LENGTH, LENGTH, 5, 12])
TEMPERATURE = 0.8


def prompts(fill=0):
    """Prompts of unequal length; `fill` stands behind them."""
    rng = np.random.default_rng(1)
    token_ids = rng.integers(1, 40, (len(LENGTHS), LENGTH))
    return np.where(np.arange(LENGTH) < LENGTHS[:, None], token_ids, fill)


@functools.cache
def model_and_tokens(name):
    """A model, and what KerasHub's greedy `generate` makes of the prompts."""
    model = getattr(tiny_lm, name)()
    model.compile(sampler="greedy")
    return model, hub_tokens(model)


def hub_tokens(model):
    """What `generate` calls: Gemma 3's own wants images around it."""
    inputs = {
        "token_ids": keras.ops.convert_to_tensor(prompts(), "int32"),
        "padding_mask": keras.ops.convert_to_tensor(
            np.arange(LENGTH) < LENGTHS[:, None]
        ),
    }
    generate = model.make_generate_function()
    return np.asarray(generate(inputs, stop_token_ids=None)["token_ids"])


def cut(token_ids, stops, pad=0):
    """Rows up to their first stop token or limit, and where that is."""
    token_ids, ends = token_ids.copy(), []
    for row, start, limit in zip(token_ids, LENGTHS, LIMITS):
        generated = range(start, limit)
        ends.append(next((i + 1 for i in generated if row[i] in stops), limit))
        row[ends[-1] :] = pad
    return token_ids, ends


def check_greedy(name):
    model, full = model_and_tokens(name)
    stops = [int(full[0, LENGTHS[0]]), 0]  # Row 0 ends at once; 0 pads.
    generator = Generator(model, "greedy", stop_token_ids=stops)
    token_ids, lengths = generator(prompts(fill=0), LENGTHS, LIMITS, seed=0)
    expected, ends = cut(full, stops)
    assert find_family(model)[0] is not None
    assert ends[0] == LENGTHS[0] + 1
    np.testing.assert_array_equal(lengths, ends)
    np.testing.assert_array_equal(token_ids, expected)
    return generator, token_ids


@pytest.mark.large
def test_greedy_tokens_are_those_of_kerashub():
    generator, token_ids = check_greedy("gpt2")
    other, _ = generator(prompts(fill=7), LENGTHS, LIMITS, seed=1)
    np.testing.assert_array_equal(other, token_ids)


@pytest.mark.large
@pytest.mark.parametrize(
    "name",
    variants.in_ci(
        ["llama", "mistral", "qwen", "qwen3", "gemma", "gemma2", "gemma3"],
        "llama",
        "qwen3",
        "gemma3",
    ),
)
def test_greedy_tokens_of_other_families(name):
    check_greedy(name)


def test_generate_step_gives_the_same_tokens():
    model = tiny_lm.gpt2(dropout=0.5)
    own = keras_hub.samplers.TopPSampler(p=0.5, seed=1)
    model.compile(sampler=own)
    _, full = model_and_tokens("gpt2")
    top_1 = keras_hub.samplers.TopKSampler(k=1, seed=1)
    state = tiny.values(top_1.variables)
    generator = Generator(model, top_1, 0.5, stop_token_ids=[0, 5, 9])
    found = generator(prompts(), LENGTHS, LIMITS, seed=2)
    for array, expected in zip(found, cut(full, [0, 5, 9])):
        np.testing.assert_array_equal(array, expected)
    assert model.sampler is own
    assert top_1.temperature == 1
    assert tiny.equal(tiny.values(top_1.variables), state)


ROWS = 2048


@functools.cache
def drawing():
    """A model, a generator of random completions, and its prompts."""
    model = tiny_lm.gpt2(layers=1, width=8)
    model.compile(sampler="greedy")
    generator = Generator(model, temperature=TEMPERATURE)
    token_ids = np.tile([5, 6, 7, 0, 0, 0], (ROWS, 1))
    lengths = np.full(ROWS, 3)
    return model, lambda seed: generator(token_ids, lengths, lengths + 2, seed)


def p_value(drawn, prefix):
    """Of `drawn` tokens if the model's softmax after `prefix` is the truth."""
    model, _ = drawing()
    inputs = {
        "token_ids": np.array([prefix]),
        "padding_mask": np.ones((1, len(prefix)), "int32"),
    }
    logits = np.asarray(model(inputs))[0, -1].astype("float64")
    expected = len(drawn) * softmax(logits / TEMPERATURE)
    counts = np.bincount(drawn, minlength=len(expected))
    is_rare = expected < 5
    pooled = [
        np.append(a[~is_rare], a[is_rare].sum()) for a in (counts, expected)
    ]
    return chisquare(*pooled).pvalue


@pytest.mark.large
def test_draws_follow_the_softmax():
    _, complete = drawing()
    token_ids, lengths = complete(0)
    first, second = token_ids[:, 3], token_ids[:, 4]
    assert (lengths == 5).all()
    assert p_value(first, [5, 6, 7]) > 0.01
    likeliest = np.bincount(first).argmax()
    after = second[first == likeliest]
    assert len(after) > 200
    assert p_value(after, [5, 6, 7, likeliest]) > 0.01


def test_the_seed_alone_decides():
    _, complete = drawing()
    token_ids, _ = complete(3)
    keras.utils.set_random_seed(7)
    keras.random.normal((3,))
    np.testing.assert_array_equal(complete(3)[0], token_ids)
    assert (complete(4)[0] != token_ids).any()


def test_new_weights_count_without_a_trace(monkeypatch):
    model, complete = drawing()
    before, traces = complete(0)[0], []
    table = model.backbone.token_embedding
    monkeypatch.setattr(
        type(table), "call", lambda *args, **kwargs: traces.append(args)
    )
    old = tiny.array(table.embeddings)
    table.embeddings.assign(np.roll(old, 1, axis=0))
    after = complete(0)[0]
    table.embeddings.assign(old)
    assert not traces
    assert (after != before).any()
    np.testing.assert_array_equal(complete(0)[0], before)


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_draw_inverts_the_cumulative_distribution(temperature):
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (500, 300)).astype("float32")
    logits[:, ::3] = -np.inf
    uniforms = np.linspace(0, 1, 500, endpoint=False, dtype="float32")
    uniforms[-1] = 1 - 2**-24
    found = np.asarray(sample_tokens(logits, uniforms, temperature))
    mass = softmax(logits.astype("float64") / temperature, -1)
    ends = mass.cumsum(-1)
    rows = np.arange(500)
    assert (mass[rows, found] > 0).all()
    assert (ends[rows, found] > uniforms - 1e-5).all()
    assert ((ends - mass)[rows, found] < uniforms + 1e-5).all()


class Same(keras_hub.models.GPT2CausalLM):
    """Another class that does the same."""


class Reversing(keras_hub.models.GPT2CausalLM):
    """Other logits while it writes than in a call."""

    def call_with_cache(self, *args):
        logits, *rest = super().call_with_cache(*args)
        return -logits, *rest


def quantised():
    model = tiny_lm.gpt2()
    for layer in nested_layers(model):
        if isinstance(layer, keras.layers.EinsumDense):
            layer.quantize("int8")
    return model


def without_scale(monkeypatch):
    """A family that has forgotten what KerasHub does."""
    block = families.GPT2.block

    def unscaled_block(self, layer, x, positions, attend):
        def unscaled(*args, scale):
            return attend(*args, scale=1.0)

        return block(self, layer, x, positions, unscaled)

    monkeypatch.setattr(families.GPT2, "block", unscaled_block)
    return tiny_lm.gpt2()


def with_renamed_layer(monkeypatch):
    """A KerasHub in which the layers have other names."""

    def attention(layer):
        return layer._renamed

    monkeypatch.setattr(families.GPT2, "attention", staticmethod(attention))
    return tiny_lm.gpt2()


def test_a_subclass_that_computes_the_same_is_known():
    model = Same(tiny_lm.gpt2().backbone, preprocessor=None)
    assert isinstance(find_family(model)[0], families.GPT2)


@pytest.mark.large
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (
            lambda _: Reversing(tiny_lm.gpt2().backbone, preprocessor=None),
            "its logits, up to .*, differ by",
        ),
        (without_scale, "its logits, up to .*, differ by"),
        (with_renamed_layer, "no attribute '_renamed'"),
        (lambda _: quantised(), "is quantised"),
    ],
    ids=["subclass", "wrong family", "renamed", "quantised"],
)
def test_what_no_family_computes_keeps_generate_step(make, reason, monkeypatch):
    model = make(monkeypatch)
    model.compile(sampler="greedy")
    generator = Generator(model, "greedy")
    with pytest.warns(match=reason):
        found, _ = generator(prompts(), LENGTHS, LIMITS, seed=0)
    np.testing.assert_array_equal(found, cut(hub_tokens(model), [])[0])
    generator(prompts(), LENGTHS, LIMITS, seed=0)  # Says so once.


def without_adapters(monkeypatch):
    """A family that reads the kernels alone."""

    def attention(layer):
        found = layer._self_attention_layer
        for part in (found._query_dense, found._value_dense):
            part.lora_enabled = False
        return found

    monkeypatch.setattr(families.GPT2, "attention", staticmethod(attention))


@pytest.mark.large
def test_adapters_are_sampled_by_the_loop(monkeypatch):
    model = tiny_lm.gpt2()
    model.backbone.enable_lora(2)
    learned = adapters(model)
    before = [ops.convert_to_numpy(v) for v in learned]
    assert isinstance(find_family(model)[0], families.GPT2)
    for variable, value in zip(learned, before):
        np.testing.assert_array_equal(variable, value)
    plain = hub_tokens(model)
    for variable in learned:
        variable.assign(keras.random.normal(variable.shape, seed=1))
    model.compile(sampler="greedy")
    found, _ = Generator(model, "greedy")(prompts(), LENGTHS, LIMITS, seed=0)
    np.testing.assert_array_equal(found, cut(hub_tokens(model), [])[0])
    assert not np.array_equal(plain, hub_tokens(model))
    # Adapters of 0 would show nothing, and nobody compares with these.
    for variable in learned:
        variable.assign(0.0 * variable)
    without_adapters(monkeypatch)
    assert "differ by" in find_family(model)[1]


@pytest.mark.large
def test_going_on_with_fewer_rows_changes_no_token(monkeypatch):
    token_ids = np.tile([5, 6, 7] + 21 * [0], (16, 1))
    arguments = token_ids, np.full(16, 3), np.full(16, 24), 0
    model = tiny_lm.gpt2()
    several = Generator(model, stop_token_ids=range(10))(*arguments)
    assert len(set(several[1])) > 4
    monkeypatch.setattr(cached, "FEWEST_ROWS", 16)
    one = Generator(model, stop_token_ids=range(10))(*arguments)
    for array, expected in zip(several, one):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.large
def test_a_window_in_use_keeps_generate_step():
    model = tiny_lm.mistral(sliding_window=6)
    generator = Generator(model, "greedy")
    assert find_family(model)[0].longest == 6
    model.compile(sampler="greedy")
    full = hub_tokens(model)
    with pytest.warns(match="the last 6 tokens alone, and rows have 16"):
        found, _ = generator(prompts(), LENGTHS, LIMITS, seed=0)
    np.testing.assert_array_equal(found, cut(full, [])[0])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1}, "Received: temperature=-1"),
        ({"sampler": "top_k", "temperature": 0}, 'sampler="greedy"'),
        ({"sampler": 3}, "Received: sampler=3"),
        ({"stop_token_ids": [1.5]}, "stop_token_ids=1.5"),
        ({"pad_token_id": -1}, "pad_token_id=-1"),
        (
            {
                "sampler": keras_hub.samplers.TopKSampler(temperature=0.5),
                "temperature": 0.9,
            },
            "temperature=0.9, sampler.temperature=0.5",
        ),
    ],
)
def test_wrong_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        Generator(drawing()[0], **options)


def test_wrong_model():
    with pytest.raises(ValueError, match="CausalLM"):
        Generator(tiny.mlp())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"token_ids": [1, 2]}, "shapes"),
        ({"token_ids": [[1.0, 2.0]]}, "float64"),
        ({"prompt_lengths": [0]}, "prompt_lengths=.0."),
        ({"limits": [0]}, "limits=.0."),
        ({"limits": [3]}, "length=2"),
        ({"seed": -1}, "seed=-1"),
        (
            {"token_ids": np.ones((1, 25), int), "limits": [25]},
            "max_sequence_length=24",
        ),
    ],
)
def test_wrong_prompts(change, message):
    arguments = {
        "token_ids": [[1, 2]],
        "prompt_lengths": [1],
        "limits": [2],
        "seed": 0,
    }
    with pytest.raises(ValueError, match=message):
        Generator(drawing()[0])(**arguments | change)
