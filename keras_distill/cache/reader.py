"""`attach`: stored signals beside the data they belong to."""

import pathlib

import keras
import numpy as np
import tensorflow as tf

from keras_distill.cache import elements
from keras_distill.cache import records
from keras_distill.cache._files import CacheError
from keras_distill.cache._files import checksum
from keras_distill.cache.manifests import Manifest
from keras_distill.cache.manifests import data_fingerprint
from keras_distill.cache.manifests import plain
from keras_distill.cache.manifests import teacher_fingerprint
from keras_distill.teachers import Teacher

ANY = "any"
START = 256


def attach(dataset, path, teacher=None, settings=ANY):
    """Puts the stored signals of a teacher beside the data it labelled.

    Before anything is returned, the files are compared with their checksums,
    and the data are read once and compared with the cache, example by
    example: no teacher runs, so this costs little beside an epoch. While
    training reads the data each example is compared again, so that data which
    change their order from one epoch to the next cannot get the signals of
    other examples.

    Args:
        dataset: `tf.data.Dataset` as it was for `write`: the same examples in
            the same order, batched or not. Labels may differ, and with
            `x = {"teacher": ..., "student": ...}` so may what the student
            reads.
        path: String or path of the cache.
        teacher: The teacher, to make sure that the cache is its own.
            Optional.
        settings: The settings that the cache must have been written with.
            Optional.

    Returns:
        `tf.data.Dataset` of single examples, to be shuffled and batched. `x`
        is `{"student": ..., "teacher_signal": {"logits": ..., ...}}`, which a
        `kd.Distiller` without teacher takes; the rest is as it was. Floats
        are float32. Sparse logits are a dict of `"indices"` and
        `"log_probabilities"`, as `kd.cache.sparse_forward_kl` takes them.
        What belongs to tokens is 0 after the last real token.

    Raises:
        CacheError: if the cache is not complete, a file is missing, truncated
            or altered, or if the cache belongs to another teacher, other
            data, another order or other settings.
        ValueError: if an argument is not as described.

    Example:

    >>> import tempfile
    >>> from keras_distill.cache import write
    >>> teacher = keras.Sequential(
    ...     [keras.Input((4,)), keras.layers.Dense(2)])
    >>> rows = tf.data.Dataset.from_tensor_slices(np.ones((6, 4), "float32"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     manifest = write(teacher, rows, folder)
    ...     x = next(iter(attach(rows, folder).shuffle(6).batch(3)))
    >>> tuple(x["teacher_signal"]["logits"].shape)
    (3, 2)
    """
    elements.check_dataset(dataset)
    folder = pathlib.Path(path)
    manifest = _loaded(folder)
    if teacher is not None:
        _check_teacher(manifest, Teacher(teacher), folder)
    _check_settings(manifest, settings)
    _check_files(manifest, folder)
    rows = _rows(dataset, manifest)
    _check_data(manifest, folder, rows)
    return _attached(manifest, folder, rows)


def _loaded(folder):
    manifest = Manifest.load(folder)
    if manifest is None or not manifest.complete:
        state = "There is no cache" if manifest is None else "The cache is not"
        what = "" if manifest is None else " complete"
        raise CacheError(
            f"{state}{what} in {str(folder)!r}. Call `kd.cache.write` with "
            "this path first; it continues where it was stopped"
        )
    return manifest


def _check_teacher(manifest, teacher, folder):
    found = teacher_fingerprint(teacher)
    if found != manifest.identity["teacher"]:
        raise CacheError(
            f"The cache {str(folder)!r} belongs to another teacher: the "
            "weights differ. Expected: "
            f"{manifest.identity['teacher']}. Received: {found}. Write a "
            "cache for this teacher"
        )


def _check_settings(manifest, settings):
    if isinstance(settings, str) and settings == ANY:
        return
    expected, settings = manifest.identity["settings"], plain(settings)
    if settings != expected:
        raise CacheError(
            "The cache was written with other settings. Expected: "
            f"settings={expected!r}. Received: settings={settings!r}"
        )


def _check_files(manifest, folder):
    """Raises `CacheError` unless the shards are what was written."""
    remedy = "Remove it and call `kd.cache.write` again, which restores it"
    for shard in manifest.shards:
        path = folder / shard["file"]
        if not path.exists():
            raise CacheError(
                f"The shard {shard['file']} of the cache {str(folder)!r} is "
                "missing. Call `kd.cache.write` again, which restores it"
            )
        size = path.stat().st_size
        if size != shard["bytes"]:
            raise CacheError(
                f"The shard {shard['file']} of the cache {str(folder)!r} is "
                f"truncated or altered. Expected: {shard['bytes']} bytes. "
                f"Received: {size}. {remedy}"
            )
        if checksum(path) != shard["sha256"]:
            raise CacheError(
                f"The shard {shard['file']} of the cache {str(folder)!r} was "
                f"altered: its checksum differs. {remedy}"
            )


def _rows(dataset, manifest):
    """Single examples, if the data have the inputs of the cache."""
    x = elements.teacher_inputs(elements.inputs_of(dataset.element_spec))
    found, expected = elements.named_specs(x), manifest.identity["inputs"]
    one_more = {
        name: {**spec, "rank": spec["rank"] + 1}
        for name, spec in expected.items()
    }
    if found == one_more:
        return dataset.unbatch()
    elements.check_same_inputs(found, expected)
    return dataset


def _files(manifest, folder):
    return [str(folder / shard["file"]) for shard in manifest.shards]


def _stored_keys(files):
    stored = tf.data.TFRecordDataset(files)
    return stored.map(lambda record: records.parse(record, [])[0])


def _check_data(manifest, folder, rows):
    """Raises `CacheError` unless these are the data, in the same order."""
    size = manifest.identity["layout"]["shard_size"]
    keys = elements.mapped(elements.keyed(rows), lambda pair: pair[0])
    count = 0
    for number, found in enumerate(keys.batch(size).as_numpy_iterator()):
        count += len(found)
        if number < len(manifest.shards):
            expected = manifest.shards[number]
            if data_fingerprint(found) != expected["data"]:
                _explain(manifest, folder, number * size, found)
    if count != manifest.examples:
        raise CacheError(
            f"The cache {str(folder)!r} holds other data: "
            f"{manifest.examples} examples. Received: {count}"
        )
    start = np.fromiter(keys.take(START).as_numpy_iterator(), "int64")
    stored = _stored_keys(_files(manifest, folder)).take(START)
    if not np.array_equal(start, list(stored.as_numpy_iterator())):
        raise CacheError(
            "The data have another order each time they are read. Shuffle "
            "what `kd.cache.attach` returns instead of what it gets"
        )


def _explain(manifest, folder, first, found):
    """Raises the `CacheError` for data that differ in a shard."""
    stored = _stored_keys(_files(manifest, folder))
    expected = np.fromiter(
        stored.skip(first).take(len(found)).as_numpy_iterator(), "int64"
    )
    same = expected == found[: len(expected)]
    place = int(np.argmin(same)) if not same.all() else len(expected)
    if place == len(expected) < len(found):
        raise CacheError(
            f"The cache {str(folder)!r} holds other data: it ends after "
            f"{first + place} examples, the data go on"
        )
    if place == len(found):
        raise CacheError(
            f"The cache {str(folder)!r} holds other data: "
            f"{manifest.examples} examples. Received: {first + place}"
        )
    elsewhere = any(int(k) == found[place] for k in stored.as_numpy_iterator())
    reason = (
        "is at another place in it: the order differs. Pass the data in the "
        "order they had, and shuffle what `kd.cache.attach` returns"
        if elsewhere
        else "is not in it. Pass the data it was written for, or write a "
        "cache for these"
    )
    raise CacheError(
        f"The cache {str(folder)!r} belongs to other data: example "
        f"{first + place} {reason}"
    )


def _tuples(structure):
    """JSON's lists as the tuples they were."""
    if isinstance(structure, dict):
        return {name: _tuples(value) for name, value in structure.items()}
    if isinstance(structure, list):
        return tuple(_tuples(value) for value in structure)
    return structure


def _width(x):
    """Tokens of one example, padding included."""
    mask = x.get("padding_mask") if isinstance(x, dict) else None
    if mask is None:
        return 0
    return mask.shape[0] or tf.shape(mask)[0]


def _attached(manifest, folder, rows):
    features = manifest.described()
    structure = _tuples(manifest.structure)

    def join(element, record):
        x = elements.inputs_of(element)
        read = elements.teacher_inputs(x)
        key, length, parts = records.parse(record, features.values())
        same = tf.debugging.assert_equal(
            elements.key(read),
            key,
            "The data came in another order than the cache was written for. "
            "Shuffle what `kd.cache.attach` returns instead of what it gets",
        )
        with tf.control_dependencies([same]):
            length = tf.identity(length)
        width = _width(read)
        signal = keras.tree.map_structure(
            lambda name: features[name].decode(parts, length, width),
            structure,
        )
        joined = {
            "student": elements.student_inputs(x),
            "teacher_signal": signal,
        }
        return (joined, *element[1:]) if isinstance(element, tuple) else joined

    stored = tf.data.TFRecordDataset(_files(manifest, folder))
    pairs = tf.data.Dataset.zip(rows, stored)
    attached = elements.mapped(pairs, lambda pair: join(*pair))
    count = tf.data.experimental.assert_cardinality(manifest.examples)
    return attached.apply(count)
