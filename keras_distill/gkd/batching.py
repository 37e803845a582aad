"""Which rows are a batch, and batches without TensorFlow."""

import keras
import numpy as np


class PyBatches(keras.utils.PyDataset):
    """The batches of an epoch, in another order in the next one.

    Args:
        batches_of: Callable from the epoch to a list of lists of rows.
        batch_of: Callable from a list of rows to the batch.
    """

    def __init__(self, batches_of, batch_of):
        super().__init__()
        self._batches_of = batches_of
        self._batch_of = batch_of
        self._epoch = 0
        self._rows = batches_of(0)

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, index):
        return self._batch_of(self._rows[index])

    def on_epoch_end(self):
        self._epoch += 1
        self._rows = self._batches_of(self._epoch)


def batches_of_rows(buckets, batch_size, rng):
    """Lists of rows from one bucket each; in order where `rng` is None."""
    order = np.arange(len(buckets))
    if rng is not None:
        rng.shuffle(order)
    found = []
    for bucket in dict.fromkeys(buckets):
        rows = [row for row in order if buckets[row] == bucket]
        found += [
            rows[start : start + batch_size]
            for start in range(0, len(rows), batch_size)
        ]
    if rng is not None:
        rng.shuffle(found)
    return found
