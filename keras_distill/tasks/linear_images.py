"""The floor of tasks on images: principal components and a linear model."""

import math

import numpy as np
import tensorflow as tf
from sklearn.decomposition import PCA

from keras_distill import data
from keras_distill.tasks import linear
from keras_distill.tasks.linear_heads import DenseClasses

# Larger images are averaged to so many pixels, of which so many components.
PIXELS, COMPONENTS = 32, 256
# Inverse strengths of the penalty, where the first component has variance 1:
# the others keep their share, as most of what the last ones hold is noise.
STRENGTHS = (1e-2, 1.0, 100.0)
FITTED_ROWS = 20_000
# Whether images may be mirrored is asked of so many rows. Who knows mirrored
# images this much less well above chance is one that reads, or left is not
# right.
ASKED_ROWS, KEEPS = 2_000, 0.9


def of_task(task, labels):
    """A linear model of a task's images, on the labels that are there.

    Args:
        task: `ImageClassification`.
        labels: Integer array, -1 where there is none.

    Returns:
        `linear.Scored`.
    """
    splits = task.splits
    known = _drawn(labels, FITTED_ROWS)
    model = _fitted(splits.train.images[known], labels[known], splits)
    held = {part: getattr(splits, part).images for part in ("dev", "test")}
    components = model.components
    weights = model.heads.parameters(model.model) + sum(
        array.size for array in (components.components_, components.mean_)
    )
    return linear.Scored(
        {part: model.logits(images) for part, images in held.items()},
        {
            "model": f"principal components, {model.heads.name}",
            "features": f"{components.n_components_} principal components",
            **linear.size(weights, ()),
            "latency_ms": linear.latency_ms(model.logits, held["dev"]),
        },
    )


def may_be_mirrored(splits):
    """Whether a linear model knows mirrored images about as well as others.

    Args:
        splits: `data.ImageSplits`.

    Returns:
        Boolean.
    """
    rows = _drawn(splits.train.labels, ASKED_ROWS)
    train, dev = splits.train.take(rows), splits.dev
    if len(np.unique(train.labels)) < 2:
        return False
    model = _fitted(train.images, train.labels, splits)
    chance = np.bincount(dev.labels).max() / len(dev)
    plain, mirrored = (
        np.mean(model.logits(images).argmax(axis=-1) == dev.labels) - chance
        for images in (dev.images, dev.images[:, :, ::-1])
    )
    return bool(mirrored >= KEEPS * plain)


def _drawn(labels, count):
    """So many of the rows with a label; folders hold them class by class."""
    rows = np.flatnonzero(data.has_label(labels))
    return np.random.default_rng(0).permutation(rows)[:count]


class _Model:
    """Components of images, and a classifier of them."""

    def __init__(self, components, heads, model):
        self.components, self.heads, self.model = components, heads, model

    def logits(self, images):
        matrix = _scaled(self.components, _flat(images))
        return self.heads.logits(self.model, matrix)


def _scaled(components, flat):
    scale = np.sqrt(components.explained_variance_[0])
    return components.transform(flat) / max(scale, np.finfo("float32").tiny)


def _fitted(images, labels, splits):
    flat = _flat(images)
    most = min(COMPONENTS, len(flat) - 1, flat.shape[1])
    components = PCA(most, svd_solver="randomized", random_state=0).fit(flat)
    matrix, heads = _scaled(components, flat), DenseClasses(splits.num_classes)
    best, found = -math.inf, None
    for strength in STRENGTHS:
        model = _Model(components, heads, heads.fit(matrix, labels, strength))
        answers = model.logits(splits.dev.images).argmax(axis=-1)
        value = np.mean(answers == splits.dev.labels)
        if value > best:
            best, found = value, model
    return found


def _flat(images):
    """Images as rows of floats, large ones in fewer pixels."""
    height, width = images.shape[1:3]
    size = min(height, PIXELS), min(width, PIXELS)
    if size != (height, width):
        images = np.concatenate(
            [
                tf.image.resize(images[i : i + 256], size, method="area")
                for i in range(0, len(images), 256)
            ]
        )
    return images.reshape(len(images), -1).astype("float32") / 255
