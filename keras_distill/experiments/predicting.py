"""What models say of data, row by row."""

import functools
import time

import numpy as np
import tensorflow as tf

from keras_distill import data

EVALUATION_BATCH = 128
TIMED_ROWS = 2 * EVALUATION_BATCH


def lengths(encoded):
    """A few lengths to cut batches to: most texts are short; None of images."""
    if encoded.lengths is None:
        return None
    return data.bucket_lengths(encoded.lengths, encoded.width)


def predict(model, encoded):
    """Logits `[rows, outputs]`, in the order of the rows."""
    return Predictor(encoded)(model)


def seconds_per_row(model, encoded):
    """What a row of `predict` takes, by the first 256 rows.

    The first pass compiles the model, the second one is timed.
    """
    rows = encoded.take(slice(0, TIMED_ROWS))
    predictor = Predictor(rows)
    predictor(model)
    start = time.perf_counter()
    predictor(model)
    return (time.perf_counter() - start) / len(rows)


class Predictor:
    """Runs models over the same rows, again and again.

    They run over rows of similar length, so that short texts cost what they
    hold and not what the longest one does.

    Args:
        encoded: `data.EncodedDataset`.
        keep: Boolean. Whether the batches stay in memory: to make them takes
            several times as long as a small model does.
    """

    def __init__(self, encoded, keep=False):
        # Of logits for each token, those of several lengths are no one array.
        self._width = encoded.width if encoded.per_token else None
        self._order, parts = _parts(encoded)
        self._parts = [part.cache() for part in parts] if keep else parts

    def __call__(self, model):
        """Logits `[rows, ..., outputs]`, in the order of the rows."""
        found = [model.predict(part, verbose=0) for part in self._parts]
        if self._width is not None:
            found = [
                np.pad(held, ((0, 0), (0, self._width - held.shape[1]), (0, 0)))
                for held in found
            ]
        predicted = np.concatenate(found)
        logits = np.empty_like(predicted)
        logits[self._order] = predicted
        return logits


def _parts(encoded):
    """An order of the rows, and datasets that have them in it."""
    few = lengths(encoded)
    if few is None:
        return np.arange(len(encoded)), [
            data.batches(encoded, EVALUATION_BATCH)
        ]
    buckets = np.searchsorted(few, encoded.lengths)
    parts = [
        data.batches(
            encoded.take(np.flatnonzero(buckets == bucket)),
            EVALUATION_BATCH,
            lengths=[length],
        )
        for bucket, length in enumerate(few)
    ]
    if not encoded.per_token:
        parts = [functools.reduce(tf.data.Dataset.concatenate, parts)]
    return np.argsort(buckets, kind="stable"), parts
