"""Files that are whole or absent, hashes, versions, one writer."""

import errno
import json
import math
import os
import pathlib
import signal
import subprocess
import sys

import numpy as np
import pytest

from keras_distill import _files
from keras_distill._sealed import read_sealed
from keras_distill._sealed import write_sealed


class Stopped(Exception):
    """Stands for whatever ends a writer."""


def fail(complete, path, write, error=Stopped):
    """Writes a draft and raises `error` before it is whole."""
    with complete(path) as draft:
        write(draft)
        raise error


def test_a_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    events = []
    sync, replace = _files._sync, _files.os.replace

    def synced(path, flags):
        events.append(("sync", path.name))
        sync(path, flags)

    def replaced(old, new):
        events.append(("replace", new.name))
        replace(old, new)

    monkeypatch.setattr(_files, "_sync", synced)
    monkeypatch.setattr(_files.os, "replace", replaced)
    with _files.complete_file(tmp_path / "a.txt") as draft:
        draft.write_text("a")
        assert not (tmp_path / "a.txt").exists()
    assert events == [
        ("sync", "a.txt"),
        ("replace", "a.txt"),
        ("sync", tmp_path.name),
    ]


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_the_earlier_one_stays_until_the_new_one_is_whole(tmp_path, kind):
    path = tmp_path / "held"
    complete = getattr(_files, f"complete_{kind}")

    def write(draft, text):
        file = draft / "a" if kind == "folder" else draft
        file.write_text(text)

    with complete(path) as draft:
        write(draft, "old")
    before = _files.tree_hash(path)
    with pytest.raises(Stopped):
        fail(complete, path, lambda draft: write(draft, "half"))
    assert _files.tree_hash(path) == before
    with complete(path) as draft:
        write(draft, "new")
    assert _files.tree_hash(path) != before
    assert os.listdir(tmp_path) == ["held"]


FULL = {
    "the system": OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
    "a quota": OSError(errno.EDQUOT, os.strerror(errno.EDQUOT)),
    "a library": RuntimeError(f"w.h5; {os.strerror(errno.ENOSPC)} [Op:Save]"),
}


@pytest.mark.parametrize("case", FULL)
def test_a_full_disk(tmp_path, case):
    path = tmp_path / "below" / "a.txt"
    with pytest.raises(_files.NoRoomError, match="no room left.*Make room"):
        fail(_files.complete_file, path, pathlib.Path.touch, FULL[case])
    assert not os.listdir(tmp_path / "below")


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="Linux")
def test_a_disk_that_is_full_indeed(tmp_path):
    def write(draft):
        draft.symlink_to("/dev/full")
        draft.write_text("a")

    with pytest.raises(_files.NoRoomError, match=tmp_path.name):
        fail(_files.complete_file, tmp_path / "a.txt", write)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("value", [math.nan, math.inf, {1}])
def test_json_that_others_cannot_read_is_not_written(tmp_path, value):
    path = tmp_path / "a.json"
    _files.write_json(path, {"a": 1})
    with pytest.raises(ValueError, match=r"a.json.*finite numbers"):
        _files.write_json(path, {"a": value})
    assert _files.read_json(path) == {"a": 1}


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"null null"]
)
def test_damaged_json(tmp_path, damage):
    (tmp_path / "a.json").write_bytes(damage)
    with pytest.raises(_files.DamagedFileError, match=r"a.json.*is damaged"):
        _files.read_json(tmp_path / "a.json")


def test_hashes_tell_what_differs():
    one = np.arange(6, dtype="int32")
    others = [one[::-1], one.reshape(2, 3), one.astype("int64"), one[:5]]
    hashes = {_files.content_hash([array]) for array in [one, *others]}
    assert len(hashes) == 5
    assert _files.content_hash([one]) == _files.content_hash([one[::-1][::-1]])
    assert _files.json_hash({"a": 1, "b": 2}) == _files.json_hash(
        json.loads('{"b": 2, "a": 1}')
    )


def test_sealed_files_are_what_was_written_or_nothing(tmp_path):
    path = tmp_path / "held.json"
    assert read_sealed(path) is None
    # As strings these keys have another order.
    write_sealed(path, {9: [0.5], 10: [0.25]})
    assert read_sealed(path) == {"9": [0.5], "10": [0.25]}
    whole = path.read_text()
    for damaged in (whole.replace("0.5", "0.6"), whole[:9], "[]", "{}"):
        path.write_text(damaged)
        assert read_sealed(path) is None


def test_the_hash_of_a_folder_counts_names_bytes_and_what_it_is_told(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"1")
    first = _files.tree_hash(tmp_path)
    (tmp_path / "out").write_bytes(b"2")
    assert _files.tree_hash(tmp_path) != first
    assert _files.tree_hash(tmp_path, [tmp_path / "a" / "b"]) == first
    (tmp_path / "a" / "b").write_bytes(b"3")
    assert _files.tree_hash(tmp_path, [tmp_path / "a" / "b"]) != first


def test_versions():
    found = _files.versions(["numpy", "no-such-package-here"])
    assert found == {"numpy": np.__version__}


HOLDER = """
import pathlib
import sys
import filelock
lock = filelock.FileLock(pathlib.Path(sys.argv[1]) / ".lock")
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_lock_dies_with_its_process(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout.readline() == "held\n"
        with (
            pytest.raises(_files.FolderInUseError, match="Another process"),
            _files.lock(tmp_path),
        ):
            pass
        os.kill(process.pid, signal.SIGKILL)
    with _files.lock(tmp_path):
        (tmp_path / f"{_files.DRAFT}x").mkdir()
        _files.remove_drafts(tmp_path)
    assert os.listdir(tmp_path) == [_files.LOCK]
