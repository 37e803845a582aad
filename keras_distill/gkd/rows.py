"""Batches as NumPy arrays: prompts with their completions, right-padded."""

import dataclasses

import keras
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
        arrays = [array.copy() for array in vars(self).values()]
        for array, new in zip(arrays, vars(rows).values()):
            array[index] = new
        return Rows(*arrays)

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


def check_fits(name, length, limits):
    """Raises `ValueError` if a model cannot read `length` tokens.

    Args:
        name: String, what is so long.
        length: Integer.
        limits: Dict from `"teacher"` and `"student"` to the most tokens it can
            read, or None.
    """
    for model, limit in limits.items():
        if limit is not None and length > limit:
            raise ValueError(
                f"{name} must fit into the {model}, which reads at most "
                f"{limit} tokens. Received: {length} tokens. Use shorter "
                "prompts or a smaller `max_completion_length`"
            )


def only_inputs(data):
    """The batch in what Keras' `fit` passes on.

    Raises:
        ValueError: if there are labels or weights with it.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(
                f"`{name}` has no meaning here: pass batches of inputs alone, "
                "whose 'completion_mask' says which tokens are responses and "
                f"count. Received: batches with `{name}`"
            )
    return x


def check_token_ids(rows, vocabulary_size):
    """Raises `ValueError` if a model has no such token."""
    prompts, completions = rows.masks()
    used = rows.token_ids[prompts | completions]
    if used.min() < 0 or used.max() >= vocabulary_size:
        raise ValueError(
            "Token ids must be at least 0 and below the size of the smaller "
            f"vocabulary, {vocabulary_size}. Received: ids from {used.min()} "
            f"to {used.max()}. Use the models' own tokenizer"
        )
