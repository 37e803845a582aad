"""`attach`: stored signals beside the data they belong to."""

import os

import keras
import numpy as np
import tensorflow as tf

from keras_distill._files import file_hash
from keras_distill._masks import padding_mask
from keras_distill.cache import elements
from keras_distill.cache import records
from keras_distill.cache.folders import CacheError
from keras_distill.cache.folders import folder_of
from keras_distill.cache.manifests import Manifest
from keras_distill.cache.manifests import as_json
from keras_distill.cache.manifests import data_fingerprint
from keras_distill.cache.manifests import teacher_fingerprint
from keras_distill.inputs import with_signal
from keras_distill.teachers import Teacher

ANY = object()  # None are settings, too.
ORDER_CHECKED = 256


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
            Optional; None are settings, too.

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
    folder = folder_of(path)
    manifest = _loaded(folder)
    if teacher is not None:
        _check_teacher(manifest, Teacher(teacher), folder)
    _check_settings(manifest, settings)
    _check_files(manifest, folder)
    rows = _single_examples(dataset, manifest)
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
    if settings is ANY:
        return
    expected, settings = manifest.identity["settings"], as_json(settings)
    if settings != expected:
        raise CacheError(
            "The cache was written with other settings. Expected: "
            f"settings={expected!r}. Received: settings={settings!r}"
        )


def _check_files(manifest, folder):
    """Raises `CacheError` unless the shards are what was written."""
    for shard in manifest.shards:
        damage = _damage(folder / shard["file"], shard)
        if damage:
            raise CacheError(
                f"The shard {shard['file']} of the cache {str(folder)!r} "
                f"{damage}. Remove it and call `kd.cache.write` again, which "
                "restores it"
            )


def _damage(path, shard):
    """What is wrong with a shard, in words; an empty string for nothing."""
    if not os.path.lexists(path):
        return "is missing"
    if not path.is_file():
        return "is no file"
    size = path.stat().st_size
    if size != shard["bytes"]:
        return (
            f"is truncated or altered. Expected: {shard['bytes']} bytes. "
            f"Received: {size}"
        )
    try:
        altered = file_hash(path) != shard["sha256"]
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "was altered: its checksum differs" if altered else ""


def _single_examples(dataset, manifest):
    """`dataset` without batches, if it has the inputs of the cache."""
    x = elements.teacher_inputs(elements.inputs_of(dataset.element_spec))
    found, expected = elements.named_specs(x), manifest.identity["inputs"]
    # In batches each input has one axis more.
    one_more = {
        name: {**spec, "rank": spec["rank"] + 1}
        for name, spec in expected.items()
    }
    if found == one_more:
        return dataset.unbatch()
    elements.check_same_inputs(found, expected)
    return dataset


def _paths(manifest, folder):
    return [str(folder / shard["file"]) for shard in manifest.shards]


def _stored_keys(files):
    stored = tf.data.TFRecordDataset(files)
    return stored.map(lambda record: records.parse(record, [])[0])


def _check_data(manifest, folder, rows):
    """Raises `CacheError` unless these are the data, in the same order."""
    size = manifest.identity["layout"]["shard_size"]
    keys = elements.map_elements(elements.keyed(rows), lambda pair: pair[0])
    # Fingerprints of whole shards: only where one differs are its keys read.
    count = 0
    for number, found in enumerate(keys.batch(size).as_numpy_iterator()):
        count += len(found)
        if number < len(manifest.shards):
            expected = manifest.shards[number]
            if data_fingerprint(found) != expected["data"]:
                _raise_difference(manifest, folder, number * size, found)
    if count != manifest.examples:
        raise CacheError(
            f"The cache {str(folder)!r} holds other data: "
            f"{manifest.examples} examples. Received: {count}"
        )
    # A shuffled set gives other examples when it is read a second time; the
    # first ones are enough to tell.
    start = np.fromiter(keys.take(ORDER_CHECKED).as_numpy_iterator(), "int64")
    stored = _stored_keys(_paths(manifest, folder)).take(ORDER_CHECKED)
    if not np.array_equal(start, list(stored.as_numpy_iterator())):
        raise CacheError(
            "The data have another order each time they are read. Shuffle "
            "what `kd.cache.attach` returns instead of what it gets"
        )


def _raise_difference(manifest, folder, first, found):
    """Raises the `CacheError` for data that differ in a shard."""
    stored = _stored_keys(_paths(manifest, folder))
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


def _with_tuples(structure):
    """JSON's lists as the tuples they were."""
    if isinstance(structure, dict):
        return {name: _with_tuples(value) for name, value in structure.items()}
    if isinstance(structure, list):
        return tuple(_with_tuples(value) for value in structure)
    return structure


def _width(x):
    """Tokens of one example, padding included."""
    mask = padding_mask(x)
    if mask is None:
        return 0
    return mask.shape[0] or tf.shape(mask)[0]


def _attached(manifest, folder, rows):
    features = manifest.described()
    structure = _with_tuples(manifest.structure)

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
        # Nothing reads an assertion's result: without this the graph of the
        # data would drop it.
        with tf.control_dependencies([same]):
            length = tf.identity(length)
        width = _width(read)
        signal = keras.tree.map_structure(
            lambda name: features[name].decode(parts, length, width),
            structure,
        )
        joined = with_signal(elements.student_inputs(x), signal)
        return (joined, *element[1:]) if isinstance(element, tuple) else joined

    stored = tf.data.TFRecordDataset(_paths(manifest, folder))
    pairs = tf.data.Dataset.zip(rows, stored)
    attached = elements.map_elements(pairs, lambda pair: join(*pair))
    # `zip` ends with the shorter one: data that end early would end an epoch
    # without a word. This says so, and tells `fit` the length.
    count = tf.data.experimental.assert_cardinality(manifest.examples)
    return attached.apply(count)
