"""The forms in which a distribution over many classes is stored."""

import dataclasses

import numpy as np
from keras import ops

from keras_distill._checks import check_integer
from keras_distill._checks import check_positive
from keras_distill.cache.sparse import log_rest

FULL = "full"


@dataclasses.dataclass(frozen=True)
class TopK:
    """The `k` most likely classes, and what is left in one number.

    Args:
        k: Integer, at least 1 and less than the number of classes.
        tail: Boolean. Whether to store the probability of all other classes
            together. Without it the `k` classes are taken for all there are,
            which biases what the student learns: use it for comparisons.
        temperature: `T > 0`. What is stored is `softmax(logits / T)`; the
            student needs the same.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> stored = TopK(1)(np.log([[0.5, 0.3, 0.2]]))  # One class, and the tail.
    >>> np.exp(stored["log_probabilities"]).tolist()
    [[0.50, 0.50]]

    Reference:
        Anshumann et al., 2025, https://arxiv.org/abs/2503.16870, section 2.
    """

    k: int
    tail: bool = True
    temperature: float = 1.0

    def __post_init__(self):
        check_integer("k", self.k, 1)
        check_positive("temperature", self.temperature)

    def __call__(self, logits):
        """Indices and log-probabilities, from logits `[..., classes]`."""
        classes = logits.shape[-1]
        if not self.k < classes:
            raise ValueError(
                f"`k` must be less than the number of classes, {classes}. "
                f"Received: k={self.k}. Pass `logits='full'` to store all"
            )
        logits = ops.cast(logits, "float32") / self.temperature
        log_p = ops.log_softmax(logits, axis=-1)
        stored, indices = ops.top_k(log_p, self.k)
        if self.tail:
            rest = log_rest(log_p, indices)
            stored = ops.concatenate([stored, rest], axis=-1)
        return {"indices": indices, "log_probabilities": stored}

    @property
    def identity(self):
        """What the stored bytes depend on, as JSON holds it."""
        return {"form": "top-k", **dataclasses.asdict(self)}


@dataclasses.dataclass(frozen=True)
class Sampled:
    """Classes drawn from the teacher's distribution, with their counts.

    The share of a class among the draws is an unbiased estimate of its
    probability, so the student's gradient is right on average, whatever the
    number of draws; with few of them it is noisy.

    Args:
        draws: Integer, draws with replacement for each distribution.
        seed: Integer. The draws of an example depend on it and on the
            example's place in the data.
        temperature: `T > 0`. Draws come from `softmax(logits / T)`; the
            student needs the same.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> form = Sampled(draws=10)
    >>> classes, counts, sizes = form.draw(np.zeros((2, 3)), example=0)
    >>> int(counts.sum())
    20

    Reference:
        Anshumann et al., 2025, https://arxiv.org/abs/2503.16870, section 4.
    """

    draws: int = 50
    seed: int = 0
    temperature: float = 1.0

    def __post_init__(self):
        check_integer("draws", self.draws, 1)
        check_integer("seed", self.seed, 0)
        check_positive("temperature", self.temperature)
        if self.draws > np.iinfo("uint16").max:
            raise ValueError(
                "`draws` must fit 16 bits, at most 65535. "
                f"Received: draws={self.draws}"
            )

    def __call__(self, logits):
        """Tempered logits: the draws are made where they are stored."""
        return ops.cast(logits, "float32") / self.temperature

    def draw(self, logits, example):
        """Draws for each distribution of one example.

        Args:
            logits: Float array `[rows, classes]`.
            example: Integer, the example's place in the data.

        Returns:
            Tuple of integer arrays: classes and counts, one after the other
            for all rows, and how many of them belong to each row.
        """
        uniform = np.random.default_rng([self.seed, example])
        found = [
            np.unique(self._classes(row, uniform), return_counts=True)
            for row in np.asarray(logits, "float64")
        ]
        sizes = [len(classes) for classes, _ in found]
        return (
            np.concatenate([[], *(classes for classes, _ in found)]),
            np.concatenate([[], *(counts for _, counts in found)]),
            np.asarray(sizes),
        )

    def _classes(self, logits, uniform):
        total = np.cumsum(np.exp(logits - logits.max()))
        draws = uniform.random(self.draws)
        return np.searchsorted(total / total[-1], draws, side="right")

    @property
    def identity(self):
        """What the stored bytes depend on, as JSON holds it."""
        return {"form": "sampled", **dataclasses.asdict(self)}


def check_form(form):
    """Raises `ValueError` unless logits can be stored in this form."""
    if not (form is None or form == FULL or isinstance(form, (TopK, Sampled))):
        raise ValueError(
            "`logits` must be 'full', `kd.cache.TopK(...)`, "
            "`kd.cache.Sampled(...)` or None. Received: "
            f"logits={form!r}"
        )
