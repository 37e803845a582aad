"""Prompts of unequal length in one array."""

from typing import NamedTuple

import numpy as np


class Prompts(NamedTuple):
    """Right-padded prompts and how far they may be completed.

    Attributes:
        token_ids: int32 array of shape `[rows, length]`.
        lengths: int32 array of shape `[rows]`, the tokens of each prompt.
        limits: int32 array of shape `[rows]`, the most tokens of prompt and
            completion together.
    """

    token_ids: np.ndarray
    lengths: np.ndarray
    limits: np.ndarray

    @classmethod
    def checked(cls, token_ids, lengths, limits):
        """Prompts from array-likes, checked against each other."""
        arrays = [np.asarray(a) for a in (token_ids, lengths, limits)]
        shapes = [a.shape for a in arrays]
        if (
            arrays[0].ndim != 2
            or any(a.dtype.kind not in "iu" for a in arrays)
            or any(shape != shapes[0][:1] for shape in shapes[1:])
        ):
            raise ValueError(
                "`token_ids` must be integers of shape [rows, length], "
                "`prompt_lengths` and `limits` of shape [rows]. Received: "
                f"shapes {shapes}, dtypes {[str(a.dtype) for a in arrays]}"
            )
        prompts = cls(*(a.astype("int32") for a in arrays))
        length = prompts.token_ids.shape[1]
        if (
            np.any(prompts.lengths < 1)
            or np.any(prompts.lengths > prompts.limits)
            or np.any(prompts.limits > length)
        ):
            raise ValueError(
                "1 <= `prompt_lengths` <= `limits` <= length must hold in "
                "every row. Received: "
                f"prompt_lengths={prompts.lengths.tolist()}, "
                f"limits={prompts.limits.tolist()}, length={length}"
            )
        return prompts

    def filled(self, indices, fewest):
        """The prompts of `indices`, and others that are complete already.

        They are there to make the number of rows a power of two, of at least
        `fewest`.
        """
        size = max(fewest, 1 << (len(indices) - 1).bit_length())
        fill = np.repeat(indices[:1], size - len(indices))
        token_ids, lengths, limits = (
            a[np.concatenate([indices, fill])] for a in self
        )
        limits[len(indices) :] = lengths[len(indices) :]
        return Prompts(token_ids, lengths, limits)

    def ends(self, token_ids, stop_token_ids):
        """Where the completions in `token_ids` end, stop tokens included."""
        positions = np.arange(token_ids.shape[1])
        stops = np.isin(token_ids, stop_token_ids)
        stops &= positions >= self.lengths[:, None]
        length = token_ids.shape[1]
        first = np.where(stops.any(1), stops.argmax(1) + 1, length)
        return np.minimum(first, self.limits).astype("int32")
