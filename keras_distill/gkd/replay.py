"""A source that uses earlier completions again."""

import numpy as np

from keras_distill._checks import check_between
from keras_distill._checks import check_integer
from keras_distill.gkd.rows import Rows
from keras_distill.gkd.sources import Source
from keras_distill.gkd.sources import StudentSampler

REPLAY = "replay"


class ReplayBuffer(Source):
    """Draws some rows from earlier generations, prompts included.

    Each row is, with `probability`, one of the rows that were generated
    before and fit into the batch; otherwise `source` generates it, and it is
    stored in place of the oldest. Generation is the expensive part of an
    on-policy step: with `probability=0.5` half of it is saved. The buffer is
    part of the Distiller's checkpoint.

    Args:
        capacity: Integer, how many rows are kept. Defaults to `1000`.
        probability: Float in `[0, 1)`, how often a row is replayed. Defaults
            to `0.5`.
        source: `Source` of fresh rows. Defaults to `StudentSampler()`.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> buffer = ReplayBuffer(capacity=256, probability=0.25)
    >>> buffer.names
    ('student', 'replay')

    Reference:
        Ko et al., 2024, https://arxiv.org/abs/2402.03898, section 3.2.
    """

    def __init__(self, capacity=1000, probability=0.5, source=None):
        check_integer("capacity", capacity, minimum=1)
        check_between("probability", probability, 0, 1)
        if probability == 1:
            raise ValueError(
                "`probability` must be less than 1: nothing would ever be "
                "generated. Received: probability=1"
            )
        source = StudentSampler() if source is None else source
        if not isinstance(source, Source) or not source.generates:
            raise ValueError(
                "`source` must be a source that generates, such as "
                f"`StudentSampler()`. Received: source={source!r}"
            )
        self.capacity = capacity
        self.probability = probability
        self.source = source
        self.names = (*source.names, REPLAY)
        self._kept = []

    def bind(self, sampling):
        """Passes the models on to the source of fresh rows."""
        self.source.bind(sampling)

    def __call__(self, rows, limits, seed):
        """Replays some rows and has the others generated."""
        rng = np.random.default_rng(seed)
        replayed = rng.random(len(rows)) < self.probability
        picks = rng.random(len(rows))
        fitting = [kept for kept in self._kept if len(kept[0]) <= rows.width]
        if not fitting:
            replayed[:] = False
        for row in np.flatnonzero(replayed):
            kept = fitting[int(picks[row] * len(fitting))]
            rows = rows.replaced([row], _as_row(*kept, rows.width))
        fresh = np.flatnonzero(~replayed)
        if fresh.size:
            generated = self.source(rows.take(fresh), limits[fresh], seed)
            self._keep(generated)
            rows = rows.replaced(fresh, generated)
        return rows

    def _keep(self, rows):
        for token_ids, prompt, length in zip(
            rows.token_ids, rows.prompt_lengths, rows.lengths
        ):
            self._kept.append((token_ids[:length].copy(), int(prompt)))
        del self._kept[: -self.capacity]

    def state(self):
        """The rows that are kept, one behind the other."""
        inner = {
            f"source_{name}": value
            for name, value in self.source.state().items()
        }
        if not self._kept:
            return inner
        tokens, prompts = zip(*self._kept)
        return inner | {
            "token_ids": np.concatenate(tokens),
            "lengths": np.array([len(row) for row in tokens], "int32"),
            "prompt_lengths": np.array(prompts, "int32"),
        }

    def restore(self, state):
        """Keeps the rows of `state`."""
        prefix = "source_"
        self.source.restore(
            {
                name.removeprefix(prefix): value
                for name, value in state.items()
                if name.startswith(prefix)
            }
        )
        self._kept = []
        if "token_ids" in state:
            ends = np.cumsum(state["lengths"])
            tokens = np.split(np.asarray(state["token_ids"]), ends[:-1])
            prompts = np.asarray(state["prompt_lengths"]).tolist()
            self._kept = list(zip(tokens, prompts))


def _as_row(token_ids, prompt_length, width):
    row = Rows(
        token_ids[None],
        np.array([prompt_length], "int32"),
        np.array([len(token_ids)], "int32"),
        np.full(1, REPLAY, object),
    )
    return row.resized(width)
