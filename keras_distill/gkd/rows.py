"""Batches as NumPy arrays: prompts with their completions, right-padded."""

import dataclasses

import numpy as np

KEYS = ("token_ids", "prompt_mask", "completion_mask")
EXPECTED = (
    "A batch must be a dict with 'token_ids' (integers), 'prompt_mask' and "
    "'completion_mask' (booleans), all of shape [rows, length], as "
    "`GKDPreprocessor.batches` makes them"
)


@dataclasses.dataclass(frozen=True)
class Rows:
    """Prompts with their completions; positions say which token is which.

    Args:
        token_ids: int32 array of shape `[rows, width]`: the prompt, the
            completion, and anything behind them.
        prompt_lengths: int32 array of shape `[rows]`.
        lengths: int32 array of shape `[rows]`, where each completion ends,
            exclusive. Equal to the prompt's length where there is none.
        origins: Array of strings of shape `[rows]`: where the completions
            come from.
    """

    token_ids: np.ndarray
    prompt_lengths: np.ndarray
    lengths: np.ndarray
    origins: np.ndarray

    def __len__(self):
        return len(self.token_ids)

    @property
    def width(self):
        return self.token_ids.shape[1]

    def take(self, index):
        """The rows at `index`, an array of integers or booleans."""
        return Rows(
            self.token_ids[index],
            self.prompt_lengths[index],
            self.lengths[index],
            self.origins[index],
        )

    def replaced(self, index, rows):
        """These rows with those at `index` replaced by `rows`."""
        fields = {}
        for field in dataclasses.fields(self):
            array = getattr(self, field.name).copy()
            array[index] = getattr(rows, field.name)
            fields[field.name] = array
        return Rows(**fields)

    def resized(self, width):
        """These rows cut or zero-padded to `width` tokens."""
        kept = self.token_ids[:, :width]
        missing = width - kept.shape[1]
        token_ids = np.pad(kept, ((0, 0), (0, missing)))
        return dataclasses.replace(self, token_ids=token_ids)

    def with_empty(self, count):
        """These rows and `count` more in which nothing counts."""
        return Rows(
            np.pad(self.token_ids, ((0, count), (0, 0))),
            np.pad(self.prompt_lengths, (0, count)),
            np.pad(self.lengths, (0, count)),
            np.concatenate([self.origins, np.full(count, "", object)]),
        )

    def masks(self):
        """Boolean arrays of shape `[rows, width]`: prompts, completions."""
        positions = np.arange(self.width)
        prompt = positions < self.prompt_lengths[:, None]
        return prompt, (positions < self.lengths[:, None]) & ~prompt

    def batch(self):
        """The dict of arrays that `from_batch` reads."""
        return dict(zip(KEYS, (self.token_ids, *self.masks())))


def from_batch(batch, origin):
    """`Rows` of a batch, whose structure is checked.

    Args:
        batch: Dict with `"token_ids"`, `"prompt_mask"` and
            `"completion_mask"`, each of shape `[rows, width]`.
        origin: String, where the completions come from.

    Raises:
        ValueError: if the batch is built in another way.
    """
    if not isinstance(batch, dict) or set(batch) != set(KEYS):
        received = (
            f"a dict with {sorted(batch)}"
            if isinstance(batch, dict)
            else type(batch).__name__
        )
        raise ValueError(f"{EXPECTED}. Received: {received}")
    token_ids, prompt, completion = (np.asarray(batch[key]) for key in KEYS)
    shapes = [array.shape for array in (token_ids, prompt, completion)]
    if token_ids.ndim != 2 or len(set(shapes)) != 1:
        raise ValueError(
            f"{EXPECTED}. Received shapes: {dict(zip(KEYS, shapes))}"
        )
    if not np.issubdtype(token_ids.dtype, np.integer):
        raise ValueError(
            f"{EXPECTED}. Received: token_ids of dtype {token_ids.dtype}"
        )
    prompt, completion = prompt.astype(bool), completion.astype(bool)
    prompt_lengths = prompt.sum(1).astype("int32")
    rows = Rows(
        token_ids.astype("int32"),
        prompt_lengths,
        prompt_lengths + completion.sum(1).astype("int32"),
        np.full(len(token_ids), origin, object),
    )
    _check_masks(rows, prompt, completion)
    return rows


def _check_masks(rows, prompt, completion):
    expected_prompt, expected_completion = rows.masks()
    wrong = (prompt != expected_prompt) | (completion != expected_completion)
    if wrong.any():
        row = int(np.argmax(wrong.any(1)))
        raise ValueError(
            "In every row the prompt must begin at position 0 and the "
            "completion right behind it, the padding must be on the right. "
            f"Received in row {row}: "
            f"prompt at {np.flatnonzero(prompt[row]).tolist()[:8]}, "
            f"completion at {np.flatnonzero(completion[row]).tolist()[:8]}"
        )
    if not rows.prompt_lengths.all():
        row = int(np.argmin(rows.prompt_lengths))
        raise ValueError(
            "Every prompt must have at least one token, which predicts the "
            "first token of the completion; a start token is enough. "
            f"Received: row {row} without a prompt"
        )
