"""What is measured of vectors: neighbours, and what can be read off them."""

import numpy as np

# Neighbours of each text, and how many texts they are looked for among.
NEIGHBOURS, POOL, BLOCK = 10, 4000, 1024


def unit(vectors):
    """Vectors of length 1, float64; one of zeros stays zero.

    Args:
        vectors: Float array `[rows, dimensions]`.
    """
    vectors = np.asarray(vectors, "float64")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0)


def neighbours_kept(expected, actual, neighbours=NEIGHBOURS, pool=POOL):
    """Recall of nearest neighbours by cosine: of the first, in the second.

    Neighbours of a row are looked for among the other rows, or among some
    thousand of them, drawn once for all models. Of few rows as many neighbours
    are asked for as a quarter of the others.

    Args:
        expected: Float array `[rows, dimensions]`, such as the teacher's.
        actual: Float array `[rows, other dimensions]`.
        neighbours: Integer.
        pool: Integer, the most rows that are looked among.

    Returns:
        Float array `[rows]` of shares of 1.

    Example:

    >>> found = neighbours_kept(np.eye(8) + 0.1, np.eye(8) + 0.1)
    >>> found.tolist() == [1.0] * 8
    True

    Reference:
        Manning et al., 2008, "Introduction to Information Retrieval",
        section 8.3 (recall).
    """
    rows = len(expected)
    among = np.sort(np.random.default_rng(0).permutation(rows)[:pool])
    count = max(1, min(neighbours, (len(among) - 1) // 4))
    found = [_nearest(each, among, count) for each in (expected, actual)]
    kept = [np.isin(second, first).sum() for first, second in zip(*found)]
    return np.array(kept) / count


def _nearest(vectors, among, count):
    """Positions of the nearest rows, `[rows, count]`, itself not among them."""
    vectors = unit(vectors).astype("float32")
    pool, found = vectors[among].T, []
    for start in range(0, len(vectors), BLOCK):
        cosines = vectors[start : start + BLOCK] @ pool
        rows = np.arange(start, start + len(cosines))
        cosines[rows[:, None] == among] = -np.inf
        if count < len(among):
            found.append(np.argpartition(-cosines, count - 1)[:, :count])
        else:
            found.append(np.argsort(-cosines)[:, :count])
    return among[np.concatenate(found)]


def probed(known, asked):
    """Accuracy of logistic regression on vectors.

    Args:
        known: Pair of a float array `[rows, dimensions]` and the classes, an
            integer array `[rows]`, which it is fitted on.
        asked: The same of the rows that are scored.

    Returns:
        Float.

    Example:

    >>> vectors = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> probed((vectors, np.array([0, 1])), (2 * vectors, np.array([0, 1])))
    1.0
    """
    # Not before: `--help` and tasks of one's own need no scikit-learn.
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=10.0, max_iter=1000)
    model.fit(unit(known[0]), known[1])
    return float(np.mean(model.predict(unit(asked[0])) == asked[1]))


def pairs(vectors, labels):
    """The vectors of the texts of each pair, and its score.

    Args:
        vectors: Float array `[rows, dimensions]`.
        labels: Float array `[rows, 2]`, as of `data.VectorSplits`. A text
            whose other one is not there is in no pair.

    Returns:
        Two arrays `[pairs, dimensions]`, and one `[pairs]`.

    Example:

    >>> labels = np.array([[4, 1.5], [-1, 0], [2, 0.5], [4, 1.5]])
    >>> first, second, scores = pairs(np.arange(4)[:, None], labels)
    >>> first.tolist(), second.tolist(), scores.tolist()
    ([[0]], [[3]], [1.5])
    """
    numbers = labels[:, 0]
    order = np.argsort(numbers, kind="stable")
    before, after = order[:-1], order[1:]
    whole = (numbers[before] == numbers[after]) & (numbers[before] >= 0)
    before, after = before[whole], after[whole]
    return vectors[before], vectors[after], labels[before, 1]


def similarity(first, second, scores):
    """Spearman's correlation of cosines with scores, as of STS-B.

    Args:
        first: Float array `[pairs, dimensions]`, vectors of the first texts.
        second: Float array of the same shape, of the second texts.
        scores: Float array `[pairs]`.

    Returns:
        Float in [-1, 1]; 0 where cosines or scores do not vary.

    Example:

    >>> x, y = np.eye(3), np.array([[1.0, 0, 0], [0, 1, 1], [1, 0, 0]])
    >>> round(similarity(x, y, np.array([5.0, 3.0, 1.0])), 6)
    1.0
    """
    from keras_distill.tasks.measures import score_errors

    cosines = (unit(first) * unit(second)).sum(axis=1)
    return score_errors(cosines, np.asarray(scores, "float64"))["spearman"]
