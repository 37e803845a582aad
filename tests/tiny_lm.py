"""Causal language models of a few units, whose predictions differ by seed."""

import keras_hub
import numpy as np


def gpt2(
    vocabulary_size=40, layers=2, width=16, length=24, seed=0, dropout=0.0
):
    """Tied head, absolute positions: at most `length` tokens."""
    backbone = keras_hub.models.GPT2Backbone(
        vocabulary_size=vocabulary_size,
        num_layers=layers,
        num_heads=2,
        hidden_dim=width,
        intermediate_dim=2 * width,
        dropout=dropout,
        max_sequence_length=length,
    )
    model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    return randomized(model, seed)


def llama(vocabulary_size=40, layers=2, width=16, seed=0, tied=False):
    """A head of its own unless `tied`; rotary positions, of any length."""
    backbone = keras_hub.models.LlamaBackbone(
        vocabulary_size=vocabulary_size,
        num_layers=layers,
        num_query_heads=4,
        num_key_value_heads=2,
        hidden_dim=width,
        intermediate_dim=2 * width,
        tie_word_embeddings=tied,
    )
    model = keras_hub.models.LlamaCausalLM(backbone, preprocessor=None)
    return randomized(model, seed)


def randomized(model, seed):
    """Weights large enough that no distribution is nearly uniform."""
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            embeds = "embedding" in variable.path
            scale = 0.5 if embeds else np.prod(variable.shape[:-1]) ** -0.5
            variable.assign(rng.normal(0, scale, variable.shape))
    return model


def tokens(rows=3, length=8, vocabulary_size=40, seed=0):
    """Right-padded inputs with pad id 0; the first row is not padded."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, length + 1, (rows, 1))
    lengths[0] = length
    mask = (np.arange(length) < lengths).astype("int32")
    ids = rng.integers(1, vocabulary_size, (rows, length))
    return {"token_ids": (ids * mask).astype("int32"), "padding_mask": mask}


def mistral(seed=0, sliding_window=None):
    """A head of its own; attends to the last `sliding_window` tokens."""
    backbone = keras_hub.models.MistralBackbone(
        vocabulary_size=40,
        num_layers=2,
        num_query_heads=4,
        num_key_value_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        sliding_window=sliding_window,
    )
    model = keras_hub.models.MistralCausalLM(backbone, preprocessor=None)
    return randomized(model, seed)


def qwen(seed=0):
    """Biases in the attention."""
    backbone = keras_hub.models.QwenBackbone(
        vocabulary_size=40,
        num_layers=2,
        num_query_heads=4,
        num_key_value_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
    )
    model = keras_hub.models.QwenCausalLM(backbone, preprocessor=None)
    return randomized(model, seed)


def qwen3(seed=0):
    """Norms of queries and keys; heads wider than their share."""
    backbone = keras_hub.models.Qwen3Backbone(
        vocabulary_size=40,
        num_layers=2,
        num_query_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        hidden_dim=16,
        intermediate_dim=32,
    )
    model = keras_hub.models.Qwen3CausalLM(backbone, preprocessor=None)
    return randomized(model, seed)


def gemma(seed=0, **options):
    """Scaled embeddings; `options` of Gemma 2: soft caps, later norms."""
    backbone = keras_hub.models.GemmaBackbone(
        vocabulary_size=40,
        num_layers=2,
        num_query_heads=4,
        num_key_value_heads=2,
        hidden_dim=16,
        intermediate_dim=64,
        head_dim=8,
        **options,
    )
    model = keras_hub.models.GemmaCausalLM(backbone, preprocessor=None)
    return randomized(model, seed)


def gemma2(seed=0):
    return gemma(
        seed,
        query_head_dim_normalize=False,
        use_post_ffw_norm=True,
        use_post_attention_norm=True,
        attention_logit_soft_cap=2.0,
        final_logit_soft_cap=3.0,
        use_sliding_window_attention=True,
        sliding_window_size=64,
    )


def gemma3(seed=0):
    """Text only, local and global layers."""
    backbone = keras_hub.models.Gemma3Backbone(
        vocabulary_size=40,
        image_size=16,
        num_layers=2,
        num_query_heads=4,
        num_key_value_heads=2,
        hidden_dim=16,
        intermediate_dim=32,
        head_dim=8,
        use_post_ffw_norm=True,
        use_post_attention_norm=True,
        use_sliding_window_attention=True,
        sliding_window_size=64,
    )
    model = keras_hub.models.Gemma3CausalLM(
        preprocessor=None, backbone=backbone
    )
    return randomized(model, seed)
