"""`write`: the teacher runs once over the data, its signals go to disk."""

import dataclasses
import itertools
import os
import pathlib

import numpy as np
import tensorflow as tf
from google.protobuf import message as protobuf

from keras_distill._files import complete_file
from keras_distill._files import file_hash
from keras_distill._files import remove_drafts
from keras_distill.cache import elements
from keras_distill.cache import records
from keras_distill.cache.folders import CacheError
from keras_distill.cache.folders import lock
from keras_distill.cache.folders import made_folder
from keras_distill.cache.forms import FULL
from keras_distill.cache.forms import check_form
from keras_distill.cache.labeller import Labeller
from keras_distill.cache.layout import Layout
from keras_distill.cache.manifests import Manifest
from keras_distill.cache.manifests import as_json
from keras_distill.cache.manifests import data_fingerprint
from keras_distill.cache.manifests import feature_table
from keras_distill.cache.manifests import teacher_fingerprint
from keras_distill.cache.manifests import written_with
from keras_distill.teachers import Teacher


def write(
    teacher,
    dataset,
    path,
    logits=FULL,
    states=None,
    dtype="float16",
    settings=None,
    layout=None,
):
    """Runs the teacher once over `dataset` and stores what it says.

    The cache belongs to the teacher's weights and to what the teacher reads
    of each example, in this order; labels and sample weights do not count.
    A writer that was stopped continues when it is called again: shards that
    are finished stay as they are, and the others get the bytes they would
    have had. Memory holds one shard at a time.

    Args:
        teacher: `keras.Model` or `kd.Ensemble`; outputs logits.
        dataset: `tf.data.Dataset` of `(x, y)`, `(x, y, sample_weight)` or
            `x`, batched or not. With `x = {"teacher": ..., "student": ...}`
            the teacher reads its own entry. Its order must be the same each
            time: shuffle what `attach` returns instead.
        path: String or path of a folder.
        logits: `"full"`, or for many classes `kd.cache.TopK(k)` or
            `kd.cache.Sampled(draws)`; None for no logits.
        states: Dict, the name of a match to what it reads in the teacher: a
            tap, a layer, its path or an index into `kd.hidden_states`, or a
            pair of these.
        dtype: `"float16"`, `"bfloat16"` or `"float32"`, of what is stored.
        settings: What else the cache belongs to, such as the tokeniser's
            name and options: anything that JSON can hold. `attach` compares.
        layout: `kd.cache.Layout`: batches, lengths and the size of shards.

    Returns:
        `kd.cache.Manifest`, with `examples`, `bytes_per_token` and so on.

    Raises:
        ValueError: if an argument is not as described, or the teacher gives
            what is no number or is too large for `dtype`.
        CacheError: if the folder holds the cache of something else, or
            another writer is at work on it.

    Example:

    >>> import tempfile
    >>> import keras
    >>> teacher = keras.Sequential(
    ...     [keras.Input((4,)), keras.layers.Dense(2)])
    >>> rows = tf.data.Dataset.from_tensor_slices(np.ones((6, 4), "float32"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(teacher, rows, folder).examples
    6
    """
    job = prepare(
        teacher, dataset, path, logits, states, dtype, settings, layout
    )
    with lock(job.folder):
        return _write(job)


@dataclasses.dataclass(frozen=True)
class Job:
    """What there is to write.

    Args:
        labeller: `Labeller`.
        rows: `tf.data.Dataset` of single examples.
        folder: Path.
        identity: Dict, what the cache belongs to.
    """

    labeller: Labeller
    rows: tf.data.Dataset
    folder: pathlib.Path
    identity: dict


def prepare(
    teacher,
    dataset,
    path,
    logits=FULL,
    states=None,
    dtype="float16",
    settings=None,
    layout=None,
):
    """Checks the arguments of `write` and gives a `Job`."""
    check_form(logits)
    records.check_dtype(dtype)
    elements.check_dataset(dataset)
    layout = Layout() if layout is None else layout
    settings = as_json(settings)
    holder = Teacher(teacher)
    if not holder.models:
        raise ValueError(
            "`teacher` must be a `keras.Model` or an `Ensemble` of models. "
            f"Received: teacher={teacher!r}"
        )
    labeller = Labeller(holder, logits, states, dtype, layout)
    if elements.has_batches(dataset, holder.models, layout.batched):
        dataset = dataset.unbatch()
    folder = made_folder(path)
    identity = {
        "teacher": teacher_fingerprint(holder),
        "inputs": inputs_of_cache(dataset),
        "logits": getattr(logits, "identity", {"form": logits}),
        "dtype": dtype,
        "layout": layout.identity,
        "versions": written_with(),
        "settings": settings,
    }
    if labeller.places:
        identity["states"] = labeller.places
    return Job(labeller, dataset, folder, identity)


def inputs_of_cache(rows):
    """Names, dtypes and ranks of what the teacher reads of one example."""
    x = elements.teacher_inputs(elements.inputs_of(rows.element_spec))
    return elements.named_specs(x)


def _write(job):
    folder = job.folder
    remove_drafts(folder)
    stream = elements.shards(job.rows, job.labeller.layout.shard_size)
    first = next(stream, None)
    if first is None:
        raise ValueError("`dataset` must hold at least one example")
    manifest = begin(job, first[1])
    shards = []
    for keys, inputs in itertools.chain([first], stream):
        shards.append(finish_shard(job, len(shards), keys, inputs))
    # A cache of more data whose beginning is the same would fit until here.
    after = folder / shard_name(len(shards))
    if after.exists():
        raise CacheError(
            f"The data end after {len(shards)} shards, the cache "
            f"{str(folder)!r} holds more. It was begun with other data: "
            "remove the folder, or write to another one"
        )
    manifest = dataclasses.replace(manifest, shards=shards)
    manifest.save(folder)
    return manifest


def begin(job, inputs):
    """Says in the folder what it is for, if it is not known yet.

    Args:
        job: `Job`.
        inputs: Nested arrays, what the teacher reads of the first shard.

    Returns:
        `Manifest` without shards.

    Raises:
        CacheError: if the folder is for something else.
    """
    labeller, folder = job.labeller, job.folder
    labeller.describe(inputs)
    manifest = Manifest(
        identity=job.identity,
        structure=labeller.structure,
        features=feature_table(labeller.features),
    )
    known = Manifest.load(folder)
    if known is None:
        if (folder / shard_name(0)).exists():
            raise CacheError(
                f"{str(folder)!r} holds shards but no manifest. Remove the "
                "folder, or write to another one"
            )
        manifest.save(folder)
        return manifest
    check_identity(known, job.identity, folder)
    if as_json(manifest.structure) != known.structure:
        raise CacheError(
            f"The cache {str(folder)!r} was begun with other signals. "
            f"Expected: {known.structure}. Received: {manifest.structure}. "
            "Remove the folder, or write to another one"
        )
    return manifest


def finish_shard(job, number, keys, inputs):
    """A shard's entry in the manifest; written unless it was finished."""
    return finished_shard(job.folder, number, keys) or write_shard(
        job.labeller, job.folder, number, keys, inputs
    )


def check_identity(known, identity, folder):
    """Raises `CacheError` if a cache was begun for something else."""
    for name, expected in known.identity.items():
        if identity[name] != expected:
            raise CacheError(
                f"The cache {str(folder)!r} was begun with another "
                f"`{name}`. Expected: {expected}. Received: {identity[name]}. "
                "Remove the folder, or write to another one"
            )


def shard_name(number):
    """The file name of a shard."""
    return f"shard-{number:05d}.tfrecord"


def write_shard(labeller, folder, number, keys, inputs):
    """Runs the teacher over one shard and writes it, whole or not at all.

    Returns:
        What `describe_shard` gives.
    """
    first = number * labeller.layout.shard_size
    path = folder / shard_name(number)
    signals = labeller.rows(inputs, first)
    # Closed before it gets its name, or its last bytes would come later.
    with (
        complete_file(path) as draft,
        tf.io.TFRecordWriter(str(draft)) as writer,
    ):
        for key, (length, parts) in zip(keys, signals):
            writer.write(records.serialise(int(key), length, parts))
    return describe_shard(path)[0]


def finished_shard(folder, number, keys):
    """What is known of a shard that an earlier writer finished, or None.

    Raises:
        CacheError: if it holds other examples.
    """
    path = folder / shard_name(number)
    if not os.path.lexists(path):
        return None
    if not path.is_file():
        raise CacheError(
            f"{path.name} in the cache {str(folder)!r} is no file. Remove it "
            "and write the cache again, which restores it"
        )
    try:
        known, stored = describe_shard(path)
    # Damaged since, as the records' own checksums tell, or never of a cache:
    # written again.
    except (tf.errors.DataLossError, protobuf.DecodeError, IndexError):
        return None
    if len(stored) < len(keys) and np.array_equal(stored, keys[: len(stored)]):
        return None  # Cut short, or the data have grown: written again.
    if not np.array_equal(stored, keys):
        raise CacheError(
            f"The shard {path.name} of the cache {str(folder)!r} holds other "
            "examples than the data have there: it was begun with other data "
            "or another order. Remove the folder, or write to another one"
        )
    return known


def describe_shard(path):
    """A shard's entry in the manifest, read from its file, and its keys."""
    keys, tokens, signal_bytes = [], 0, 0
    for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        keys.append(features[records.KEY].int64_list.value[0])
        for name, feature in features.items():
            if name == records.TOKENS:
                tokens += feature.int64_list.value[0]
            elif name != records.KEY:
                signal_bytes += len(feature.bytes_list.value[0])
    known = {
        "file": path.name,
        "examples": len(keys),
        "tokens": tokens,
        "bytes": path.stat().st_size,
        "signal_bytes": signal_bytes,
        "sha256": file_hash(path),
        "data": data_fingerprint(keys),
    }
    return known, np.asarray(keys, "int64")
