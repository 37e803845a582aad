"""How to run one token through the layers of a KerasHub model.

The layers of the model do everything but the attention itself, which is given
as `attend(query, key, value, scale, soft_cap)` and knows the cache. They are
private to KerasHub's layers, which have no other way to run without their own
cache; `choice.py` therefore compares what comes out with the model itself.
"""

import math

import keras
import keras_hub
from keras import ops


class DecoderFamily:
    """The layers of one kind of KerasHub causal language model.

    Attributes:
        backbones: Tuple of the KerasHub classes of backbones it is for.
    """

    backbones = ()

    def __init__(self, model):
        self.backbone = model.backbone

    @staticmethod
    def attention(layer):
        return layer._self_attention_layer

    @property
    def longest(self):
        """The longest sequence it is right for, or None."""
        windows = map(self.window, self.backbone.transformer_layers)
        return min((w for w in windows if w), default=None)

    def window(self, layer):
        """How far back `layer` attends, or None for everything."""

    def embed(self, token_ids, positions):  # noqa: ARG002
        return self.backbone.token_embedding(token_ids)

    def block(self, layer, x, positions, attend):
        raise NotImplementedError

    def head(self):
        """A function from hidden states to logits, to be built once.

        In it the transposed table is ready, which every token would pay for.
        """
        table = self.backbone.token_embedding
        dtype = table.reverse_dtype or table.compute_dtype
        if table.tie_weights:
            kernel = ops.transpose(ops.convert_to_tensor(table.embeddings))
        else:
            kernel = ops.convert_to_tensor(table.reverse_embeddings)
        kernel = ops.cast(kernel, dtype)

        def logits(x):
            x = ops.cast(self.backbone.layer_norm(x), dtype)
            x = ops.matmul(x, kernel)
            cap = table.logit_soft_cap
            return x if cap is None else cap * ops.tanh(x / cap)

        return logits


class GPT2(DecoderFamily):
    """Learned positions, layer norm, biases."""

    backbones = (keras_hub.models.GPT2Backbone,)

    @property
    def longest(self):
        return self.backbone.max_sequence_length

    def embed(self, token_ids, positions):
        tokens = self.backbone.token_embedding(token_ids)
        table = self.backbone.position_embedding.position_embeddings
        positions = ops.minimum(positions, table.shape[0] - 1)
        found = ops.take(ops.convert_to_tensor(table), positions, axis=0)
        return tokens + ops.cast(found, tokens.dtype)

    def block(self, layer, x, positions, attend):  # noqa: ARG002
        attention = self.attention(layer)
        normed = layer._self_attention_layer_norm(x)
        query = attention._query_dense(normed)
        context = attend(
            query,
            attention._key_dense(normed),
            attention._value_dense(normed),
            scale=1 / math.sqrt(query.shape[-1]),
        )
        x = x + attention._output_dense(context)
        normed = layer._feedforward_layer_norm(x)
        hidden = layer._feedforward_intermediate_dense(normed)
        return x + layer._feedforward_output_dense(hidden)


class Llama(DecoderFamily):
    """Rotary positions, RMS norm, gated feed-forward layers."""

    backbones = (keras_hub.models.LlamaBackbone,)

    def block(self, layer, x, positions, attend):
        attention = self.attention(layer)
        normed = layer._self_attention_layernorm(x)
        rope = attention.rotary_embedding_layer
        query, key = self.query_and_key(attention, normed)
        context = attend(
            rope(query, positions=positions),
            rope(key, positions=positions),
            attention._value_dense(normed),
            scale=1 / math.sqrt(query.shape[-1]),
        )
        x = x + attention._output_dense(context)
        normed = layer._feedforward_layernorm(x)
        gate = ops.cast(layer._feedforward_gate_dense(normed), "float32")
        gate = ops.cast(layer.activation(gate), x.dtype)
        hidden = gate * layer._feedforward_intermediate_dense(normed)
        return x + layer._feedforward_output_dense(hidden)

    def query_and_key(self, attention, x):
        return attention._query_dense(x), attention._key_dense(x)


class Mistral(Llama):
    """Llama with a sliding window."""

    backbones = (keras_hub.models.MistralBackbone,)

    def window(self, layer):
        return layer.sliding_window


class Qwen(Llama):
    """Llama with biases, and a sliding window where it is switched on."""

    backbones = (keras_hub.models.QwenBackbone,)

    def window(self, layer):
        is_used = layer.use_sliding_window_attention
        return layer.sliding_window_size if is_used else None


class Qwen3(Llama):
    """Llama with norms of the queries and keys."""

    backbones = (keras_hub.models.Qwen3Backbone,)

    def window(self, layer):
        return layer.sliding_window_size

    def query_and_key(self, attention, x):
        query, key = super().query_and_key(attention, x)
        return (
            attention._query_dense_layer_norm(query),
            attention._key_dense_layer_norm(key),
        )


class Gemma(DecoderFamily):
    """Scaled embeddings, norms behind the sub-layers, soft caps."""

    backbones = (keras_hub.models.GemmaBackbone,)

    @staticmethod
    def attention(layer):
        return layer.attention

    def window(self, layer):
        is_used = layer.use_sliding_window_attention
        return layer.sliding_window_size if is_used else None

    def embed(self, token_ids, positions):
        x = super().embed(token_ids, positions)
        return x * ops.cast(ops.sqrt(self.backbone.hidden_dim), x.dtype)

    def block(self, layer, x, positions, attend):
        attention = self.attention(layer)
        normed = layer.pre_attention_norm(x)
        query, key = self.query_and_key(attention, normed)
        is_own = attention.query_head_dim_normalize
        heads = attention.num_query_heads
        dim = query.shape[-1] if is_own else attention.hidden_dim // heads
        context = attend(
            attention.rope_layer(query, positions=positions),
            attention.rope_layer(key, positions=positions),
            attention.value_dense(normed),
            scale=1 / math.sqrt(dim),
            soft_cap=attention.logit_soft_cap,
        )
        context = attention.output_dense(context)
        if layer.use_post_attention_norm:
            context = layer.post_attention_norm(context)
        x = x + context
        normed = layer.pre_ffw_norm(x)
        gate = keras.activations.gelu(layer.gating_ffw(normed), True)
        hidden = layer.ffw_linear(gate * layer.gating_ffw_2(normed))
        if layer.use_post_ffw_norm:
            hidden = layer.post_ffw_norm(hidden)
        return x + hidden

    def query_and_key(self, attention, x):
        return attention.query_dense(x), attention.key_dense(x)


class Gemma3(Gemma):
    """Gemma with norms of the queries and keys, text only."""

    backbones = (keras_hub.models.Gemma3Backbone,)

    def query_and_key(self, attention, x):
        query, key = super().query_and_key(attention, x)
        if not attention.use_query_key_norm:
            return query, key
        return attention.query_norm(query), attention.key_norm(key)


FAMILIES = (GPT2, Llama, Mistral, Qwen, Qwen3, Gemma, Gemma3)
