"""The loop over tokens, as pure functions of weights, prompts and caches.

Pure, because XLA compiles them whole: the weights enter as arguments, so that
training may change them without a trace, and the caches go from step to step as
values, which XLA updates in place.
"""

from typing import NamedTuple

import keras
from keras import ops

from keras_distill.gkd.decoding.attention import attend
from keras_distill.gkd.decoding.attention import heads_first
from keras_distill.gkd.decoding.token_sampling import sample_tokens


class State(NamedTuple):
    """Where the loop is; `prompt` and `steps` are sizes, known when compiled.

    Attributes:
        step: int32 scalar, how many tokens each row has sampled.
        token_ids: int32 `[rows]`, the last of them.
        is_done: Boolean `[rows]`.
        sampled: int32 `[steps, rows]`, all of them.
        caches: A pair of `[rows, key_heads, prompt + steps, head_dim]` for
            each layer: the prompt's keys and values, then the completion's.
    """

    step: object
    token_ids: object
    is_done: object
    sampled: object
    caches: list


class Rows(NamedTuple):
    """What does not change in the loop.

    Attributes:
        lengths: int32 `[rows]`, the tokens of each prompt.
        limits: int32 `[rows]`, the most tokens of each completion.
        uniforms: float32 `[steps, rows]`, in `[0, 1)`.
    """

    lengths: object
    limits: object
    uniforms: object


class Loop:
    """Prefill and decoding of one model.

    Args:
        family: `DecoderFamily`.
        variables: List of the model's variables.
        temperature: Number of at least 0; 0 is greedy.
        stop_token_ids: Tuple of ints.
    """

    def __init__(self, family, variables, temperature, stop_token_ids):
        self.family = family
        self.variables = variables
        self.temperature = temperature
        self.stop_token_ids = stop_token_ids

    def prefill(self, values, rows, prompts):
        """Reads `prompts`, int32 `[rows, prompt]`, and samples one token."""
        with self._weights(values):
            steps = rows.uniforms.shape[0]
            x, caches = self._read(prompts, rows.lengths, steps)
            return self._sample_next(
                State(
                    ops.zeros((), "int32"),
                    None,
                    rows.limits <= 0,
                    ops.zeros(rows.uniforms.shape, "int32"),
                    caches,
                ),
                x,
                rows,
                self.family.head(),
            )

    def prompt_logits(self, values, lengths, prompts):
        """The logits behind each prompt, `[rows, vocabulary]`."""
        with self._weights(values):
            return self.family.head()(self._read(prompts, lengths, 0)[0])[:, 0]

    def _read(self, prompts, lengths, steps):
        """The state at each prompt's end, and caches with room for `steps`.

        What stands behind a shorter prompt is computed as well: in a causal
        model nothing before it reads it, and `_next` leaves it out.
        """
        positions = ops.arange(prompts.shape[1], dtype="int32")[None]
        is_visible = positions[:, None] <= positions[:, :, None]
        caches = []

        def attend_and_keep(query, key, value, **options):
            pair = heads_first(key), heads_first(value)
            later = ((0, 0), (0, 0), (0, steps), (0, 0))
            caches.append(tuple(ops.pad(x, later) for x in pair))
            return attend(query, *pair, is_visible, **options)

        x = self._run(prompts, positions, attend_and_keep)
        last = lengths[:, None, None] - 1
        return ops.take_along_axis(x, last, axis=1), caches

    def advance(self, values, rows, state, enough):
        """Samples tokens until at most `enough` rows are not done."""

        def unfinished(*state):
            is_open = ops.logical_not(State(*state).is_done)
            return ops.sum(ops.cast(is_open, "int32")) > enough

        with self._weights(values):
            head = self.family.head()
            state = ops.while_loop(
                unfinished,
                lambda *state: self._next(State(*state), rows, head),
                state,
            )
        return State(*state)

    def _next(self, state, rows, head):
        """Reads the last token of each row and samples the next one.

        In the caches all rows write their token at the same `slot`, behind the
        widest prompt: one slice for all, where each row's own end would be a
        scatter. A shorter prompt thus has a gap before its completion, which
        is masked, as are the slots to come. Positions count without the gap.
        """
        capacity = state.caches[0][0].shape[2]
        prompt = capacity - state.sampled.shape[0]
        slot = prompt + state.step - 1
        columns = ops.arange(capacity, dtype="int32")
        is_prompt = columns < rows.lengths[:, None]
        is_sampled = ops.logical_and(columns >= prompt, columns <= slot)
        is_visible = ops.logical_or(is_prompt, is_sampled)[:, None]
        before, caches = iter(state.caches), []

        def attend_and_keep(query, key, value, **options):
            pair = tuple(
                ops.slice_update(old, (0, 0, slot, 0), heads_first(new))
                for old, new in zip(next(before), (key, value))
            )
            caches.append(pair)
            return attend(query, *pair, is_visible, **options)

        positions = (rows.lengths + state.step - 1)[:, None]
        x = self._run(state.token_ids[:, None], positions, attend_and_keep)
        return self._sample_next(state._replace(caches=caches), x, rows, head)

    def _run(self, token_ids, positions, attend):
        x = self.family.embed(token_ids, positions)
        for layer in self.family.backbone.transformer_layers:
            x = self.family.block(layer, x, positions, attend)
        return x

    def _sample_next(self, state, x, rows, head):
        """The state after a token sampled from `x`, `[rows, 1, hidden]`."""
        uniforms = rows.uniforms[state.step]
        logits = head(x)[:, 0]
        token_ids = sample_tokens(logits, uniforms, self.temperature)
        is_done = ops.logical_or(state.is_done, rows.limits <= state.step + 1)
        for stop in self.stop_token_ids:
            is_done = ops.logical_or(is_done, token_ids == stop)
        return State(
            state.step + 1,
            token_ids,
            is_done,
            ops.slice_update(state.sampled, (state.step, 0), token_ids[None]),
            state.caches,
        )

    def _weights(self, values):
        """The scope in which the model's variables have `values`."""
        pairs = list(zip(self.variables, values))
        return keras.StatelessScope(state_mapping=pairs)
