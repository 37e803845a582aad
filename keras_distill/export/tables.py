"""Tables of tokens in few bits, of which a lookup reads some rows.

LiteRT's quantizers leave tables that are gathered from as they are, or give all
rows one scale. Here each row has its own, and the rows that are read become
floats after the lookup, by operations that every runtime has.
"""

import contextlib

import numpy as np
import tensorflow as tf

from keras_distill.quantization.kernels import rows_together
from keras_distill.quantization.kernels import tables
from keras_distill.quantization.rounding import scales
from keras_distill.recording import wrap_calls

NIBBLE = 16


@contextlib.contextmanager
def packed_tables(student, bits):
    """Lookups read packed rows, in graphs that are traced in this context.

    Args:
        student: `keras.Model`.
        bits: 8 or 4, or None for tables as they are.
    """
    if bits is None:
        yield
        return
    # Read before the graph is traced, in which a variable has no value.
    held = {id(layer): _Packed(layer, bits) for layer in tables(student)}

    def lookup(layer, call, inputs, *args, **kwargs):
        if args or kwargs.get("reverse"):  # As a matrix, of all tokens.
            return call(inputs, *args, **kwargs)
        return tf.cast(held[id(layer)].rows(inputs), layer.compute_dtype)

    with wrap_calls(tables(student), lookup):
        yield


class _Packed:
    """A table in few bits, and its lookup."""

    def __init__(self, layer, bits):
        table = np.asarray(layer.embeddings, "float32")
        self._bits, self._width = bits, table.shape[1]
        self._together = rows_together(layer)
        step = scales(table, bits, (1,), self._together).astype("float32")
        self._integers = np.round(table / step).astype("int8")
        self._step = np.ascontiguousarray(step[:: self._together])
        if bits == 4:
            self._integers = _packed(self._integers)

    def rows(self, ids):
        """Float32 rows, `[..., width]`, of integer ids."""
        ids = tf.cast(ids, "int32")
        rows = tf.cast(tf.gather(self._integers, ids), "float32")
        if self._bits == 4:
            # Half of a row is in the high nibbles, the other in the low ones.
            high = tf.floor(rows / NIBBLE)
            low = rows - NIBBLE * high - NIBBLE / 2
            rows = tf.concat([high, low], axis=-1)[..., : self._width]
        # As integers, for the converter would round what it takes for weights.
        step = tf.gather(self._step.view("int32"), ids // self._together)
        return rows * tf.bitcast(step, "float32")


def _packed(integers):
    """Two numbers of -7 to 7 in one byte, `[rows, (width + 1) // 2]`."""
    rows, width = integers.shape
    half = (width + 1) // 2
    both = np.zeros((rows, 2 * half), "int16")
    both[:, :width] = integers
    low = both[:, half:] + NIBBLE // 2
    return (both[:, :half] * NIBBLE + low).astype("int8")
