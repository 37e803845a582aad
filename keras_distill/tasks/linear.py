"""The floor of tasks on texts: TF-IDF and a linear model."""

import dataclasses
import math
import statistics
import time

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.base import TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_union

from keras_distill import data
from keras_distill.tasks.linear_heads import Classes as Classes
from keras_distill.tasks.linear_heads import Labels as Labels
from keras_distill.tasks.linear_heads import Scores as Scores

WORDS, CHARACTERS = "words", "words and characters"
# Inverse strengths of the penalty; texts are of length 1 in these features.
STRENGTHS = (3.0, 30.0)
# The choice is made on so many train texts, the model fitted on all.
SEARCH_ROWS = 20_000
TIMED = 50


@dataclasses.dataclass(frozen=True)
class Scored:
    """What a linear model says of dev and test.

    Args:
        logits: Dict with `dev` and `test`, float arrays `[texts, outputs]`.
        facts: Dict that JSON can hold.
    """

    logits: dict
    facts: dict


@dataclasses.dataclass(frozen=True)
class LinearText:
    """A fitted linear model of texts.

    Args:
        vectorizer: What makes features of texts.
        model: What makes scores of features.
        heads: `Classes`, `Scores` or `Labels`, which has fitted it.
        features: String, `"words"` or `"words and characters"`.
        strength: Float, the inverse strength of the penalty.
    """

    vectorizer: object
    model: object
    heads: object
    features: str
    strength: float

    def logits(self, texts):
        """What the model says of texts, float array `[texts, outputs]`."""
        return self.heads.logits(self.model, self.vectorizer.transform(texts))

    def scored(self, dev_texts, test_texts):
        """`Scored`, with size and speed of the model."""
        names = self.vectorizer.get_feature_names_out()
        return Scored(
            {"dev": self.logits(dev_texts), "test": self.logits(test_texts)},
            {
                "model": f"TF-IDF, {self.heads.name}",
                "features": f"n-grams of {self.features}",
                **size(self.heads.parameters(self.model), names),
                "latency_ms": latency_ms(self.logits, dev_texts),
            },
        )


def size(weights, names):
    """Facts on a model's size, as in `Scored`.

    Args:
        weights: Integer, how many float32 there are.
        names: Sequence of strings, the features that they belong to, which
            have a float32 each and a byte between them.
    """
    held = sum(len(name.encode()) + 1 for name in names)
    return {
        "parameters": weights,
        "size_bytes": 4 * (weights + len(names)) + held,
    }


def latency_ms(answer, rows):
    """Float: milliseconds for one row, the median of so many of them.

    Args:
        answer: Callable from a list, or an array, of one row.
        rows: List, or array.
    """
    seconds = []
    for row in range(min(TIMED, len(rows))):
        begin = time.perf_counter()
        answer(rows[row : row + 1])
        seconds.append(time.perf_counter() - begin)
    return 1000 * statistics.median(seconds)


def of_task(task, labels, heads):
    """A linear model of a task's texts, on the labels that are there.

    Args:
        task: `TextTask`.
        labels: Array, as of `data.TextDataset`, missing in some rows.
        heads: `Classes`, `Scores` or `Labels`.

    Returns:
        `Scored`.
    """
    known = np.flatnonzero(data.has_label(labels))
    splits = task.splits
    model = fit(
        [splits.train.texts[row] for row in known],
        labels[known],
        splits.dev.texts,
        lambda logits: task.score({"dev": logits}, "dev"),
        heads,
    )
    return model.scored(splits.dev.texts, splits.test.texts)


def fit(texts, labels, dev_texts, score, heads, seed=0):
    """Fits TF-IDF with a linear model; n-grams and penalty by dev.

    N-grams of one and two words, with or without those of one to five
    characters within words. Of a pair the features are those of each text,
    what they share, and in what they differ.

    Args:
        texts: List of strings, or of pairs of strings.
        labels: Array, one label for each.
        dev_texts: List like `texts`.
        score: Callable from what the model says of these to a float.
        heads: `Classes`, `Scores` or `Labels`: what is fitted on features.
        seed: Integer, which texts the choice is made on, where there are many.

    Returns:
        `LinearText`.

    Example:

    >>> model = fit(["good film", "bad film"], np.array([1, 0]), ["good"],
    ...     lambda logits: float(logits.argmax() == 1), Classes(2))
    >>> int(model.logits(["a bad one"]).argmax())
    0
    """
    texts, labels = np.asarray(texts, object), np.asarray(labels)
    few = np.arange(len(texts))
    if len(few) > SEARCH_ROWS:
        few = np.random.default_rng(seed).permutation(few)[:SEARCH_ROWS]
    best, chosen = -math.inf, None
    pairs = texts.ndim > 1
    for features in (WORDS, CHARACTERS):
        vectorizer = vectorizer_of(features, pairs)
        matrix = vectorizer.fit_transform(texts[few])
        dev = vectorizer.transform(dev_texts)
        for strength in STRENGTHS:
            model = heads.fit(matrix, labels[few], strength)
            value = score(heads.logits(model, dev))
            if value > best:
                best, chosen = value, (features, strength)
                found = vectorizer, model
    features, strength = chosen
    if len(few) < len(texts):
        vectorizer = vectorizer_of(features, pairs)
        matrix = vectorizer.fit_transform(texts)
        found = vectorizer, heads.fit(matrix, labels, strength)
    return LinearText(*found, heads, features, strength)


class PairFeatures(TransformerMixin, BaseEstimator):
    """Features of a pair from those of its two texts, and their cosine.

    Args:
        vectorizer: What makes rows of length 1 of texts, not fitted yet.
    """

    def __init__(self, vectorizer):
        self.vectorizer = vectorizer

    def fit(self, pairs, y=None):
        """Learns the features of both texts of `pairs`, `[rows, 2]`."""
        del y
        self.vectorizer.fit(np.ravel(pairs))
        return self

    def transform(self, pairs):
        """Sparse matrix: both, the difference, the product, its sum."""
        first, second = (
            self.vectorizer.transform(texts) for texts in zip(*pairs)
        )
        common = first.multiply(second)
        cosine = sparse.csr_matrix(common.sum(axis=1))
        parts = [first, second, abs(first - second), common, cosine]
        return sparse.hstack(parts, format="csr")

    def get_feature_names_out(self, input_features=None):
        """Of the texts' features: all that the parts are named by."""
        del input_features
        return self.vectorizer.get_feature_names_out()


def vectorizer_of(features, pairs):
    """What makes features of texts, or of pairs, not fitted yet."""
    parts = [
        TfidfVectorizer(
            ngram_range=(1, 2),
            sublinear_tf=True,
            token_pattern=r"(?u)\b\w+\b",
        )
    ]
    if features == CHARACTERS:
        characters = TfidfVectorizer(
            analyzer="char_wb", ngram_range=(1, 5), sublinear_tf=True
        )
        parts.append(characters)
    if pairs:
        parts = [PairFeatures(part) for part in parts]
    return make_union(*parts) if len(parts) > 1 else parts[0]
