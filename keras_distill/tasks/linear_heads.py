"""What a linear model fits on features: classes, labels, or a score."""

import dataclasses

import numpy as np
from scipy import sparse
from scipy import special
from sklearn.linear_model import LogisticRegression
from sklearn.linear_model import Ridge
from sklearn.multiclass import OneVsRestClassifier

# Below every score of a class that was seen.
UNSEEN = -30.0


@dataclasses.dataclass(frozen=True)
class Classes:
    """One class against the rest, by logistic regression.

    Args:
        num_classes: Integer, also of classes without a text.
    """

    num_classes: int
    name = "logistic regression"

    def fit(self, matrix, labels, strength):
        """A classifier of the rows of a matrix."""
        # Coordinate descent in the dual, with liblinear's own tolerance:
        # seconds, where the solvers of one distribution over all classes take
        # minutes, and no other accuracy than with a hundredth of it. Of few
        # features without zeros only the primal converges.
        dense = not sparse.issparse(matrix)
        return OneVsRestClassifier(
            LogisticRegression(
                C=strength,
                solver="liblinear",
                dual=not dense,
                tol=1e-3 if dense else 0.1,
                max_iter=1000,
                random_state=0,
            )
        ).fit(matrix, labels)

    def logits(self, model, matrix):
        """Log odds of each class, whose largest is the answer.

        They are not meant to be read as one distribution.
        """
        scores = model.decision_function(matrix)
        if scores.ndim == 1:
            scores = np.stack([-scores / 2, scores / 2], axis=-1)
        found = np.full((len(scores), self.num_classes), UNSEEN, "float32")
        found[:, model.classes_] = scores
        return found

    def weights(self, model, rarest=np.inf):
        """What a `keras.layers.Dense` of as many units holds.

        Args:
            model: What `fit` gave.
            rarest: Float, the bounds of log odds without any feature.

        Returns:
            List of the kernel, `[features, num_classes]`, and the bias.
        """
        kernel, bias = self._held(model)
        if len(kernel) == 1:  # Of two classes scikit-learn keeps one row.
            kernel, bias = (
                np.append(-x, x, axis=0) / 2 for x in (kernel, bias)
            )
        all_kernels = np.zeros((kernel.shape[1], self.num_classes))
        all_biases = np.full(self.num_classes, UNSEEN)
        all_kernels[:, model.classes_] = kernel.T
        all_biases[model.classes_] = bias
        return [all_kernels, np.clip(all_biases, -rarest, rarest)]

    def _held(self, model):
        """Arrays `[classes, features]` and `[classes]`, of two classes one."""
        found = model.estimators_
        return (
            np.concatenate([each.coef_ for each in found]),
            np.concatenate([each.intercept_ for each in found]),
        )

    def loss(self, logits, labels):
        """Float: the cross-entropy with labels, read as one distribution."""
        chosen = np.arange(len(labels)), labels
        return -special.log_softmax(logits, axis=-1)[chosen].mean()

    def parameters(self, model):
        """Integer, the number of weights."""
        kernel, bias = self._held(model)
        return kernel.size + bias.size


class DenseClasses(Classes):
    """One distribution over all classes, of few features without zeros."""

    def fit(self, matrix, labels, strength):
        """A classifier of the rows of a matrix."""
        return LogisticRegression(C=strength, max_iter=300).fit(matrix, labels)

    def _held(self, model):
        return model.coef_, model.intercept_


@dataclasses.dataclass(frozen=True)
class Labels:
    """Each label by a logistic regression of its own."""

    name = "logistic regression"

    def fit(self, matrix, labels, strength):
        """The labels' shares, and a classifier of each one that varies."""
        heads, shares = Classes(2), labels.mean(axis=0)
        return shares, {
            i: heads.fit(matrix, labels[:, i], strength)
            for i in np.flatnonzero((shares > 0) & (shares < 1))
        }

    def logits(self, model, matrix):
        """Log odds of each label; of one that does not vary the constant."""
        shares, classifiers = model
        found = np.tile(
            np.where(shares > 0, -UNSEEN, UNSEEN), (matrix.shape[0], 1)
        )
        for i, classifier in classifiers.items():
            found[:, i] = classifier.decision_function(matrix)
        return found.astype("float32")

    def weights(self, model, rarest=np.inf):
        """As those of `Classes`, of all labels; None where none varies."""
        shares, classifiers = model
        if not classifiers:
            return None
        columns, constants = zip(*map(Classes(2).weights, classifiers.values()))
        varying = list(classifiers)
        kernel = np.zeros((len(columns[0]), len(shares)))
        bias = np.where(shares > 0, -UNSEEN, UNSEEN)
        # The log odds of a label are the difference of the two classes'.
        kernel[:, varying] = np.diff(columns, axis=-1)[..., 0].T
        bias[varying] = np.diff(constants, axis=-1)[..., 0]
        return [kernel, np.clip(bias, -rarest, rarest)]

    def loss(self, logits, labels):
        """Float: the binary cross-entropy with labels."""
        return -special.log_expit(np.where(labels > 0, 1, -1) * logits).mean()

    def parameters(self, model):
        """Integer, the number of weights."""
        _, classifiers = model
        return sum(map(Classes(2).parameters, classifiers.values()))


@dataclasses.dataclass(frozen=True)
class Scores:
    """A score by ridge regression."""

    name = "ridge regression"

    def fit(self, matrix, labels, strength):
        """A regression of the rows of a matrix."""
        return Ridge(alpha=1 / strength, random_state=0).fit(matrix, labels)

    def logits(self, model, matrix):
        """Scores, array `[rows, 1]`."""
        return model.predict(matrix)[:, None].astype("float32")

    def parameters(self, model):
        """Integer, the number of weights."""
        return model.coef_.size + 1
