"""Texts, an embedder of two dimensions more than it needs, and a task."""

import keras
import numpy as np
import tiny_text

from keras_distill import data
from keras_distill.tasks import TextVectors
from keras_distill.tasks import embedders

ROWS = {"train": 60, "dev": 40, "test": 40}
WIDTH = 6


def part(rows, seed, labelled=True):
    rng = np.random.default_rng(seed)
    words = [word.split() for word in tiny_text.WORDS.values()]
    labels = rng.integers(2, size=rows)
    texts = [
        " ".join([*rng.choice(words[label], 2), str(row % 10)])
        for row, label in enumerate(labels)
    ]
    return data.TextDataset(texts, labels if labelled else labels * 0 - 1)


def splits(labelled=True):
    parts = [part(rows, i, labelled) for i, rows in enumerate(ROWS.values())]
    return data.VectorSplits(*parts, tiny_text.LABELS if labelled else [])


def task(labelled=True, transfer=()):
    return TextVectors.from_texts(
        splits(labelled),
        data.bert_preprocessor(tiny_text.VOCABULARY, 8),
        transfer=transfer,
        name="tiny",
    )


def embedder(dimensions=WIDTH, pooling="mean"):
    """An encoder of one layer, from the same weights each time."""
    import keras_hub

    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.BertBackbone(
        len(tiny_text.VOCABULARY), 1, 2, dimensions, 8, max_sequence_length=8
    )
    # As a new one says nearly the same of all texts.
    for weight in backbone.weights:
        if "embedding" in weight.path:
            weight.assign(10 * weight)
    return embedders.pooled(backbone, pooling)
