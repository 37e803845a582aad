"""The loop over tokens, as pure functions of weights, prompts and caches."""

from typing import NamedTuple

import keras
from keras import ops

from keras_distill.gkd.decoding.attention import attend
from keras_distill.gkd.decoding.attention import heads_first
from keras_distill.gkd.decoding.drawing import draw_tokens


class State(NamedTuple):
    """Where the loop is; `prompt` and `steps` are sizes, known when compiled.

    Attributes:
        step: int32 scalar, how many tokens each row has drawn.
        token_ids: int32 `[rows]`, the last of them.
        is_done: Boolean `[rows]`.
        drawn: int32 `[steps, rows]`, all of them.
        caches: A pair of `[rows, key_heads, prompt + steps, head_dim]` for
            each layer: the prompt's keys and values, then the completion's.
    """

    step: object
    token_ids: object
    is_done: object
    drawn: object
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
        """Reads `prompts`, int32 `[rows, prompt]`, and draws one token."""
        steps = rows.uniforms.shape[0]
        width = prompts.shape[1]
        positions = ops.arange(width, dtype="int32")[None]
        is_visible = positions[:, None] <= positions[:, :, None]
        caches = []

        def attend_and_keep(query, key, value, **options):
            pair = heads_first(key), heads_first(value)
            later = ((0, 0), (0, 0), (0, steps), (0, 0))
            caches.append(tuple(ops.pad(x, later) for x in pair))
            return attend(query, *pair, is_visible, **options)

        with self._weights(values):
            x = self._run(prompts, positions, attend_and_keep)
            last = rows.lengths[:, None, None] - 1
            x = ops.take_along_axis(x, last, axis=1)
            return self._drawn(
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

    def advance(self, values, rows, state, enough):
        """Draws tokens until at most `enough` rows are not done."""

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
        """Reads the last token of each row and draws the next one."""
        capacity = state.caches[0][0].shape[2]
        prompt = capacity - state.drawn.shape[0]
        slot = prompt + state.step - 1
        columns = ops.arange(capacity, dtype="int32")
        is_prompt = columns < rows.lengths[:, None]
        is_drawn = ops.logical_and(columns >= prompt, columns <= slot)
        is_visible = ops.logical_or(is_prompt, is_drawn)[:, None]
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
        return self._drawn(state._replace(caches=caches), x, rows, head)

    def _run(self, token_ids, positions, attend):
        x = self.family.embed(token_ids, positions)
        for layer in self.family.backbone.transformer_layers:
            x = self.family.block(layer, x, positions, attend)
        return x

    def _drawn(self, state, x, rows, head):
        """The state after a token drawn from `x`, `[rows, 1, hidden]`."""
        uniforms = rows.uniforms[state.step]
        logits = head(x)[:, 0]
        token_ids = draw_tokens(logits, uniforms, self.temperature)
        is_done = ops.logical_or(state.is_done, rows.limits <= state.step + 1)
        for stop in self.stop_token_ids:
            is_done = ops.logical_or(is_done, token_ids == stop)
        return State(
            state.step + 1,
            token_ids,
            is_done,
            ops.slice_update(state.drawn, (state.step, 0), token_ids[None]),
            state.caches,
        )

    def _weights(self, values):
        """The scope in which the model's variables have `values`."""
        pairs = list(zip(self.variables, values))
        return keras.StatelessScope(state_mapping=pairs)
