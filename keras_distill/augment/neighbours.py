"""Replacement by nearest neighbours in a table of embeddings."""

import functools
import re

import numpy as np
from keras import ops

from keras_distill._checks import check_between
from keras_distill._checks import check_integer
from keras_distill.augment.words import replace_each

WHOLE_WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
ROWS_AT_ONCE = 1024


class EmbeddingReplacement:
    """Replaces words by their nearest neighbours in the teacher's embeddings.

    Neighbours are by cosine, among the vocabulary's whole words (no pieces
    such as `##ing`, no special tokens, numbers or punctuation), and drawn
    with equal chances. A word that the vocabulary lacks, also in lower case,
    stays.

    Args:
        vocabulary: List of strings; entry `i` belongs to `embeddings[i]`. Of a
            KerasHub tokenizer: `tokenizer.get_vocabulary()`.
        embeddings: Array or variable `[len(vocabulary), dim]`. Of a KerasHub
            backbone: `backbone.token_embedding.embeddings`.
        probability: Float, of each word. Defaults to `0.4`.
        neighbours: Integer, at least 1, among how many to draw. Defaults to
            `15`.

    Raises:
        ValueError: if an argument is not as described, or the vocabulary has
            too few whole words.

    Example:

    >>> import random
    >>> import numpy as np
    >>> method = EmbeddingReplacement(["good", "great", "##ly", "film"],
    ...     np.array([[1, 0], [0.9, 0.1], [1, 0], [0, 1]]), 1.0, neighbours=1)
    >>> method(["good", "movie"], random.Random(0))
    ['great', 'movie']

    Reference:
        Jiao et al., 2020, https://arxiv.org/abs/1909.10351, algorithm 1.
    """

    def __init__(self, vocabulary, embeddings, probability=0.4, neighbours=15):
        check_between("probability", probability, 0, 1)
        check_integer("neighbours", neighbours, minimum=1)
        embeddings = _unit_rows(embeddings)
        if len(embeddings) != len(vocabulary):
            raise ValueError(
                "`embeddings` must have one row for each entry of the "
                f"vocabulary. Received: {len(embeddings)} rows, "
                f"{len(vocabulary)} entries"
            )
        rows = [i for i, w in enumerate(vocabulary) if WHOLE_WORD.fullmatch(w)]
        if len(rows) <= neighbours:
            raise ValueError(
                "The vocabulary must have more whole words than `neighbours`. "
                f"Received: {len(rows)} whole words, neighbours={neighbours}"
            )
        self.probability = probability
        self.neighbours = neighbours
        self._words = [vocabulary[i] for i in rows]
        self._rows = {word: i for i, word in enumerate(self._words)}
        self._vectors = embeddings[rows]
        self._nearest = functools.cache(self._find)

    def _find(self, row):
        near = _most_similar(
            self._vectors, np.array([row]), self._vectors, self.neighbours
        )
        return [self._words[i] for i in near[0]]

    def replace(self, words, position, rng):
        """A neighbour of `words[position]`, or the word itself."""
        word = words[position]
        row = self._rows.get(word, self._rows.get(word.lower()))
        return word if row is None else rng.choice(self._nearest(row))

    def __call__(self, words, rng):
        return replace_each(
            words,
            rng,
            self.probability,
            lambda position: self.replace(words, position, rng),
        )


def neighbour_table(embeddings, neighbours=15, allowed=None):
    """Nearest neighbours of each token id, for `replace_tokens`.

    Args:
        embeddings: Array or variable `[vocabulary_size, dim]`.
        neighbours: Integer, at least 1. Defaults to `15`.
        allowed: Integers, the ids that may be replaced and may replace, such
            as those of whole words. Defaults to all: then special tokens
            replace words, too.

    Returns:
        int32 array `[vocabulary_size, neighbours]`. The row of an id that is
        not allowed holds the id itself.

    Raises:
        ValueError: if there are too few allowed ids.

    Example:

    >>> import numpy as np
    >>> neighbour_table(np.array([[1, 0], [0.9, 0.1], [0, 1]]), 1, [0, 1])[:, 0]
    array([1, 0, 2], dtype=int32)

    Reference:
        Jiao et al., 2020, https://arxiv.org/abs/1909.10351, algorithm 1.
    """
    check_integer("neighbours", neighbours, minimum=1)
    vectors = _unit_rows(embeddings)
    ids = np.arange(len(vectors)) if allowed is None else np.unique(allowed)
    if len(ids) <= neighbours:
        raise ValueError(
            "`allowed` must hold more ids than `neighbours`. Received: "
            f"{len(ids)} ids, neighbours={neighbours}"
        )
    table = np.repeat(np.arange(len(vectors))[:, None], neighbours, axis=1)
    for start in range(0, len(ids), ROWS_AT_ONCE):
        rows = np.arange(start, min(start + ROWS_AT_ONCE, len(ids)))
        near = _most_similar(vectors[ids], rows, vectors[ids], neighbours)
        table[ids[rows]] = ids[near]
    return table.astype("int32")


def _unit_rows(embeddings):
    vectors = np.asarray(ops.convert_to_numpy(embeddings), "float32")
    if vectors.ndim != 2:
        raise ValueError(
            "`embeddings` must have the axes [vocabulary, dim]. "
            f"Received: shape={vectors.shape}"
        )
    norms = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1.0)


def _most_similar(vectors, rows, others, count):
    """The `count` rows of `others` nearest to `vectors[rows]`, best first."""
    cosines = vectors[rows] @ others.T
    cosines[np.arange(len(rows)), rows] = -np.inf
    return np.argsort(-cosines, axis=-1, kind="stable")[:, :count]
