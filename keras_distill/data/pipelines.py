"""tf.data pipelines: tokenised once, batched many times."""

import dataclasses
from collections.abc import Callable

import numpy as np

from keras_distill import _pairs
from keras_distill._checks import check_positive
from keras_distill._untuned import untuned
from keras_distill.data.labelled import has_label
from keras_distill.data.labelled import missing_labels

CHUNK = 1024


@dataclasses.dataclass(frozen=True)
class EncodedDataset:
    """What a model takes in, and labels: tokens of texts, or images.

    Args:
        inputs: Dictionary of arrays, the model's inputs: int32 `[rows,
            length]`, padded on the right, or others `[rows, ...]`.
        labels: Array, as of `TextDataset`.
        lengths: int32 array of shape `[rows]`, tokens before the padding. None
            where rows have no length, as images.
        per_token: Boolean. Whether there is a label for each token, an array
            `[rows, length]`, which is cut to a batch's length as the inputs.
        augment: Callable from the inputs of a batch and a seed, an int64
            tensor `[2]`, to other such inputs, applied anew in each step of a
            training; or None.
    """

    inputs: dict
    labels: np.ndarray
    lengths: np.ndarray | None = None
    per_token: bool = False
    augment: Callable | None = None

    def __len__(self):
        return len(self.labels)

    @property
    def width(self):
        """Tokens in each row, padding included; 0 where none have lengths."""
        if self.lengths is None:
            return 0
        return self.inputs["token_ids"].shape[1]

    def take(self, rows):
        """The rows at the positions `rows`, or of a slice."""
        return dataclasses.replace(
            self,
            inputs={name: array[rows] for name, array in self.inputs.items()},
            labels=self.labels[rows],
            lengths=None if self.lengths is None else self.lengths[rows],
        )

    def with_labels(self, labels):
        """The same rows with other labels."""
        return dataclasses.replace(self, labels=labels)

    def followed_by(self, other):
        """These rows, then those of `other`, whose labels are not taken."""
        missing = missing_labels(self.labels, len(other))
        lengths = self.lengths
        if lengths is not None:
            lengths = np.concatenate([lengths, other.lengths])
        return dataclasses.replace(
            self,
            inputs={
                name: np.concatenate([array, other.inputs[name]])
                for name, array in self.inputs.items()
            },
            labels=np.concatenate([self.labels, missing]),
            lengths=lengths,
        )


def encode(dataset, preprocessor, special_tokens=False):
    """Tokenises every text once; a pair becomes one row.

    Args:
        dataset: `TextDataset`.
        preprocessor: A KerasHub text classifier preprocessor; its
            `sequence_length` is the length of the rows.
        special_tokens: Boolean. Whether a word such as `[MASK]` is that
            special token, as augmented texts mean it, and not three pieces.

    Returns:
        `EncodedDataset`.

    Example:

    >>> from keras_distill.data import TextDataset
    >>> from keras_distill.data import bert_preprocessor
    >>> vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> texts = TextDataset(["Good good", "good"], [1, 0])
    >>> encode(texts, bert_preprocessor(vocabulary, 8)).lengths.tolist()
    [4, 3]
    """
    if special_tokens:
        preprocessor = with_special_tokens(preprocessor)
    chunks = list(_preprocessed(dataset, preprocessor))
    inputs = {
        key: np.concatenate([np.asarray(chunk[key]) for chunk in chunks])
        for key in chunks[0]
    }
    inputs = {key: value.astype("int32") for key, value in inputs.items()}
    lengths = inputs["padding_mask"].sum(axis=1, dtype="int32")
    return EncodedDataset(inputs, dataset.labels, lengths)


def _preprocessed(dataset, preprocessor):
    """Yields what a preprocessor makes of the texts, some rows at a time."""
    import keras_hub

    sides = _pairs.columns(dataset.texts)
    tokenizer = getattr(preprocessor, "tokenizer", None)
    word_pieces = isinstance(tokenizer, keras_hub.tokenizers.WordPieceTokenizer)
    # Outside of a graph KerasHub tokenises in Python. TF Text takes a
    # thirteenth of its time for word pieces, once its graph is traced, but
    # eight times as much for byte pairs.
    if word_pieces and len(dataset) > CHUNK:
        import tensorflow as tf

        rows = tf.data.Dataset.from_tensor_slices(tuple(sides)).batch(CHUNK)
        yield from rows.map(
            lambda *parts: _pairs.preprocess(preprocessor, parts),
            num_parallel_calls=tf.data.AUTOTUNE,
        ).as_numpy_iterator()
    else:
        for start in range(0, len(dataset), CHUNK):
            parts = [side[start : start + CHUNK] for side in sides]
            yield _pairs.preprocess(preprocessor, parts)


def with_special_tokens(preprocessor):
    """A copy that does not split special tokens; others never split them."""
    tokenizer = getattr(preprocessor, "tokenizer", None)
    if not hasattr(tokenizer, "special_tokens_in_strings"):
        return preprocessor
    own = {
        "vocabulary": tokenizer.get_vocabulary(),
        "special_tokens_in_strings": True,
    }
    tokenizer = type(tokenizer).from_config(tokenizer.get_config() | own)
    config = preprocessor.get_config() | {"tokenizer": tokenizer}
    return type(preprocessor).from_config(config)


def batches(
    encoded,
    batch_size,
    shuffle=False,
    seed=0,
    lengths=None,
    labelled_per_batch=None,
    drop_remainder=False,
):
    """Batches of `(inputs, labels)` for `fit`, `evaluate` and `predict`.

    As the rows are: what `EncodedDataset.augment` makes of them is for
    trainings.

    Args:
        encoded: `EncodedDataset`.
        batch_size: Integer.
        shuffle: Boolean. A new order in each epoch, the same epochs for the
            same seed.
        seed: Integer, used with `shuffle`.
        lengths: Increasing sequence of integers: rows are grouped by the
            shortest of these lengths that holds them, and each batch is cut
            to it, so that few shapes occur. Defaults to the full width.
        labelled_per_batch: Integer. Every batch then holds this many labelled
            rows, which repeat as often as needed, and rows without a label
            for the rest; an epoch is one pass over the latter. Defaults to
            one pass over all rows, as they come.
        drop_remainder: Boolean. Drops the last batch of each length if it is
            not full.

    Returns:
        `tf.data.Dataset` of `(inputs, labels)`: a dictionary of tensors
        `[batch, length]`, or `[batch, ...]` where rows have no length, and the
        labels of these rows.

    Raises:
        ValueError: `lengths` do not increase or are too short for the longest
            row, or `labelled_per_batch` does not fit.
    """
    import tensorflow as tf

    check_positive("batch_size", batch_size)
    if labelled_per_batch is None:
        lengths = _checked_lengths(encoded, lengths)
        rows = _rows(np.arange(len(encoded)), shuffle, seed)
        groups = _grouped(rows, encoded, batch_size, lengths, drop_remainder)
    else:
        if lengths is not None:
            raise ValueError(
                "`lengths` cannot be combined with `labelled_per_batch`. "
                f"Received: lengths={lengths}, "
                f"labelled_per_batch={labelled_per_batch}. Leave one out"
            )
        groups = _mixed(
            encoded,
            (labelled_per_batch, batch_size - labelled_per_batch),
            shuffle,
            seed,
            drop_remainder,
        )
        lengths = [encoded.width]
    inputs = {k: tf.convert_to_tensor(v) for k, v in encoded.inputs.items()}
    labels = tf.constant(encoded.labels)

    static = lengths[0] if len(lengths) == 1 else None

    def gather(rows, length):
        batch = {k: tf.gather(v, rows) for k, v in inputs.items()}
        held = tf.gather(labels, rows)
        if encoded.lengths is None:
            return batch, held
        batch = {k: v[:, :length] for k, v in batch.items()}
        for tensor in batch.values():
            tensor.set_shape([None, static])
        return batch, held[:, :length] if encoded.per_token else held

    return untuned(groups.map(gather).prefetch(2))


def _checked_lengths(encoded, lengths):
    if encoded.lengths is None:
        if lengths is not None:
            raise ValueError(
                "`lengths` is for rows that have lengths, as texts. Received: "
                f"lengths={lengths}"
            )
        return [encoded.width]
    lengths = [encoded.width] if lengths is None else list(lengths)
    longest = int(encoded.lengths.max())
    increasing = all(a < b for a, b in zip([0, *lengths], lengths))
    if (
        not lengths
        or not increasing
        or not (longest <= lengths[-1] <= encoded.width)
    ):
        raise ValueError(
            "`lengths` must increase, and the last one must lie between the "
            f"longest row ({longest}) and the full width ({encoded.width}). "
            f"Received: lengths={lengths}"
        )
    return lengths


def _rows(rows, shuffle, seed):
    """Positions one by one, in a new order for each pass if shuffled."""
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(rows.astype("int64"))
    if shuffle:
        dataset = dataset.shuffle(len(rows), seed=seed)
    return dataset


def _grouped(rows, encoded, batch_size, lengths, drop_remainder):
    """Yields (positions, length): rows of similar length together."""
    import tensorflow as tf

    if len(lengths) == 1:
        groups = rows.batch(batch_size, drop_remainder=drop_remainder)
        return groups.map(lambda batch: (batch, lengths[0]))
    buckets = np.searchsorted(lengths, encoded.lengths)
    sizes = np.bincount(buckets)
    full = sizes if drop_remainder else sizes + batch_size - 1
    bucket_of_row = tf.constant(buckets)
    bucket_length = tf.constant(lengths, dtype="int64")
    groups = rows.group_by_window(
        key_func=lambda row: tf.gather(bucket_of_row, row),
        reduce_func=lambda bucket, window: window.batch(
            batch_size, drop_remainder=drop_remainder
        ).map(lambda batch: (batch, tf.gather(bucket_length, bucket))),
        window_size=batch_size,
    )
    return groups.apply(
        tf.data.experimental.assert_cardinality(int(sum(full // batch_size)))
    )


def _mixed(encoded, counts, shuffle, seed, drop_remainder):
    """Yields (positions, length): a fixed number of labelled rows in each."""
    import tensorflow as tf

    known = has_label(encoded.labels)
    labelled, unlabelled = np.flatnonzero(known), np.flatnonzero(~known)
    if min(counts) < 1 or not len(labelled) or not len(unlabelled):
        raise ValueError(
            "`labelled_per_batch` must lie between 1 and batch_size - 1, and "
            "there must be rows with and without labels. Received: "
            f"labelled_per_batch={counts[0]}, batch_size={sum(counts)}, "
            f"{len(labelled)} labelled and {len(unlabelled)} unlabelled rows"
        )
    first = _rows(labelled, shuffle, seed).repeat()
    first = first.batch(counts[0], drop_remainder=True)
    second = _rows(unlabelled, shuffle, seed + 1)
    second = second.batch(counts[1], drop_remainder=drop_remainder)
    return tf.data.Dataset.zip(first, second).map(
        lambda a, b: (tf.concat([a, b], axis=0), encoded.width)
    )
