"""Completions of prompts: NumPy arrays in, NumPy arrays out."""

import warnings

import keras_hub
import numpy as np

from keras_distill._checks import check_integer
from keras_distill._layers import longest_sequence
from keras_distill.gkd.decoding.cached import FEWEST_ROWS
from keras_distill.gkd.decoding.cached import CachedDecoder
from keras_distill.gkd.decoding.choice import find_family
from keras_distill.gkd.decoding.generate_step import GenerateStep
from keras_distill.gkd.decoding.prompts import Prompts
from keras_distill.gkd.decoding.samplers import SamplingRule


class Generator:
    """Completes prompts with a KerasHub causal language model.

    The weights are those of the moment of the call, dropout is off and no
    gradient flows. What the model was compiled with (its `sampler`) neither
    matters nor changes.

    Args:
        model: `keras_hub.models.CausalLM`.
        sampler: None for random sampling from the whole vocabulary, the name
            of a KerasHub sampler such as `"greedy"` or `"top_p"`, or a
            `keras_hub.samplers.Sampler`. Defaults to None.
        temperature: Number that divides the logits; 0 is greedy. A sampler
            with a temperature of its own keeps it where this one is 1.
            Defaults to `1.0`.
        stop_token_ids: Ints. A row ends with the first of them that it
            generates. Defaults to none: rows end at their limits.
        pad_token_id: Int, what stands behind a completion. May be one of
            the stop tokens. Defaults to `0`.

    Raises:
        ValueError: If an argument is not as described.

    Example:

    >>> import keras_hub
    >>> backbone = keras_hub.models.GPT2Backbone(
    ...     vocabulary_size=20, num_layers=1, num_heads=2, hidden_dim=4,
    ...     intermediate_dim=8, max_sequence_length=8)
    >>> model = keras_hub.models.GPT2CausalLM(backbone)
    >>> generator = Generator(model, temperature=0.9, stop_token_ids=[3])
    >>> prompts = np.array([[5, 6, 0, 0, 0, 0], [5, 6, 7, 8, 0, 0]])
    >>> token_ids, lengths = generator(prompts, [2, 4], [6, 5], seed=1)
    >>> token_ids.shape, int(lengths[1])
    ((2, 6), 5)
    """

    def __init__(
        self,
        model,
        sampler=None,
        temperature=1.0,
        stop_token_ids=(),
        pad_token_id=0,
    ):
        if not isinstance(model, keras_hub.models.CausalLM):
            raise ValueError(
                "`model` must be a `keras_hub.models.CausalLM`. Received: "
                f"model={model!r}"
            )
        check_integer("pad_token_id", pad_token_id, 0)
        for token in stop_token_ids:
            check_integer("stop_token_ids", token, 0)
        self.model = model
        self.stop_token_ids = tuple(int(token) for token in stop_token_ids)
        self.pad_token_id = pad_token_id
        self.rule = SamplingRule(sampler, temperature)
        self._variables = []
        self._told = False

    def __call__(self, token_ids, prompt_lengths, limits, seed):
        """Completes each prompt up to its limit or its first stop token.

        Args:
            token_ids: Int array of shape `[rows, length]`. Row `i` holds its
                prompt in `[:prompt_lengths[i]]`; what follows is not read.
                What is compiled depends on `length`, on the longest prompt
                and on the number of rows, each padded to few sizes.
            prompt_lengths: Ints of shape `[rows]`, at least 1.
            limits: Ints of shape `[rows]`, the most tokens of prompt and
                completion together, between `prompt_lengths` and `length`.
            seed: Int of at least 0. The same seed and weights give the same
                tokens, whatever else ran.

        Returns:
            `(token_ids, lengths)`: int32 arrays of shapes `[rows, length]`
            and `[rows]`. Row `i` holds prompt and completion in
            `[:lengths[i]]`, the stop token included, and padding behind.

        Raises:
            ValueError: If the shapes or numbers do not fit each other, or
                the model takes fewer tokens than `length`.
        """
        prompts = Prompts.checked(token_ids, prompt_lengths, limits)
        check_integer("seed", seed, 0)
        self._check_length(prompts.token_ids.shape[1])
        unfinished = np.flatnonzero(prompts.limits > prompts.lengths)
        tokens = prompts.token_ids.copy()
        if unfinished.size:
            decode = self._decoder(prompts.token_ids.shape[1])
            found = decode(prompts.filled(unfinished, FEWEST_ROWS), seed)
            tokens[unfinished] = found[: unfinished.size]
        lengths = prompts.ends(tokens, self.stop_token_ids)
        is_padding = np.arange(tokens.shape[1]) >= lengths[:, None]
        tokens[is_padding] = self.pad_token_id
        return tokens, lengths

    def _check_length(self, length):
        longest = longest_sequence(self.model)
        if longest is not None and length > longest:
            raise ValueError(
                "The length of `token_ids` must be at most the model's. "
                f"Received: length={length}, max_sequence_length={longest}"
            )

    def _decoder(self, length):
        """Our own loop where it is right, else KerasHub's."""
        self._refresh()
        family = self._family
        if family is not None and length > (family.longest or length):
            self._tell(
                f"its layers attend to the last {family.longest} tokens alone, "
                f"and rows have {length}"
            )
            return self._slow
        return self._slow if family is None else self._fast

    def _refresh(self):
        """Builds the decoders, again where the model got other variables."""
        model, stops = self.model, self.stop_token_ids
        variables = model.variables
        if [id(v) for v in variables] == [id(v) for v in self._variables]:
            return
        self._variables = variables
        self._slow = GenerateStep(model, self.rule, stops)
        self._family = None
        if not self.rule.is_plain:
            return
        self._family, reason = find_family(model)
        if self._family is None:
            self._tell(reason)
        else:
            self._fast = CachedDecoder(
                model, self._family, self.rule.temperature, stops
            )

    def _tell(self, reason):
        """Warns once that the faster loop cannot be used."""
        if not self._told:
            warnings.warn(
                f"{type(self.model).__name__} {self.model.name!r} writes with "
                "KerasHub's own `generate_step`, which is right and some three "
                f"times slower than the loop of this package: {reason}",
                stacklevel=2,
            )
        self._told = True
