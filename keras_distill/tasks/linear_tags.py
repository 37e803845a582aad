"""The floor of tags: a linear model of words and their neighbours."""

import dataclasses

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import SGDClassifier

from keras_distill import data
from keras_distill.tasks import linear
from keras_distill.tasks.linear import Scored
from keras_distill.tasks.linear_heads import UNSEEN
from keras_distill.tasks.linear_heads import Classes

# Weights of the penalty.
PENALTIES = (1e-6, 1e-5)
PASSES = 20
AFFIXES = (1, 2, 3, 4)
NEIGHBOURS = (-2, -1, 1, 2)


@dataclasses.dataclass(frozen=True)
class LinearTags:
    """A fitted linear model of words in their sentences.

    Args:
        vectorizer: `DictVectorizer` of what `features` gives.
        model: Fitted `SGDClassifier`.
        heads: `Classes`, which tells its scores.
    """

    vectorizer: DictVectorizer
    model: object
    heads: Classes

    def logits(self, texts):
        """Scores of each tag of each word, a list of arrays."""
        held = [features(text) for text in texts]
        rows = [word for sentence in held for word in sentence]
        matrix = _narrow(self.vectorizer.transform(rows))
        scores = self.heads.logits(self.model, matrix)
        ends = np.cumsum([len(sentence) for sentence in held])
        return np.split(scores, ends[:-1])

    def facts(self, texts):
        """What a report says: size, and speed on these texts."""
        names = self.vectorizer.get_feature_names_out()
        weights = self.model.coef_.size + self.model.intercept_.size
        return {
            "model": f"words and neighbours, {self.heads.name}",
            "features": "words, affixes and forms, with neighbours",
            **linear.size(weights, names),
            "latency_ms": linear.latency_ms(self.logits, texts),
        }


def of_task(task, labels, firsts):
    """A linear model of a task's words, on the labels that are there.

    Logistic regression of one tag against the rest, the penalty chosen on dev.

    Args:
        task: `TokenClassification`.
        labels: Integer array `[rows, tokens]`, -1 where there is no label.
        firsts: Dict from each part to where the first tokens are.

    Returns:
        `Scored`.
    """
    splits = task.splits
    rows, known = [], np.flatnonzero(data.has_label(labels))
    targets = []
    for row in known:
        held = features(splits.train.texts[row])
        # Words that were cut off for the models are cut off here, too.
        places = firsts["train"][row][: len(held)]
        rows += [word for word, at in zip(held, places) if at >= 0]
        targets.append(labels[row, places[places >= 0]])
    vectorizer = DictVectorizer()
    matrix = _narrow(vectorizer.fit_transform(rows))
    targets = np.concatenate(targets)
    heads = Classes(task.num_outputs)
    best = None
    for penalty in PENALTIES:
        # One tag against the rest; of so many words the coordinate descent of
        # `linear_heads` takes minutes, for no better F1.
        model = SGDClassifier(
            "log_loss",
            alpha=penalty,
            max_iter=PASSES,
            tol=None,
            random_state=0,
        ).fit(matrix, targets)
        found = LinearTags(vectorizer, model, heads)
        dev = _placed(found, task, firsts, "dev")
        value = task.score({"dev": dev}, "dev")
        if best is None or value > best[0]:
            best = value, found, dev
    _, found, dev = best
    test = _placed(found, task, firsts, "test")
    return Scored({"dev": dev, "test": test}, found.facts(splits.dev.texts))


def _placed(model, task, firsts, part):
    """Scores of words, where the first tokens are that others have them at."""
    texts = getattr(task.splits, part).texts
    found = np.full((len(texts), *task.logits_shape), UNSEEN, "float32")
    for row, scores in enumerate(model.logits(texts)):
        places = firsts[part][row][: len(scores)]
        found[row, places[places >= 0]] = scores[places >= 0]
    return found


def features(text):
    """What the model knows of each word.

    Args:
        text: String, words with one blank between them.

    Returns:
        List of dicts.

    Example:

    >>> features("in New York")[1]["form"]
    'Xxx'
    """
    words = text.split(" ")
    found = []
    for i, word in enumerate(words):
        held = {"word": word.lower(), "form": _form(word), "bias": 1.0}
        for length in AFFIXES:
            held[f"begins {length}"] = word[:length].lower()
            held[f"ends {length}"] = word[-length:].lower()
        for step in NEIGHBOURS:
            at = i + step
            there = 0 <= at < len(words)
            held[f"word {step}"] = words[at].lower() if there else ""
            held[f"form {step}"] = _form(words[at]) if there else ""
        found.append(held)
    return found


def _form(word):
    """Letters as X and x, digits as 0, at most ten of them."""
    return "".join(
        "X"
        if c.isupper()
        else "x"
        if c.islower()
        else "0"
        if c.isdigit()
        else c
        for c in word[:10]
    )


def _narrow(matrix):
    """The same sparse matrix with the narrow indices that liblinear takes."""
    matrix.indices = matrix.indices.astype("int32")
    matrix.indptr = matrix.indptr.astype("int32")
    return matrix
