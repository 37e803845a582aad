"""Decoding through KerasHub's own `generate_step`: any model, any sampler."""

import keras_hub
import numpy as np
from keras import ops

from keras_distill._compiled import compile_reading
from keras_distill.gkd.decoding.samplers import SamplingRule


class GenerateStep:
    """Completes prompts with the `generate_step` of a KerasHub `CausalLM`.

    Args:
        model: `keras_hub.models.CausalLM`.
        rule: `SamplingRule`.
        stop_token_ids: Tuple of ints.
    """

    def __init__(self, model, rule, stop_token_ids):
        self.model = model
        self.rule = rule
        self.stop_token_ids = stop_token_ids
        self.filler = next(
            i for i in range(len(stop_token_ids) + 1) if i not in stop_token_ids
        )
        self._compiled = compile_reading(
            self._step, [*model.variables, *rule.sampler.variables]
        )

    def _step(self, token_ids, padding_mask):
        inputs = {"token_ids": token_ids, "padding_mask": padding_mask}
        outputs = self.model.generate_step(inputs, self.stop_token_ids or None)
        return outputs["token_ids"]

    def __call__(self, prompts, seed):
        """The token ids, completed beyond the limits or stop tokens.

        KerasHub looks for stop tokens everywhere behind the prompt, before
        anything is generated there: padding that is a stop token would end
        every row at once.
        """
        token_ids = prompts.token_ids
        is_prompt = np.arange(token_ids.shape[1]) < prompts.lengths[:, None]
        filled = np.where(is_prompt, token_ids, self.filler).astype("int32")
        with self.rule.installed(self.model, seed):
            return np.asarray(self._compiled(filled, is_prompt))


class _Logits(keras_hub.samplers.Sampler):
    """Keeps the logits of the first token that it should sample."""

    def __call__(self, next, prompt, cache=None, index=0, **_options):
        self.first = ops.convert_to_numpy(
            ops.cast(next(prompt, cache, index)[0], "float32")
        )
        return prompt


def next_logits(model, prompts):
    """The logits from which `model` samples what follows `prompts`.

    Args:
        model: `keras_hub.models.CausalLM`.
        prompts: Int array of shape `[rows, length]`, not padded.

    Returns:
        float32 array of shape `[rows, vocabulary]`.
    """
    sampler = _Logits()
    inputs = {
        # With room for the token.
        "token_ids": ops.convert_to_tensor(np.pad(prompts, ((0, 0), (0, 1)))),
        "padding_mask": ops.convert_to_tensor(
            np.pad(np.ones(prompts.shape, bool), ((0, 0), (0, 1)))
        ),
    }
    with SamplingRule(sampler, 1.0).installed(model, seed=0):
        model.generate_step(inputs)
    return sampler.first
