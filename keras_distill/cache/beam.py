"""`write` on many machines or processes, as an Apache Beam pipeline."""

import functools

import tensorflow as tf

from keras_distill import _beam
from keras_distill.cache import elements
from keras_distill.cache.folders import lock
from keras_distill.cache.writer import begin
from keras_distill.cache.writer import finish_shard
from keras_distill.cache.writer import prepare
from keras_distill.cache.writer import write


class ShardWriter:
    """Writes single shards; each process builds teacher and data once.

    Args:
        make_teacher: Function without arguments.
        make_dataset: Function without arguments.
        path: String, a folder that all workers share.
        options: Dict, further arguments of `write`.
    """

    def __init__(self, make_teacher, make_dataset, path, options):
        self.make_teacher = make_teacher
        self.make_dataset = make_dataset
        self.path = path
        self.options = options

    def __getstate__(self):
        return {k: v for k, v in vars(self).items() if k != "job"}

    @functools.cached_property
    def job(self):
        return prepare(
            self.make_teacher(), self.make_dataset(), self.path, **self.options
        )

    def __call__(self, number):
        size = self.job.labeller.layout.shard_size
        rows = self.job.rows.skip(number * size).take(size)
        keys, inputs = next(elements.shards(rows, size))
        if not self.job.labeller.features:
            self.job.labeller.describe(inputs)
        return finish_shard(self.job, number, keys, inputs)["examples"]


def write_with_beam(
    make_teacher, make_dataset, path, pipeline_flags=(), **options
):
    """Writes the same files as `kd.cache.write`, in many processes.

    Each worker builds the teacher and the data itself, reads the shards it is
    given and labels them. When all are there, `kd.cache.write` compares them
    with the data and writes the manifest. A pipeline that was stopped
    continues, as `write` does.

    Args:
        make_teacher: Function without arguments that returns the teacher; it
            must be importable by the workers.
        make_dataset: Likewise for the `tf.data.Dataset`. A worker skips to
            its shards, so the data should be cheap to read.
        path: String or path of a folder that all workers can write to.
        pipeline_flags: List of Beam's own flags, such as
            `["--runner=FlinkRunner"]` or `["--direct_num_workers=4",
            "--direct_running_mode=multi_processing"]`. Defaults to Beam's
            DirectRunner in one process.
        **options: Further arguments of `kd.cache.write`.

    Returns:
        `kd.cache.Manifest`.

    Raises:
        ImportError: if Apache Beam is not installed.
        ValueError: as `kd.cache.write`.
    """
    _beam.require()
    writer = ShardWriter(make_teacher, make_dataset, str(path), options)
    with lock(writer.job.folder):
        _beam.run(writer, _begun(writer.job), pipeline_flags)
    return write(make_teacher(), make_dataset(), path, **options)


def _begun(job):
    """Begins the cache and gives the numbers of its shards."""
    size = job.labeller.layout.shard_size
    first = next(elements.shards(job.rows.take(size), size), None)
    if first is None:
        raise ValueError("`make_dataset` must give at least one example")
    begin(job, first[1])
    count = job.rows.cardinality()
    if count == tf.data.UNKNOWN_CARDINALITY:
        count = job.rows.reduce(tf.constant(0, "int64"), lambda n, *_: n + 1)
    return list(range(-(-int(count) // size)))
