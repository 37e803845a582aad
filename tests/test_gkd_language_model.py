"""A backbone and a head that together are the model, for every family."""

import keras_hub
import numpy as np
import pytest
import tiny
import tiny_lm
from keras import ops

from keras_distill.gkd.language_model import LanguageModel

models = keras_hub.models
SIZES = {
    "vocabulary_size": 40,
    "num_layers": 2,
    "hidden_dim": 16,
    "intermediate_dim": 32,
}
GROUPED = {**SIZES, "num_query_heads": 4, "num_key_value_heads": 2}
GEMMA = {**GROUPED, "head_dim": 8}


def family(name, options):
    backbone = getattr(models, f"{name}Backbone")(**options)
    model = getattr(models, f"{name}CausalLM")(
        backbone=backbone, preprocessor=None
    )
    return tiny_lm.randomized(model, 0)


QUICK = {
    "gpt2": tiny_lm.gpt2,
    "llama": tiny_lm.llama,
    "llama_tied": lambda: tiny_lm.llama(tied=True),
    "gemma2": lambda: family(
        "Gemma",
        {
            **GEMMA,
            "final_logit_soft_cap": 3.0,
            "attention_logit_soft_cap": 5.0,
            "query_head_dim_normalize": False,
        },
    ),
}
LARGE = {
    "llama3": ("Llama3", GROUPED),
    "gemma": ("Gemma", GEMMA),
    "gemma3": ("Gemma3", {**GEMMA, "image_size": None}),
    "gemma4": ("Gemma4", {**GEMMA, "image_size": None}),
    "mistral": ("Mistral", {**GROUPED, "sliding_window": 4}),
    "mixtral": ("Mixtral", {**GROUPED, "num_experts": 2}),
    "qwen": ("Qwen", GROUPED),
    "qwen_tied": ("Qwen", {**GROUPED, "tie_word_embeddings": True}),
    "qwen3": ("Qwen3", {**GROUPED, "head_dim": 8}),
    "phi3": ("Phi3", GROUPED),
    "opt": ("OPT", {**SIZES, "num_heads": 2, "max_sequence_length": 24}),
    "bloom": ("Bloom", {**SIZES, "num_heads": 2}),
    "gpt_neo_x": (
        "GPTNeoX",
        {**SIZES, "num_heads": 2, "max_sequence_length": 24},
    ),
}
CASES = [
    *(pytest.param(make, id=name) for name, make in QUICK.items()),
    *(
        pytest.param(
            lambda case=case: family(*case), id=name, marks=pytest.mark.large
        )
        for name, case in LARGE.items()
    ),
]


@pytest.mark.parametrize("make", CASES)
def test_parts_are_the_model(make):
    model, inputs = make(), tiny_lm.tokens()
    parts = LanguageModel(model)
    hidden = parts.hidden_states(**inputs)
    assert tuple(hidden.shape) == (3, 8, 16) == (3, 8, parts.hidden_dim)
    assert parts.vocabulary_size == 40
    if "position_ids" in model.input:
        inputs["position_ids"] = np.tile(np.arange(8, dtype="int32"), (3, 1))
    np.testing.assert_allclose(
        parts.logits(hidden), model(inputs), rtol=1e-5, atol=1e-6
    )
    flat = ops.reshape(hidden, (-1, 16))
    np.testing.assert_allclose(
        ops.reshape(parts.logits(flat), (3, 8, 40)),
        parts.logits(hidden),
        rtol=1e-5,
        atol=1e-6,
    )


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (tiny_lm.gpt2, ["embeddings"]),
        (tiny_lm.llama, ["reverse_embeddings"]),
    ],
)
def test_head_variables(make, names):
    model = make()
    parts = LanguageModel(model)
    assert [v.name for v in parts.head_variables] == names
    hidden = parts.hidden_states(**tiny_lm.tokens())
    before = ops.convert_to_numpy(parts.logits(hidden))
    for variable in model.variables:
        head = any(variable is v for v in parts.head_variables)
        value = ops.convert_to_numpy(variable)
        variable.assign(value + 1)
        changed = np.any(ops.convert_to_numpy(parts.logits(hidden)) != before)
        assert changed == head
        variable.assign(value)


def test_dropout_only_in_training():
    parts = LanguageModel(tiny_lm.gpt2(dropout=0.5))
    inputs = tiny_lm.tokens()
    plain = ops.convert_to_numpy(parts.hidden_states(**inputs))
    np.testing.assert_array_equal(parts.hidden_states(**inputs), plain)
    dropped = parts.hidden_states(**inputs, training=True)
    assert np.any(ops.convert_to_numpy(dropped) != plain)


class OtherHead(models.GPT2CausalLM):
    """Computes logits that its token embedding knows nothing of."""

    def __init__(self, backbone, preprocessor=None):
        super().__init__(backbone, preprocessor)
        models.CausalLM.__init__(
            self, inputs=backbone.input, outputs=2 * self.output
        )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (tiny.mlp, r"keras_hub.models.CausalLM`.* Received: Functional"),
        (tiny.bert, "Received: BertTextClassifier"),
        (
            lambda: models.BartSeq2SeqLM(
                models.BartBackbone(**SIZES, num_heads=2)
            ),
            "BartSeq2SeqLM must take",
        ),
        (lambda: OtherHead(tiny_lm.gpt2().backbone), "Received: OtherHead"),
    ],
)
def test_message(make, message):
    with pytest.raises(ValueError, match=message):
        LanguageModel(make())
