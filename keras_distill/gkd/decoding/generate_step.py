"""Decoding through KerasHub's own `generate_step`: any model, any sampler."""

import numpy as np

from keras_distill._backend import compile_reading


class GenerateStep:
    """Completes prompts with the `generate_step` of a KerasHub `CausalLM`.

    Args:
        model: `keras_hub.models.CausalLM`.
        draw: `Draw`.
        stop_token_ids: Tuple of ints.
    """

    def __init__(self, model, draw, stop_token_ids):
        self.model = model
        self.draw = draw
        self.stop_token_ids = stop_token_ids
        self.filler = next(
            i for i in range(len(stop_token_ids) + 1) if i not in stop_token_ids
        )
        self._compiled = compile_reading(
            self._step, [*model.variables, *draw.sampler.variables]
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
        with self.draw.installed(self.model, seed):
            return np.asarray(self._compiled(filled, is_prompt))
