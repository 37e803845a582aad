"""A cache is whole and belongs to what is asked, or it is refused."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tiny

from keras_distill import _files
from keras_distill import cache
from keras_distill.cache import labeller
from keras_distill.cache import writer

LAYOUT = cache.Layout(batch_size=4, shard_size=8)
ROWS = 19
X, Y = tiny.data(ROWS)


def dataset(x=X):
    return tf.data.Dataset.from_tensor_slices((x, Y[: len(x)]))


def write(path, teacher=None, x=X, **kwargs):
    teacher = teacher or tiny.mlp()
    options = {"layout": LAYOUT, "settings": {"vocabulary": 5}}
    return cache.write(teacher, dataset(x), path, **options | kwargs)


def contents(folder):
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.name != _files.LOCK
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("written")
    write(path)
    return contents(path)


@pytest.fixture
def path(tmp_path, written):
    """A complete cache that a test may spoil."""
    for name, data in written.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


class Stopped(Exception):
    """What a writer raises in the middle of its work."""


@pytest.mark.parametrize("batch", [0, 3, 4])
def test_a_stopped_writer_continues(tmp_path, monkeypatch, written, batch):
    """Stopped before one of the five batches: the same bytes in the end."""
    teacher = tiny.mlp()
    make, passes = labeller.compile_reading, []

    def stopping(*args):
        run = make(*args)

        def stop(inputs):
            if len(passes) == batch:
                raise Stopped
            passes.append(1)
            return run(inputs)

        return stop

    with monkeypatch.context() as patch:
        patch.setattr(labeller, "compile_reading", stopping)
        with pytest.raises(Stopped):
            write(tmp_path, teacher)
    finished = batch // 2  # Of two batches each.
    assert len(list(tmp_path.glob("shard-*"))) == finished
    with pytest.raises(cache.CacheError, match="not complete.*continues"):
        cache.attach(dataset(), tmp_path)
    with tiny.passes(teacher.get_layer("hidden")) as counter:
        write(tmp_path, teacher)
        assert counter.executed == 5 - 2 * finished
    assert contents(tmp_path) == written


def test_stopped_while_it_writes_a_file(tmp_path, monkeypatch, written):
    """Half a shard, and the temporary file that a killed writer leaves."""
    serialise, calls = writer.records.serialise, []

    def failing(*args):
        calls.append(1)
        if len(calls) == 12:
            raise Stopped
        return serialise(*args)

    with monkeypatch.context() as patch:
        patch.setattr(writer.records, "serialise", failing)
        with pytest.raises(Stopped):
            write(tmp_path)
    assert sorted(contents(tmp_path)) == [
        "manifest.json",
        "shard-00000.tfrecord",
    ]
    draft = tmp_path / f"{_files.DRAFT}0"
    draft.mkdir()
    (draft / "shard-00001.tfrecord").write_bytes(b"half")
    write(tmp_path)
    assert contents(tmp_path) == written


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="Linux")
def test_a_full_disk(tmp_path, monkeypatch, written):
    """Told by name, drafts removed; the next call continues."""
    full, calls = tf.io.TFRecordWriter, []

    def third(path):
        calls.append(path)
        return full("/dev/full" if len(calls) == 3 else path)

    with monkeypatch.context() as patch:
        patch.setattr(tf.io, "TFRecordWriter", third)
        with pytest.raises(OSError, match=f"no room left.*{tmp_path.name}"):
            write(tmp_path)
    assert len(list(tmp_path.glob("shard-*"))) == 2
    assert not list(tmp_path.glob(f"{_files.DRAFT}*"))
    write(tmp_path)
    assert contents(tmp_path) == written


def test_a_complete_cache_is_not_written_again(path, written):
    teacher = tiny.mlp()
    with tiny.passes(teacher.get_layer("hidden")) as counter:
        write(path, teacher)
        assert counter.executed == 0
    assert contents(path) == written


def test_two_writers(tmp_path):
    with (
        _files.lock(tmp_path),
        pytest.raises(cache.CacheError, match="Another writer is at work"),
    ):
        write(tmp_path)
    write(tmp_path)


def changed_teacher():
    teacher = tiny.mlp()
    bias = teacher.get_layer("logits").bias
    bias.assign(np.nextafter(bias.numpy(), np.float32(1)))
    return teacher


OTHERS = {
    "teacher": ({"teacher": changed_teacher()}, "another `teacher`"),
    "dtype": ({"dtype": "float32"}, "another `dtype`"),
    "logits": ({"logits": cache.TopK(1)}, "another `logits`"),
    "settings": ({"settings": {}}, "another `settings`"),
    "layout": ({"layout": cache.Layout(2, 8)}, "another `layout`"),
    "signals": ({"states": {"h": "hidden"}}, "other signals"),
    "inputs": ({"x": X.astype("float64")}, "another `inputs`"),
    "data": ({"x": X + 1}, "holds other examples"),
    "order": ({"x": X[::-1]}, "holds other examples"),
    "fewer data": ({"x": X[:8]}, "holds more"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_cache_is_not_continued_for_something_else(path, written, other):
    arguments, message = OTHERS[other]
    with pytest.raises(cache.CacheError, match=message):
        write(path, **arguments)
    assert contents(path) == written


def test_a_cache_continues_when_data_are_added(path, tmp_path_factory):
    more = np.concatenate([X, X[:2] + 1])
    data = tf.data.Dataset.from_tensor_slices(more)
    kept = (path / "shard-00000.tfrecord").stat().st_mtime_ns
    cache.write(
        tiny.mlp(), data, path, layout=LAYOUT, settings={"vocabulary": 5}
    )
    assert (path / "shard-00000.tfrecord").stat().st_mtime_ns == kept
    assert cache.attach(data, path).cardinality() == len(more)


def flip(file, place):
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(bytes(data))


def truncate(file):
    file.write_bytes(file.read_bytes()[:-9])


FAULTS = {
    "a flipped byte": (lambda f: flip(f, 40), "was altered: its checksum"),
    "a flipped last byte": (lambda f: flip(f, -1), "was altered"),
    "truncated": (truncate, "truncated or altered. Expected: .* bytes"),
    "empty": (lambda f: f.write_bytes(b""), "truncated or altered"),
    "missing": (lambda f: f.unlink(), "is missing"),
}


@pytest.mark.parametrize(
    ("fault", "number"), list(zip(FAULTS, [0, 2, 1, 2, 0]))
)
def test_damaged_shards(path, written, fault, number):
    damage, message = FAULTS[fault]
    damage(path / writer.shard_name(number))
    with pytest.raises(cache.CacheError, match=message) as caught:
        cache.attach(dataset(), path)
    assert writer.shard_name(number) in str(caught.value)
    assert "`kd.cache.write` again" in str(caught.value)
    write(path)
    assert contents(path) == written


def test_two_shards_in_each_others_place(path):
    first, second = (path / writer.shard_name(n) for n in (0, 1))
    data = first.read_bytes(), second.read_bytes()
    second.write_bytes(data[0])
    first.write_bytes(data[1])
    with pytest.raises(cache.CacheError, match="altered"):
        cache.attach(dataset(), path)


def permuted(places):
    order = np.arange(ROWS)
    order[list(places)] = order[list(reversed(places))]
    return X[order]


OTHER_DATA = {
    "reversed": (X[::-1], "example 0 is at another place"),
    "two changed places": (permuted([3, 5]), "example 3 is at another place"),
    "over two shards": (permuted([7, 8]), "example 7 is at another place"),
    "the last two": (permuted([17, 18]), "example 17 is at another place"),
    "one is new": (np.where(X[9] == X, 0, X), "example 9 is not in it"),
    "shorter by a shard": (X[:16], "19 examples. Received: 16"),
    "shorter": (X[:18], "19 examples. Received: 18"),
    "longer": (np.concatenate([X, X[:1]]), "ends after 19 examples"),
    "other columns": (X[:, ::-1], "example 0 is not in it"),
    "other shapes": (X[:, :2], "not in it"),
    "other dtype": (X.astype("float64"), "other inputs.*float32.*float64"),
}


@pytest.mark.parametrize("case", OTHER_DATA)
def test_other_data(path, case):
    x, message = OTHER_DATA[case]
    rows = tf.data.Dataset.from_tensor_slices(x)
    with pytest.raises(cache.CacheError, match=message):
        cache.attach(rows, path)


def test_labels_may_differ(path):
    rows = tf.data.Dataset.from_tensor_slices((X, Y[::-1].copy()))
    assert len(list(cache.attach(rows, path))) == ROWS


def test_data_that_change_their_order_are_refused(path):
    """In the order of the cache the first time, shuffled after that."""
    passes = []

    def rows():
        passes.append(1)
        return iter(X if len(passes) == 1 else X[::-1])

    spec = tf.TensorSpec([tiny.FEATURES], "float32")
    data = tf.data.Dataset.from_generator(rows, output_signature=spec)
    with pytest.raises(cache.CacheError, match="another order each time"):
        cache.attach(data, path)


def test_data_that_change_later_stop_the_epoch(path):
    """The last two change places, after the cache was attached."""
    changed = []

    def rows():
        return iter(permuted([17, 18]) if changed else X)

    spec = tf.TensorSpec([tiny.FEATURES], "float32")
    data = tf.data.Dataset.from_generator(rows, output_signature=spec)
    attached = cache.attach(data, path)
    assert len(list(attached)) == ROWS
    changed.append(1)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="came in another order"
    ):
        list(attached)


def test_another_teacher(path):
    cache.attach(dataset(), path, teacher=tiny.mlp())
    with pytest.raises(cache.CacheError, match="belongs to another teacher"):
        cache.attach(dataset(), path, teacher=changed_teacher())


def test_other_settings(path):
    cache.attach(dataset(), path, settings={"vocabulary": 5})
    with pytest.raises(cache.CacheError, match="other settings"):
        cache.attach(dataset(), path, settings=None)


def test_manifest_faults(path):
    file = path / "manifest.json"
    known = json.loads(file.read_text())
    assert known["complete"]
    assert known["examples"] == ROWS
    file.write_text(file.read_text()[:-20])
    with pytest.raises(cache.CacheError, match="is damaged"):
        cache.attach(dataset(), path)
    file.write_text(json.dumps(known | {"format": 0}))
    with pytest.raises(cache.CacheError, match="has format 0"):
        cache.attach(dataset(), path)
    file.unlink()
    with pytest.raises(cache.CacheError, match="There is no cache"):
        cache.attach(dataset(), path)
    with pytest.raises(cache.CacheError, match="shards but no manifest"):
        write(path)


def test_names_of_layers_do_not_count(path):
    """A teacher that was built later, under other names, is the same one."""
    teachers = tiny.mlp(), tiny.mlp()
    assert teachers[0].name != teachers[1].name
    for teacher in teachers:
        cache.attach(dataset(), path, teacher=teacher)


def test_settings_that_are_called_like_a_default(path):
    """`"any"` was taken for no settings."""
    with pytest.raises(cache.CacheError, match="other settings.*'any'"):
        cache.attach(dataset(), path, settings="any")
