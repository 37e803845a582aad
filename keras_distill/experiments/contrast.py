"""Of few labels: vectors learn which texts are of one class, then a head."""

import keras
import numpy as np
from keras import ops

from keras_distill import data
from keras_distill.experiments import teaching
from keras_distill.experiments import training
from keras_distill.experiments.host_schedule import HostSchedule
from keras_distill.experiments.host_schedule import Limit

STEPS, RATE = 160, 2e-5
STRENGTHS = (1.0, 10.0, 100.0)


@keras.saving.register_keras_serializable("keras_distill")
class SameClass(keras.losses.Loss):
    """Cosines of a batch's vectors: 1 within a class, 0 between classes.

    The mean squared error over all pairs of rows of one class, and that over
    all pairs of two classes, weigh the same. SetFit draws such pairs of texts
    one by one; of a batch of texts all pairs are known at the cost of one.

    Args:
        **options: As of `keras.losses.Loss`.

    Example:

    >>> loss = SameClass()
    >>> vectors = ops.array([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]])
    >>> float(loss(ops.array([0, 0, 1]), vectors))
    0.0
    >>> float(loss(ops.array([0, 1, 0]), vectors))
    0.75

    Reference:
        Tunstall et al., 2022, https://arxiv.org/abs/2209.11055, section 3.
    """

    def call(self, y_true, y_pred):
        """Float tensor `[]`.

        Args:
            y_true: Integer tensor `[batch]`, the classes.
            y_pred: Tensor `[batch, dimensions]`.
        """
        classes = ops.reshape(y_true, (-1,))
        cosines = _cosines(y_pred)
        same = ops.cast(classes[:, None] == classes[None], cosines.dtype)
        # A text says nothing beside itself.
        others = same - ops.eye(ops.shape(classes)[0], dtype=cosines.dtype)
        within = _mean(ops.square(1.0 - cosines), others)
        between = _mean(ops.square(cosines), 1.0 - same)
        return (within + between) / 2


def _cosines(vectors):
    vectors = ops.normalize(vectors, axis=-1)
    return ops.matmul(vectors, ops.transpose(vectors))


def _mean(values, weights):
    """The weighted mean; 0 where there is no pair of the kind."""
    return ops.sum(values * weights) / ops.maximum(ops.sum(weights), 1.0)


def fine_tune_contrastively(
    model,
    task,
    labels=None,
    steps=STEPS,
    batch_size=32,
    minutes=10.0,
    seed=teaching.SEED,
    watcher=None,
):
    """Fine-tunes a classifier of vectors on few labels.

    First its vectors: classes are drawn evenly, and texts of one class come
    together (`SameClass`). Then its head: a logistic regression on the vectors
    of the same texts, its penalty chosen on dev.

    Args:
        model: `keras.Model` of a layer `unit`, vectors of length 1, and one
            `logits`, such as `task.contrastive_teacher` makes; changed in
            place.
        task: `tasks.TextClassification`.
        labels: Array, the train labels that it may see, as `Task.labels`
            gives them. None: all.
        steps: Integer.
        batch_size: Integer.
        minutes: Float, after which the first part ends.
        seed: Integer, of the texts that are drawn, and of dropped units.
        watcher: `Watcher`, or None.

    Returns:
        Dict of `steps`, `strength`, the inverse of the penalty, and `cut`,
        whether the time was up.

    Raises:
        ValueError: The vectors are not finite.

    Reference:
        Tunstall et al., 2022, https://arxiv.org/abs/2209.11055.
    """
    keras.utils.set_random_seed(seed)
    rows = teaching.labelled_rows(task, labels)
    drawn = rows.take(_drawn_evenly(rows.labels, steps * batch_size, seed))
    vectors = keras.Model(model.input, model.get_layer("unit").output)
    vectors.compile(
        keras.optimizers.AdamW(weight_decay=0.01, clipnorm=1.0), SameClass()
    )
    schedule = HostSchedule(RATE, steps, Limit(seconds=60 * minutes))
    # Not of similar length, as elsewhere: texts of one length are often of one
    # class, and a batch tells apart only what it holds.
    longest = [int(drawn.lengths.max())]
    training.fit(
        vectors,
        data.batches(drawn, batch_size, lengths=longest),
        (1, steps),
        [schedule],
        watcher,
        told="loss",
    )
    known = training.predict(vectors, rows)
    dev = training.predict(vectors, task.encoded["dev"])
    for part, found in (("train", known), ("dev", dev)):
        training.check_finite_logits(found, f"The teacher's vectors of {part}")
    strength, weights = _head(task, (known, rows.labels), dev)
    model.get_layer("logits").set_weights(weights)
    cut = schedule.steps < steps
    return {"steps": schedule.steps, "strength": strength, "cut": cut}


def _drawn_evenly(labels, count, seed):
    """Positions of so many rows, each class as often as the others."""
    share = 1.0 / np.bincount(labels)[labels]
    rng = np.random.default_rng(seed)
    return rng.choice(len(labels), count, p=share / share.sum())


def _head(task, known, dev):
    """The best strength, and the weights of the head."""
    # Not before: `--help` needs no scikit-learn.
    from keras_distill.tasks.linear_heads import DenseClasses

    heads = DenseClasses(task.num_outputs)
    fitted = {c: heads.fit(*known, c) for c in STRENGTHS}
    best = max(
        STRENGTHS,
        key=lambda c: task.score({"dev": heads.logits(fitted[c], dev)}, "dev"),
    )
    return best, heads.weights(fitted[best])
