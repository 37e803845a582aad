"""From a batch of the data set to the batch that the student learns from."""

import math

import numpy as np

from keras_distill._checks import check_choice
from keras_distill._checks import check_integer
from keras_distill.gkd.rows import check_fits
from keras_distill.gkd.rows import check_token_ids
from keras_distill.gkd.rows import from_batch
from keras_distill.gkd.sources import DATASET

GRANULARITIES = ("sample", "batch")
MEAN_LENGTH, TRUNCATED = "completion_length", "truncated_fraction"
STATISTICS, COUNTS = "statistics", "token_counts"
OF_THE_BATCH = (STATISTICS, COUNTS)


class Rollout:
    """Chooses where each row's completion comes from, and gets it.

    Args:
        sources: Pair of `Source`: chosen with probability lambda, and
            otherwise.
        sampling: `Sampling`.
        granularity: `"sample"` or `"batch"`, what is chosen for at a time.

    Raises:
        ValueError: if an argument is not as described.
    """

    def __init__(self, sources, sampling, granularity):
        check_choice("granularity", granularity, GRANULARITIES)
        check_integer(
            "max_completion_length", sampling.max_completion_length, minimum=1
        )
        check_fits(
            "A prompt and `max_completion_length`",
            1 + sampling.max_completion_length,
            sampling.max_lengths,
        )
        self.sources = sources
        self.sampling = sampling
        self.granularity = granularity
        for source in sources:
            source.bind(sampling)

    @property
    def names(self):
        """All names of sources, each once."""
        return tuple(
            dict.fromkeys(name for s in self.sources for name in s.names)
        )

    @property
    def statistics(self):
        """What the last entry of a filled batch holds, by name."""
        return (
            *(f"{name}_fraction" for name in self.names),
            MEAN_LENGTH,
            TRUNCATED,
        )

    def fill(self, batch, lmbda, seed, step, rows_multiple=1):
        """Gives every row of a batch its completion.

        Args:
            batch: Dict of arrays, see `rows.from_batch`.
            lmbda: Float, the probability of on-policy completions.
            seed: Integer. The draws depend on it and on `step` alone.
            step: Integer.
            rows_multiple: Integer. Empty rows are added up to a multiple.

        Returns:
            Dict of arrays: what `model_inputs` gives and, under
            `"statistics"`, a float32 array in the order of `statistics`.
        """
        rows = self._checked(batch)
        chances = (lmbda, 1 - lmbda)
        for source, chance in zip(self.sources, chances):
            if chance > 0:
                self._check_source(source, rows)
        rng = np.random.default_rng([seed, step])
        choices = 1 if self.granularity == "batch" else len(rows)
        on_policy = np.broadcast_to(rng.random(choices) < lmbda, len(rows))
        limits = rows.prompt_lengths + self.sampling.max_completion_length
        for source, chosen in zip(self.sources, (on_policy, ~on_policy)):
            source_seed = int(rng.integers(2**31))
            index = np.flatnonzero(chosen)
            if index.size:
                found = source(rows.take(index), limits[index], source_seed)
                rows = rows.replaced(index, found)
        statistics = self._statistics(rows)
        inputs = model_inputs(rows, rows_multiple)
        return inputs | {STATISTICS: statistics}

    def responses(self, batch, rows_multiple=1):
        """What the models read to evaluate the data set's responses."""
        rows = self._checked(batch)
        _check_responses(rows, "`evaluate` compares the models on responses")
        return model_inputs(rows, rows_multiple)

    def _checked(self, batch):
        rows = from_batch(batch, DATASET)
        check_token_ids(rows, self.sampling.vocabulary_size)
        check_fits("Rows", rows.width, self.sampling.max_lengths)
        return rows

    def _check_source(self, source, rows):
        """Raises `ValueError` where `source` cannot complete all rows."""
        if source.needs_responses:
            _check_responses(rows, "the data set's responses may be drawn")
        room = self.sampling.max_completion_length
        needed = int(rows.prompt_lengths.max()) + room
        if source.generates and needed > rows.width:
            raise ValueError(
                "Rows must have room for the prompt and a completion of "
                f"{room} tokens: {needed} positions here. Pad with "
                f"`GKDPreprocessor(max_completion_length={room})`, or lower "
                "the Distiller's `max_completion_length`. "
                f"Received: {rows.width} positions"
            )

    def _statistics(self, rows):
        completions = rows.lengths - rows.prompt_lengths
        last = rows.token_ids[np.arange(len(rows)), rows.lengths - 1]
        stopped = np.isin(last, self.sampling.stop_token_ids) & (
            completions > 0
        )
        fractions = [(rows.origins == name).mean() for name in self.names]
        values = [*fractions, completions.mean(), 1 - stopped.mean()]
        return np.array(values, "float32")


def _check_responses(rows, why):
    missing = int((rows.lengths == rows.prompt_lengths).sum())
    if missing:
        raise ValueError(
            f"{missing} of {len(rows)} rows have no response: {why}. Pass "
            "responses to `GKDPreprocessor.batches`, or train with "
            "`lmbda=1.0` or `seq_kd=True`, where the models write them"
        )


def model_inputs(rows, rows_multiple=1):
    """What the compiled step reads.

    Args:
        rows: `Rows`.
        rows_multiple: Integer. Empty rows are added up to a multiple.

    Returns:
        Dict of arrays of shape `[rows, width]`, with a width in quarters
        that the longest row needs: `"token_ids"`, int32;
        `"padding_mask"`, boolean, prompts and completions; and the boolean
        masks `"completion_mask"` and `"response_mask"`, completions of all
        origins and those of the data set. And `"token_counts"`, float32, the
        numbers of tokens in these two.
    """
    missing = -len(rows) % rows_multiple
    rows = rows.resized(_trimmed_width(rows)).with_empty(missing)
    prompts, completions = rows.masks()
    responses = completions & (rows.origins == DATASET)[:, None]
    counts = [mask.sum() for mask in (completions, responses)]
    return {
        "token_ids": rows.token_ids,
        "padding_mask": prompts | completions,
        "completion_mask": completions,
        "response_mask": responses,
        COUNTS: np.array(counts, "float32"),
    }


def _trimmed_width(rows):
    """The width, in quarters, that the longest row needs.

    Few widths, so that little is traced; padding on the right changes nothing.
    """
    longest = int(rows.lengths.max())
    quarter = math.ceil(rows.width / 4)
    return min(rows.width, math.ceil(longest / quarter) * quarter)
