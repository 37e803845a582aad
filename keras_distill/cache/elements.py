"""The elements of a data set: what the teacher reads of them, and their keys.

A key is a 63-bit fingerprint of what the teacher reads of one example, made
in the graph of the data set. It tells whether a stored signal belongs to an
example.
"""

import keras
import tensorflow as tf

from keras_distill._backend import symbolic_inputs
from keras_distill.cache.folders import CacheError

ROLES = {"teacher", "student"}
KEYS = 2**63 - 1  # A TFRecord's integers are int64.


def check_dataset(dataset):
    """Raises `ValueError` unless `dataset` can be read from start to end."""
    if not isinstance(dataset, tf.data.Dataset):
        raise ValueError(
            "`dataset` must be a `tf.data.Dataset`, for example "
            "`tf.data.Dataset.from_tensor_slices((x, y))`. Received: "
            f"dataset={type(dataset).__name__}"
        )
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "`dataset` must end. Received one that repeats for ever: call "
            "`repeat` on what `kd.cache.attach` returns"
        )


def inputs_of(element):
    """`x` of an element `(x, [y, [sample_weight]])` or `x`."""
    return element[0] if isinstance(element, tuple) else element


def _has_roles(x):
    return isinstance(x, dict) and "student" in x and set(x) <= ROLES


def teacher_inputs(x):
    """What the teacher reads of `x`.

    Raises:
        ValueError: if that is not there.
    """
    if isinstance(x, dict) and "teacher_signal" in x:
        raise ValueError(
            "The data set carries a teacher signal already. Pass the data set "
            "that was there before"
        )
    if not _has_roles(x):
        return x
    if "teacher" not in x:
        raise ValueError(
            "The teacher's inputs are missing: a cache is looked up by them. "
            "Expected x={'teacher': ..., 'student': ...}. Received: "
            f"{sorted(x)}"
        )
    return x["teacher"]


def student_inputs(x):
    """What the student reads of `x`."""
    return x["student"] if _has_roles(x) else x


def map_elements(dataset, function):
    """`dataset.map` with one argument, whatever an element is."""
    is_tuple = isinstance(dataset.element_spec, tuple)

    def call(*element):
        return function(element if is_tuple else element[0])

    return dataset.map(call, num_parallel_calls=tf.data.AUTOTUNE)


def named_specs(x):
    """Dict, the name of each input of one example to its dtype and rank."""
    leaves = {}
    for path, spec in keras.tree.flatten_with_path(x):
        name = "/".join(map(str, path)) or "x"
        if not isinstance(spec, tf.TensorSpec) or spec.shape.rank is None:
            raise ValueError(
                "The inputs must be dense tensors of known rank. Received: "
                f"{name}={spec}"
            )
        leaves[name] = {"dtype": spec.dtype.name, "rank": spec.shape.rank}
    return leaves


def has_batches(dataset, models, given):
    """Whether the elements of `dataset` are batches.

    Args:
        dataset: `tf.data.Dataset`.
        models: The teacher's models; a functional one knows its ranks.
        given: What the caller says, or None.

    Raises:
        ValueError: if it cannot be told.
    """
    # A scalar, such as a label, has no room for a batch. Otherwise the
    # teacher's own inputs tell, and last an unknown first size everywhere.
    specs = tf.nest.flatten(dataset.element_spec)
    if any(spec.shape.rank == 0 for spec in specs):
        found = False
    else:
        x = teacher_inputs(inputs_of(dataset.element_spec))
        found = _rank_difference(x, models)
    if found is None and all(spec.shape[0] is None for spec in specs):
        found = True
    if given is None and found is None:
        raise ValueError(
            "Whether the elements of `dataset` are batches cannot be told. "
            "Pass `layout=kd.cache.Layout(batched=True)` or False. Received: "
            f"element_spec={dataset.element_spec}"
        )
    if None not in (given, found) and given != found:
        raise ValueError(
            f"`batched` does not fit the data. Received: batched={given}, "
            f"element_spec={dataset.element_spec}"
        )
    return found if given is None else given


def _rank_difference(x, models):
    known = symbolic_inputs(models[0])
    if known is None:
        return None
    if isinstance(known, dict) and isinstance(x, dict):
        names = [name for name in known if name in x]
        known, x = [known[n] for n in names], [x[n] for n in names]
    known, x = keras.tree.flatten(known), keras.tree.flatten(x)
    if len(known) != len(x):
        return None
    return all(len(k.shape) == s.shape.rank for k, s in zip(known, x))


def key(x):
    """The key of one example, from the tensors that the teacher reads."""
    # Serialised, a tensor carries its dtype and shape into the fingerprint.
    leaves = [tf.io.serialize_tensor(leaf) for leaf in tf.nest.flatten(x)]
    return tf.strings.to_hash_bucket_fast(tf.strings.join(leaves), KEYS)


def keyed(rows):
    """Pairs of the key and what the teacher reads, for each example."""

    def pair(element):
        x = teacher_inputs(inputs_of(element))
        return key(x), x

    return map_elements(rows, pair)


def shards(rows, shard_size):
    """Iterator over `(keys, inputs)` of each shard, as NumPy arrays.

    Args:
        rows: `tf.data.Dataset` of single examples.
        shard_size: Integer.

    Raises:
        ValueError: if examples have different sizes and no padding mask.
    """
    pairs = keyed(rows)
    x = pairs.element_spec[1]
    named_specs(x)
    if all(s.shape.is_fully_defined() for s in tf.nest.flatten(x)):
        pairs = pairs.batch(shard_size)
    elif isinstance(x, dict) and "padding_mask" in x:
        pairs = pairs.padded_batch(shard_size)
    else:
        raise ValueError(
            "Examples of different sizes need a 'padding_mask' among their "
            "inputs, to be told from their padding. Otherwise give all the "
            f"same static shape. Received: {x}"
        )
    return pairs.prefetch(1).as_numpy_iterator()


def check_same_inputs(found, expected):
    """Raises `CacheError` unless the data have the cache's inputs."""
    if found != expected:
        raise CacheError(
            "The data have other inputs than those the cache was written for. "
            f"Expected: {expected}. Received: {found}"
        )
