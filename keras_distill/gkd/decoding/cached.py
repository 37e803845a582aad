"""Decoding with caches that are updated in place, in one compiled loop.

What differs from batch to batch would each time be compiled anew: the widths of
prompts and the numbers of steps are therefore padded to few sizes. The random
numbers are NumPy's and enter as values, so that a seed means the same tokens on
every backend and device, in whatever order the rows finish.
"""

import keras
import numpy as np
from keras import ops

from keras_distill._compiled import compile_pure
from keras_distill.gkd.decoding.loop import Loop
from keras_distill.gkd.decoding.loop import Rows

FEWEST_ROWS = 4
SHORTEST_PROMPT = 16


class CachedDecoder:
    """Completes prompts with a model whose `DecoderFamily` is known.

    Args:
        model: `keras_hub.models.CausalLM`.
        family: `DecoderFamily` of `model`.
        temperature: Number of at least 0; 0 is greedy.
        stop_token_ids: Tuple of ints.
    """

    def __init__(self, model, family, temperature, stop_token_ids):
        self.variables = model.variables
        self.loop = Loop(family, self.variables, temperature, stop_token_ids)
        self._compiled = {}

    def __call__(self, prompts, seed):
        """The token ids; what follows a stop token or a limit is left open.

        A step costs what its rows and caches cost to read, whether a row is
        done or not. Where half of the rows are done, the loop therefore stops
        and goes on with the others: half of the work, for one more shape.
        """
        limits = prompts.limits - prompts.lengths
        length = prompts.token_ids.shape[1]
        width = min(_width(int(prompts.lengths.max())), length)
        steps = min(_size(limits.max()), length)
        uniforms = np.random.default_rng(seed).random(
            (len(limits), steps), dtype="float32"
        )
        values = [ops.convert_to_tensor(v) for v in self.variables]
        is_prompt = np.arange(width) < prompts.lengths[:, None]
        token_ids = np.where(is_prompt, prompts.token_ids[:, :width], 0)
        rows = Rows(prompts.lengths, limits, uniforms.T)
        state = self._call(self.loop.prefill, values, rows, token_ids)
        indices = np.arange(len(limits))
        sampled = np.zeros((len(limits), steps), "int32")
        while True:
            enough = len(indices) // 2 if len(indices) > FEWEST_ROWS else 0
            state = self._call(self.loop.advance, values, rows, state, enough)
            sampled[indices] = np.asarray(state.sampled).T
            is_done = np.asarray(state.is_done)
            if is_done.all():
                return _completed(prompts, sampled)
            kept = _kept(is_done)
            indices = indices[kept]
            rows = Rows(*(a[..., kept] for a in rows))
            state = state._replace(
                token_ids=np.asarray(state.token_ids)[kept],
                is_done=is_done[kept],
                sampled=np.asarray(state.sampled)[:, kept],
                caches=[
                    tuple(ops.take(x, kept, axis=0) for x in pair)
                    for pair in state.caches
                ],
            )

    def _call(self, method, values, rows, *arguments):
        """Calls a method of the loop, compiled once for each shape."""
        shapes = [
            tuple(array.shape) for array in keras.tree.flatten(arguments[0])
        ]
        key = method.__name__, rows.uniforms.shape, *shapes
        if key not in self._compiled:
            # One function for all would compile as often, and TensorFlow
            # would warn of a function that is traced again and again.
            self._compiled[key] = compile_pure(method)
        return self._compiled[key](values, rows, *arguments)


def _kept(is_done):
    """Indices of the rows not done, filled up to a power of two."""
    order = np.argsort(is_done, kind="stable")
    size = max(int((~is_done).sum()), FEWEST_ROWS)
    return order[: 1 << (size - 1).bit_length()]


def _completed(prompts, sampled):
    """Each prompt followed by its sampled tokens, as far as they fit."""
    token_ids = prompts.token_ids.copy()
    for row, start, tokens in zip(token_ids, prompts.lengths, sampled):
        row[start:] = 0
        end = min(start + len(tokens), len(row))
        row[start:end] = tokens[: end - start]
    return token_ids


def _width(number):
    """The next power of two: prompts differ from batch to batch."""
    return max(SHORTEST_PROMPT, 1 << (number - 1).bit_length())


def _size(number):
    """The next of 8, 12, 16, 24, 32, 48, ...: close, for it rarely changes."""
    size = 8
    while size < number:
        size = size * 3 // 2 if size & (size - 1) == 0 else size // 3 * 4
    return size
