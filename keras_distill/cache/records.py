"""One example's signals as a TFRecord entry, and back.

Arrays are stored as their little-endian bytes. A size of None is that of the
tokens: stored up to the last real one, filled with zeros when it is read.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from keras_distill._checks import check_choice

KEY, TOKENS = "key", "tokens"
DTYPES = ("float16", "bfloat16", "float32")


def smallest_integer(largest):
    """The name of the smallest dtype here that holds up to `largest`."""
    for name in ("uint8", "uint16"):
        if largest <= np.iinfo(name).max:
            return name
    return "int32"


def _numpy_dtype(name):
    return tf.as_dtype(name).as_numpy_dtype


@dataclasses.dataclass(frozen=True)
class Feature:
    """One stored array.

    Args:
        name: String.
        dtype: String, as it is stored.
        shape: Tuple, with None for the tokens.
    """

    name: str
    dtype: str
    shape: tuple

    def encode(self, array, length):
        """Dict from name to bytes.

        Args:
            array: Array of one example.
            length: Integer, its tokens; None if they cannot be told.

        Raises:
            ValueError: if a value is not a number, or too large.
        """
        real = tuple(
            slice(length if size is None else None) for size in self.shape
        )
        return {self.name: to_bytes(self.name, array[real], self.dtype)}

    @property
    def parts(self):
        """Names and dtypes of what `encode` gives."""
        return {self.name: self.dtype}

    def decode(self, parts, length, width):
        """The tensor of one example.

        Args:
            parts: Dict, the flat tensors of `parts`.
            length: Scalar tensor, the tokens that were stored.
            width: Integer or scalar tensor, the tokens to fill up to.
        """
        sizes = [length if size is None else size for size in self.shape]
        tensor = tf.reshape(parts[self.name], sizes)
        return _filled(_widened(tensor), self.shape, length, width)


@dataclasses.dataclass(frozen=True)
class SampledFeature:
    """Draws from the distribution of each token, or of the example.

    Args:
        name: String.
        sampled: `Sampled`.
        shape: Tuple of the logits, with None for the tokens.
    """

    name: str
    sampled: object
    shape: tuple

    def encode(self, array, length, example):
        """Dict from name to bytes; as `Feature.encode`.

        Args:
            array: Tempered logits of one example.
            length: Integer, its tokens; None if they cannot be told.
            example: Integer, its place in the data.
        """
        real = tuple(
            slice(length if size is None else None) for size in self.shape
        )
        logits = checked(self.name, array[real])
        rows = logits.reshape(-1, self.shape[-1])
        drawn = self.sampled.draw(rows, example)
        return {
            name: to_bytes(name, values, dtype)
            for (name, dtype), values in zip(self.parts.items(), drawn)
        }

    @property
    def parts(self):
        draws = smallest_integer(self.sampled.draws)
        return {
            f"{self.name}/classes": smallest_integer(self.shape[-1] - 1),
            f"{self.name}/counts": draws,
            f"{self.name}/sizes": draws,
        }

    def decode(self, parts, length, width):
        classes, counts, sizes = (
            tf.cast(parts[name], "int32") for name in self.parts
        )
        draws = self.sampled.draws
        shape = (*self.shape[:-1], draws)
        lengths = [length if size is None else size for size in shape]

        def rows(values):
            ragged = tf.RaggedTensor.from_row_lengths(
                values, sizes, validate=False
            )
            return tf.reshape(ragged.to_tensor(shape=[None, draws]), lengths)

        share = tf.cast(rows(counts), "float32") / draws
        signal = {
            "indices": rows(classes),
            "log_probabilities": tf.math.log(share),
        }
        return {
            name: _filled(value, shape, length, width)
            for name, value in signal.items()
        }


def _widened(tensor):
    """Floats as float32, indices as int32."""
    return tf.cast(tensor, "float32" if tensor.dtype.is_floating else "int32")


def _filled(tensor, shape, length, width):
    """Zeros after the tokens that were stored."""
    if None not in shape:
        return tensor
    room = width - length
    tensor = tf.pad(tensor, [[0, room if s is None else 0] for s in shape])
    static = width if isinstance(width, int) else None
    return tf.ensure_shape(tensor, [static if s is None else s for s in shape])


def checked(name, array):
    """Raises `ValueError` if the teacher gave something that is no number."""
    array = np.asarray(array)
    if np.isnan(array.astype("float32")).any():
        raise ValueError(f"The teacher's {name!r} is not a number")
    return array


def to_bytes(name, array, dtype):
    """The little-endian bytes of `array` as `dtype`.

    Raises:
        ValueError: if a value is not a number, or too large for `dtype`.
    """
    array = checked(name, array)
    # Looked for afterwards, with a message that says what to do.
    with np.errstate(over="ignore"):
        stored = array.astype(_numpy_dtype(dtype))
    if dtype in DTYPES:
        large = np.isinf(stored.astype("float32")) & np.isfinite(
            array.astype("float32")
        )
        if large.any():
            raise ValueError(
                f"The teacher's {name!r} has values too large for {dtype}. "
                "Pass dtype='bfloat16' or 'float32'"
            )
    return stored.astype(stored.dtype.newbyteorder("<")).tobytes()


def check_dtype(dtype):
    """Raises `ValueError` unless signals can be stored in `dtype`."""
    check_choice("dtype", dtype, DTYPES)


def serialise(key, length, parts):
    """One entry of a shard.

    Args:
        key: Integer, the example's key.
        length: Integer, its tokens, or None.
        parts: Dict from name to bytes.
    """
    features = {
        name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        for name, value in parts.items()
    }
    for name, value in ((KEY, key), (TOKENS, length)):
        if value is not None:
            features[name] = tf.train.Feature(
                int64_list=tf.train.Int64List(value=[value])
            )
    example = tf.train.Example(features=tf.train.Features(feature=features))
    return example.SerializeToString(deterministic=True)


def parse(record, features):
    """Key, tokens (0 if not stored) and the flat parts of one entry."""
    known = {KEY: tf.io.FixedLenFeature([], "int64")}
    known[TOKENS] = tf.io.FixedLenFeature([], "int64", default_value=0)
    dtypes = {}
    for feature in features:
        dtypes |= feature.parts
    known |= {name: tf.io.FixedLenFeature([], "string") for name in dtypes}
    found = tf.io.parse_single_example(record, known)
    parts = {
        name: tf.io.decode_raw(found[name], dtype)
        for name, dtype in dtypes.items()
    }
    return found[KEY], tf.cast(found[TOKENS], "int32"), parts
