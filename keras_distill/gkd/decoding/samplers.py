"""How tokens are sampled: one meaning of `sampler` and `temperature`."""

import contextlib

import keras_hub
import numpy as np

from keras_distill._checks import check_finite


class SamplingRule:
    """How the next token is sampled.

    Args:
        sampler: None for random sampling, the name of a KerasHub sampler, or
            a `keras_hub.samplers.Sampler`.
        temperature: Number of at least 0 that divides the logits; 0 is
            greedy.

    Attributes:
        sampler: The `keras_hub.samplers.Sampler` that means the same.
        temperature: The temperature that holds, 0 for greedy.
        is_plain: Whether it is greedy or random sampling from the whole
            vocabulary, which needs no sampler.
    """

    def __init__(self, sampler, temperature):
        check_finite("temperature", temperature)
        if temperature < 0:
            raise ValueError(
                "`temperature` must be at least 0. Received: "
                f"temperature={temperature}"
            )
        if sampler is None:
            sampler = "random" if temperature else "greedy"
        if isinstance(sampler, str):
            sampler = keras_hub.samplers.get(sampler)
        if not isinstance(sampler, keras_hub.samplers.Sampler):
            raise ValueError(
                "`sampler` must be None, the name of a KerasHub sampler or a "
                f"`keras_hub.samplers.Sampler`. Received: sampler={sampler!r}"
            )
        self.sampler = sampler
        is_greedy = type(sampler) is keras_hub.samplers.GreedySampler
        is_random = type(sampler) is keras_hub.samplers.RandomSampler
        self.is_plain = is_greedy or is_random
        self.temperature = 0.0 if is_greedy else self._one(temperature)

    def _one(self, temperature):
        """The temperature of the sampler or ours: the one that is not 1."""
        own = self.sampler.temperature
        if temperature == 0:
            raise ValueError(
                "`temperature` must be positive with a sampler that is random. "
                f"Received: temperature=0, sampler={self.sampler!r}. Use "
                'sampler="greedy"'
            )
        if 1 not in (own, temperature) and own != temperature:
            raise ValueError(
                "`temperature` and the temperature of `sampler` must agree "
                "where both are set. Received: "
                f"temperature={temperature}, sampler.temperature={own}"
            )
        return float(own if temperature == 1 else temperature)

    @contextlib.contextmanager
    def installed(self, model, seed):
        """Within it `model` samples with this sampler, from `seed` on.

        The model's own sampler, the sampler's temperature and the state of
        its random numbers come back afterwards.
        """
        sampler = self.sampler
        own, temperature = model.sampler, sampler.temperature
        states = [np.asarray(v) for v in sampler.variables]
        words = [seed % 2**32, seed // 2**32 % 2**32]
        model.sampler = sampler
        sampler.temperature = self.temperature or 1.0
        try:
            for i, variable in enumerate(sampler.variables):
                variable.assign(np.array([words[0] ^ i, words[1]], "uint32"))
            yield
        finally:
            for variable, state in zip(sampler.variables, states):
                variable.assign(state)
            sampler.temperature = temperature
            model.sampler = own
