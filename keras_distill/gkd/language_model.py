"""A causal language model as two parts: its backbone and its head."""

import keras
import keras_hub
from keras import ops

from keras_distill._backend import producer
from keras_distill._layers import backbones

INPUTS = {"token_ids", "padding_mask"}


class LanguageModel:
    """Reads a KerasHub `CausalLM` as a backbone and a head.

    The two parts share the model's variables. Together they compute what the
    model computes; apart, the logits of a few tokens can be had at a time.

    Args:
        model: `keras_hub.models.CausalLM` on text: its backbone takes
            `token_ids` and `padding_mask`, and its logits are the reverse of
            `backbone.token_embedding`, tied or not, capped or not.

    Raises:
        ValueError: If `model` is not such a model.

    Example:

    >>> import numpy as np
    >>> backbone = keras_hub.models.GPT2Backbone(
    ...     vocabulary_size=10, num_layers=1, num_heads=1, hidden_dim=4,
    ...     intermediate_dim=4, max_sequence_length=8)
    >>> model = keras_hub.models.GPT2CausalLM(backbone, preprocessor=None)
    >>> language_model = LanguageModel(model)
    >>> ones = np.ones((2, 5), "int32")
    >>> hidden = language_model.hidden_states(ones, ones)
    >>> tuple(hidden.shape), tuple(language_model.logits(hidden).shape)
    ((2, 5, 4), (2, 5, 10))
    """

    def __init__(self, model):
        _check(model)
        self.model = model
        self.backbone = model.backbone
        self.head = model.backbone.token_embedding

    @property
    def vocabulary_size(self):
        """Number of entries of the logits, padding entries included."""
        return self.head.input_dim

    @property
    def hidden_dim(self):
        """Width of the hidden states that the head reads."""
        return self.head.output_dim

    @property
    def head_variables(self):
        """The variables that the head reads, the tied embedding included."""
        if self.head.tie_weights:
            return self.head.variables
        return [
            variable
            for variable in self.head.variables
            if variable.name.startswith("reverse_embeddings")
        ]

    def hidden_states(self, token_ids, padding_mask, training=False):
        """Runs the backbone.

        Args:
            token_ids: Integer tensor of shape `[batch, length]`.
            padding_mask: Integer or boolean tensor of shape `[batch, length]`,
                0 at padding.
            training: Boolean. Whether dropout is on.

        Returns:
            Tensor of shape `[batch, length, hidden_dim]`.
        """
        token_ids = ops.convert_to_tensor(token_ids)
        padding_mask = ops.convert_to_tensor(padding_mask)
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        if "position_ids" in self.backbone.input:
            inputs["position_ids"] = ops.broadcast_to(
                ops.arange(ops.shape(token_ids)[1], dtype="int32"),
                ops.shape(token_ids),
            )
        return self.backbone(inputs, training=training)

    def logits(self, hidden_states):
        """Applies the head.

        Args:
            hidden_states: Tensor of shape `[..., hidden_dim]`.

        Returns:
            Tensor of shape `[..., vocabulary_size]`, as `model` computes it
            from the same hidden states.
        """
        logits = self.head(hidden_states, reverse=True)
        cap = _final_cap(self.model)
        return logits if cap is None else ops.tanh(logits / cap) * cap


def _final_cap(model):
    """The number `c` of `c tanh(logits / c)` behind the head, or None."""
    # Gemma 4's, which older versions of KerasHub do not have.
    return getattr(model, "final_logit_cap", None)


def _check(model):
    """Raises `ValueError` unless `LanguageModel` can read `model`."""
    if not isinstance(model, keras_hub.models.CausalLM):
        raise ValueError(
            "Expected a `keras_hub.models.CausalLM`, such as "
            "`keras_hub.models.CausalLM.from_preset(...)` returns. "
            f"Received: {type(model).__name__}"
        )
    inputs = model.input
    found = set(inputs) if isinstance(inputs, dict) else {str(inputs)}
    if found - {"position_ids"} != INPUTS:
        raise ValueError(
            f"{type(model).__name__} must take `token_ids` and `padding_mask` "
            "alone. Pass a model of text, built without image or audio "
            f"encoder. Received: inputs {sorted(found)}"
        )
    found = backbones(model, "token_embedding")
    head = found[0][1].token_embedding if found else None
    if not isinstance(head, keras.layers.ReversibleEmbedding) or not (
        _final_cap(model) is not None or producer(model.output) is head
    ):
        raise ValueError(
            "The logits of the model must be the reverse of its backbone's "
            "`token_embedding`, a `keras.layers.ReversibleEmbedding`, as in "
            f"GPT-2, Llama, Gemma, Mistral or Qwen. Received: "
            f"{type(model).__name__} with {type(head).__name__}"
        )
