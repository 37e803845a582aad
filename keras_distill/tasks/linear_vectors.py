"""The floor of vectors: TF-IDF, principal components, ridge regression."""

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import Ridge

from keras_distill.tasks import linear

FEATURES = (linear.WORDS, linear.CHARACTERS)
COMPONENTS = 256
FITTED_ROWS = 20_000
STRENGTH = 1.0


def of_task(task, labels):
    """A linear model of the teacher's vectors.

    Args:
        task: `TextVectors`, judged by a teacher.
        labels: Float array `[rows, dimensions]`, the teacher's vectors.

    Returns:
        `linear.Scored`.
    """
    return max(
        (_fitted(task, labels, features) for features in FEATURES),
        key=lambda found: task.score(found.logits, "dev"),
    )


def _fitted(task, labels, features):
    splits = task.splits
    rows = np.random.default_rng(0).permutation(len(labels))[:FITTED_ROWS]
    texts = [splits.train.texts[row] for row in rows]
    vectorizer = linear.vectorizer_of(features, pairs=False)
    matrix = vectorizer.fit_transform(texts)
    count = min(COMPONENTS, *(np.array(matrix.shape) - 1))
    components = TruncatedSVD(max(1, count), random_state=0)
    ridge = Ridge(alpha=1 / STRENGTH)
    ridge.fit(components.fit_transform(matrix), labels[rows])

    def vectors(texts):
        found = components.transform(vectorizer.transform(texts))
        return ridge.predict(found).astype("float32")

    weights = components.components_.size + ridge.coef_.size
    return linear.Scored(
        {
            part: vectors(getattr(splits, part).texts)
            for part in ("dev", "test")
        },
        {
            "model": "TF-IDF, ridge regression",
            "features": f"{components.n_components} components of {features}",
            **linear.size(weights, vectorizer.get_feature_names_out()),
            "latency_ms": linear.latency_ms(vectors, splits.dev.texts),
        },
    )
