"""The floor of text classification: TF-IDF and logistic regression."""

import dataclasses
import functools
import statistics
import time

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.base import TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_union

MODEL = "TF-IDF, logistic regression"
WORDS, CHARACTERS = "words", "words and characters"
# Inverse strengths of the penalty; texts are of length 1 in these features.
STRENGTHS = (3.0, 30.0)
# The choice is made on so many train texts, the model fitted on all.
SEARCH_ROWS = 20_000
TIMED = 50
# Below every score of a class that was seen.
UNSEEN = -30.0


@dataclasses.dataclass(frozen=True)
class Scored:
    """What a linear model says of dev and test.

    Args:
        logits: Dict with `dev` and `test`, float arrays `[texts, classes]`.
        facts: Dict that JSON can hold.
    """

    logits: dict
    facts: dict


@dataclasses.dataclass(frozen=True)
class LinearText:
    """A fitted linear model of texts.

    Args:
        vectorizer: What makes features of texts.
        classifier: What makes scores of features.
        num_classes: Integer, also of classes without a text.
        features: String, `"words"` or `"words and characters"`.
        strength: Float, the inverse strength of the penalty.
    """

    vectorizer: object
    classifier: object
    num_classes: int
    features: str
    strength: float

    def logits(self, texts):
        """Scores of each class, float array `[texts, classes]`.

        One class against the rest: log odds of each, whose largest is the
        answer. They are not meant to be read as one distribution.
        """
        scores = self.classifier.decision_function(
            self.vectorizer.transform(texts)
        )
        if scores.ndim == 1:
            scores = np.stack([-scores / 2, scores / 2], axis=-1)
        found = np.full((len(texts), self.num_classes), UNSEEN, "float32")
        found[:, self.classifier.classes_] = scores
        return found

    def scored(self, dev_texts, test_texts):
        """`Scored`, with size and speed of the model."""
        return Scored(
            {"dev": self.logits(dev_texts), "test": self.logits(test_texts)},
            {
                "model": MODEL,
                "features": f"n-grams of {self.features}",
                "parameters": self.parameters,
                "size_bytes": self.size_bytes,
                "latency_ms": self.latency_ms(dev_texts),
            },
        )

    @property
    def parameters(self):
        """Integer, the number of weights."""
        return sum(
            each.coef_.size + each.intercept_.size
            for each in self.classifier.estimators_
        )

    @property
    def size_bytes(self):
        """Integer: float32 weights, and the n-grams that they belong to."""
        return 4 * (self.parameters + len(self._names)) + sum(
            len(name.encode()) + 1 for name in self._names
        )

    @functools.cached_property
    def _names(self):
        return self.vectorizer.get_feature_names_out()

    def latency_ms(self, texts):
        """Float: milliseconds for one text, the median of so many of them."""
        seconds = []
        for text in texts[:TIMED]:
            begin = time.perf_counter()
            self.logits([text])
            seconds.append(time.perf_counter() - begin)
        return 1000 * statistics.median(seconds)


def fit(texts, labels, dev_texts, dev_labels, num_classes, seed=0):
    """Fits TF-IDF with logistic regression; n-grams and penalty by dev.

    N-grams of one and two words, with or without those of one to five
    characters within words; logistic regression of one class against the rest.
    Of a pair the features are those of each text, what they share, and in what
    they differ.

    Args:
        texts: List of strings, or of pairs of strings.
        labels: Integer array, of at least two classes.
        dev_texts: List like `texts`.
        dev_labels: Integer array.
        num_classes: Integer.
        seed: Integer, which texts the choice is made on, where there are many.

    Returns:
        `LinearText`.

    Example:

    >>> model = fit(["good film", "bad film"], [1, 0], ["good"], [1], 2)
    >>> int(model.logits(["a bad one"]).argmax())
    0
    """
    texts, labels = np.asarray(texts, object), np.asarray(labels)
    few = np.arange(len(texts))
    if len(few) > SEARCH_ROWS:
        few = np.random.default_rng(seed).permutation(few)[:SEARCH_ROWS]
    best, chosen = -1.0, None
    pairs = texts.ndim > 1
    for features in (WORDS, CHARACTERS):
        vectorizer = _vectorizer(features, pairs)
        matrix = vectorizer.fit_transform(texts[few])
        dev = vectorizer.transform(dev_texts)
        for strength in STRENGTHS:
            model = _classifier(strength).fit(matrix, labels[few])
            accuracy = (model.predict(dev) == dev_labels).mean()
            if accuracy > best:
                best, chosen = accuracy, (features, strength)
                found = vectorizer, model
    features, strength = chosen
    if len(few) < len(texts):
        vectorizer = _vectorizer(features, pairs)
        matrix = vectorizer.fit_transform(texts)
        found = vectorizer, _classifier(strength).fit(matrix, labels)
    return LinearText(*found, num_classes, features, strength)


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


def _vectorizer(features, pairs):
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


def _classifier(strength):
    # Coordinate descent in the dual, with liblinear's own tolerance: seconds,
    # where the solvers of one distribution over all classes take minutes, and
    # no other accuracy than with a tolerance a hundred times smaller.
    return OneVsRestClassifier(
        LogisticRegression(
            C=strength,
            solver="liblinear",
            dual=True,
            tol=0.1,
            max_iter=1000,
            random_state=0,
        )
    )
