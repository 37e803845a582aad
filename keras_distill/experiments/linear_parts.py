"""Beside a trained student, a linear model of its tokens and their pairs."""

import functools
import math

import numpy as np
from scipy import optimize
from scipy import sparse

from keras_distill.experiments import significance
from keras_distill.experiments import teaching
from keras_distill.experiments import training
from keras_distill.students import linear_part
from keras_distill.students._inputs import factorize

# Inverse strengths of the penalty, the usual one first; texts are about as long
# as in TF-IDF.
STRENGTHS = (5.0, 1.0, 30.0)
# How much n-grams of characters count beside tokens and their pairs.
CHARACTERS = (0.0, 0.5, 1.0)
# Bounds of what network and part are multiplied by: a few rows of dev may all
# be right, and more likely without end.
LEAST, MOST = 0.01, 10.0
# Of how many sets of labels the fits stay in memory: of a seed those of a
# student on labels, and of one that the teacher's answers are labels for.
KEPT = 2
# More texts take minutes, and say little more of a word.
MOST_ROWS = 50_000


def of_cell(cell, task):
    """What a cell's result depends on: `{}` where its student has no part.

    Args:
        cell: `Cell`.
        task: `Task`.
    """
    has_part = (
        cell.student.linear_part
        and cell.recipe.trains
        # What was trained under the rounding of its file must be that file.
        and cell.student.quantization is None
        and task.sides == 1
        and task.linear_heads() is not None
    )
    return {"linear_part": True} if has_part else {}


class LinearParts:
    """Linear models on a task's labels, which go beside students.

    What single words and word pairs say, a linear model reads off few labels,
    and a network of convolutions or recurrent layers does not; trained as one,
    the network would learn less, as the linear part knows the train texts by
    heart. So the part is fitted on the labels alone, in seconds, when the
    network has been trained, and is kept for the next students with the same
    labels.

    Args:
        task: `Task`.
    """

    def __init__(self, task):
        self.task = task
        self._kept = {}

    def beside(self, model, labels):
        """Adds what a linear model says to a student's logits.

        How much characters count, the penalty, and the two weights that sum
        network and part are those that make dev most likely: the best score
        would choose them by chance.

        Args:
            model: Trained `keras.Model` of tokens.
            labels: Array, train labels, missing where there is none.

        Returns:
            Pair of a `keras.Model`, `model` itself where the part brings
            nothing on dev or costs its score more than chance would, and how
            much it counts beside the network, a float.

        Reference:
            Wolpert, 1992, https://doi.org/10.1016/S0893-6080(05)80023-1.
        """
        task, vocabulary = self.task, linear_part.vocabulary_size(model)
        fits = self._fits(labels, vocabulary)
        if fits is None:
            return model, 0.0
        dev = task.encoded["dev"]
        network = training.predict(model, dev).astype("float64")

        def stacked(characters, strength):
            said = np.stack([network, fits(characters, strength)[1]])
            loss, weights = _stacked(said, dev.labels, task.linear_heads())
            return loss, characters, strength, weights

        # Each penalty with each weight would take twice as long.
        first = min(stacked(each, STRENGTHS[0]) for each in CHARACTERS)
        others = (stacked(first[1], each) for each in STRENGTHS[1:])
        _, *chosen, (own, part) = min([first, *others])
        (kernel, bias), said = fits(*chosen)
        if part < LEAST or self._lost(own * network + part * said, network):
            return model, 0.0
        kernel, bias = part * kernel, part * bias
        return linear_part.beside(model, own, kernel, bias), float(part / own)

    def _lost(self, stacked, network):
        """Whether dev's score falls by more than chance.

        The network's epoch was chosen for that score, among many: what is
        likelier may be better on test where it is a little worse here.
        """
        both, alone = {"dev": stacked}, {"dev": network}
        lost = self.task.score(alone, "dev") - self.task.score(both, "dev")
        return lost > significance.chance(self.task, alone)

    def _fits(self, labels, vocabulary):
        """`_fits_on`, of labels that were not asked for lately."""
        key = vocabulary, labels.shape, labels.tobytes()
        if key not in self._kept:
            while len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[key] = _fits_on(self.task, labels, vocabulary)
        return self._kept[key]


def _fits_on(task, labels, vocabulary):
    """A function that fits a linear model, or None where nothing differs.

    Returns:
        Callable from what characters count, and from the penalty, to a pair:
        kernel and bias, and what they say of dev. It keeps what it gave.
    """
    rows = teaching.labelled_rows(task, labels)
    if len(rows) > MOST_ROWS:
        mixed = np.random.default_rng(0).permutation(len(rows))
        rows = rows.take(mixed[:MOST_ROWS])
    if len(rows) == 0 or (rows.labels == rows.labels[0]).all():
        return None
    buckets = linear_part.buckets_for(rows.width, task.num_outputs)
    train, dev = (
        linear_part.shares(part.inputs, vocabulary, buckets)
        for part in (rows, task.encoded["dev"])
    )
    plain, spelt = _features(
        train, linear_part.spelling(task.preprocessor.tokenizer, vocabulary)
    )
    # What no label speaks for is as rare as one in so many, not impossible: the
    # network may know it from its teacher.
    heads, rarest = task.linear_heads(), math.log(len(rows) + 1)

    def narrow(kernel, strength):
        # Its nearest kernel of that rank says much less of the labels than one
        # that is fitted in the same columns.
        table, _ = factorize(kernel, linear_part.WIDEST)
        held = train @ table
        length = np.sqrt(np.square(held).sum(axis=1).mean())
        model = heads.fit(held / length, rows.labels, strength)
        maps, bias = heads.weights(model, rarest)
        return table @ maps / length, bias

    @functools.cache
    def fit(characters, strength):
        features = plain
        if characters:
            features = sparse.hstack([plain, characters * spelt]).tocsr()
        model = heads.fit(train @ features, rows.labels, strength)
        kernel, bias = heads.weights(model, rarest)
        kernel = features @ kernel
        if kernel.shape[1] > linear_part.WIDEST:
            kernel, bias = narrow(kernel, strength)
        kernel = kernel.astype("float32")
        return (kernel, bias), dev @ kernel + bias

    return fit


def _features(shares, spelling):
    """From shares to what is fitted: these, and the characters of tokens.

    Args:
        shares: Sparse matrix `[rows, features]`, of tokens, then of pairs.
        spelling: Sparse matrix `[tokens, n-grams]`.

    Returns:
        Sparse matrices `[features, features]` and `[features, n-grams]`. With
        either one, rows are as long as with the other.
    """
    pairs = shares.shape[1] - spelling.shape[0]
    spelt = sparse.vstack(
        [spelling, sparse.csr_matrix((pairs, spelling.shape[1]))]
    )
    return (
        sparse.diags(_scale(shares)).tocsr(),
        spelt.multiply(_scale(shares @ spelt)).tocsr(),
    )


def _scale(shares):
    """What tokens count: more where few texts have them; rows of length 1."""
    texts = shares.shape[0]
    holding = shares.getnnz(axis=0)
    rarity = np.log((1 + texts) / (1 + holding)) + 1
    lengths = sparse.linalg.norm(shares.multiply(rarity), axis=1)
    return rarity / max(lengths.mean(), np.finfo("float32").eps)


def _stacked(said, labels, heads):
    """The least loss on labels that a sum of outputs has, and its weights.

    Args:
        said: Float array `[2, rows, outputs]`.
        labels: Array `[rows]`.
        heads: What has a `loss`.
    """
    found = optimize.minimize(
        lambda weights: heads.loss(np.tensordot(weights, said, axes=1), labels),
        # The network alone: where that is right, nothing moves.
        [1.0, 0.0],
        bounds=[(LEAST, MOST), (0.0, MOST)],
    )
    return found.fun, found.x
