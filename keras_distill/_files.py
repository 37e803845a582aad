"""Files that are whole or absent, what they hold as a hash, and versions.

A file that has its name is complete and on the disk: whoever is killed, or
finds no room, leaves the earlier file or none. So what exists can be trusted
to be finished, and a run goes on from there.
"""

import contextlib
import errno
import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import tempfile

import filelock
import numpy as np

from keras_distill._errors import UsageError

DRAFT = ".draft-"
LOCK = ".lock"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
PACKAGES = (
    "keras-distill",
    "keras",
    "keras-hub",
    "tensorflow",
    "tensorflow-datasets",
    "jax",
    "numpy",
    "ai-edge-litert",
)


class NoRoomError(OSError, UsageError):
    """The disk, or the quota on it, is full."""


class FolderInUseError(OSError):
    """Another process writes to the folder."""


class DamagedFileError(ValueError):
    """A file that was written here does not hold what was written."""


@contextlib.contextmanager
def complete_file(path):
    """Gives a path to write to, which becomes `path` when all went well.

    Args:
        path: Path. Folders above it are made; what is there is replaced.

    Yields:
        Path of the same name in a folder of its own, so that writers which
        choose a format by the suffix choose the same. Gone afterwards.

    Raises:
        NoRoomError: The disk is full; it names the folder and what to do.

    Example:

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with complete_file(f"{folder}/a.txt") as draft:
    ...         _ = draft.write_text("whole")
    ...     print(os.listdir(folder), pathlib.Path(folder, "a.txt").read_text())
    ['a.txt'] whole
    """
    path = pathlib.Path(path)
    with drafts_beside(path) as folder:
        yield folder / path.name
        put_in_place(folder / path.name, path)


@contextlib.contextmanager
def complete_folder(path):
    """As `complete_file`, for a folder: made empty, to be filled."""
    path = pathlib.Path(path)
    with drafts_beside(path) as folder:
        draft = folder / path.name
        draft.mkdir()
        yield draft
        put_in_place(draft, path)


@contextlib.contextmanager
def drafts_beside(path):
    """Gives a folder on the disk of `path` that is gone afterwards."""
    path = pathlib.Path(path)
    with no_room_told(path.parent):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise UsageError(
                f"{str(path.parent)!r} must be a folder. Remove the file that "
                f"is in its way. Received: {error}"
            ) from error
        folder = tempfile.mkdtemp(prefix=DRAFT, dir=path.parent)
        try:
            yield pathlib.Path(folder)
        finally:
            shutil.rmtree(folder)


def put_in_place(draft, path):
    """Gives a draft its name, once its bytes are on the disk.

    Without the syncs a power cut may leave the new name on an empty file:
    systems write names and bytes in any order.

    Args:
        draft: Path of a file or folder, in a folder of `drafts_beside`.
        path: Path. What is there is replaced.
    """
    inside = draft.rglob("*") if draft.is_dir() else [draft]
    for file in inside:
        if file.is_file():
            _sync(file, os.O_RDWR)
    if path.is_dir() or (draft.is_dir() and path.exists()):
        # No call swaps two folders on every system: a kill between these
        # two lines leaves the old one among the drafts.
        os.replace(path, draft.with_name(f"{path.name}.replaced"))
    os.replace(draft, path)
    if os.name == "posix":  # Windows opens no folders.
        _sync(path.parent, os.O_RDONLY)


def _sync(path, flags):
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path):
    """Removes a file, or a folder with all that it holds, if it is there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def remove_drafts(folder):
    """Removes what killed writers left in a folder that is locked."""
    for draft in list(pathlib.Path(folder).rglob(f"{DRAFT}*")):
        remove(draft)


@contextlib.contextmanager
def no_room_told(folder):
    """Says of a full disk which one it is, and what to do.

    Libraries wrap the system's error in their own, so its text counts, too.

    Raises:
        NoRoomError: in place of whatever a full disk raised.
    """
    try:
        yield
    except NoRoomError:
        raise
    except Exception as error:
        number = getattr(error, "errno", None)
        told = [os.strerror(code) for code in NO_ROOM]
        if number not in NO_ROOM and not any(t in str(error) for t in told):
            raise
        raise NoRoomError(
            f"There is no room left to write to {str(folder)!r}. What was "
            "finished before is kept, the unfinished file is gone. Make room "
            "and start the same again, which continues, or choose a folder on "
            "another disk"
        ) from error


def write_text(path, text):
    """Writes a UTF-8 file that is complete or not there."""
    with complete_file(path) as draft:
        draft.write_text(text, encoding="utf-8")


def write_json(path, contents):
    """Writes a JSON file that is complete or not there.

    Raises:
        ValueError: `contents` hold what JSON cannot, NaN and infinity among
            it: other programs would refuse the file.
    """
    try:
        text = json.dumps(
            contents, indent=2, ensure_ascii=False, allow_nan=False
        )
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} must hold what JSON can: dicts, lists, strings and "
            f"finite numbers. Received: {error}"
        ) from error
    write_text(path, text + "\n")


def read_json(path):
    """The contents of a JSON file.

    Raises:
        FileNotFoundError: There is no such file.
        DamagedFileError: It holds no JSON, or is no file.
    """
    path = pathlib.Path(path)
    try:
        if os.path.lexists(path) and not path.is_file():
            raise ValueError("a folder, a pipe or a link to nothing")
        return json.loads(path.read_text(encoding="utf-8"))
    # RecursionError: thousands of brackets, which nothing here has written.
    except (ValueError, RecursionError) as error:
        raise DamagedFileError(
            f"{str(path)!r} is damaged: it should hold JSON. Received: "
            f"{error}. Remove it, so that it is made again"
        ) from error


@contextlib.contextmanager
def lock(folder):
    """Holds a folder for one writer; a killed one holds it no more.

    Args:
        folder: Path, which exists. It gets an empty file `.lock` that stays:
            to remove a held one would let two writers in.

    Raises:
        FolderInUseError: Another writer holds it, in this process or in one
            that runs at the same time.
    """
    held = filelock.FileLock(pathlib.Path(folder) / LOCK)
    with no_room_told(folder):
        try:
            held.acquire(timeout=0)
        except filelock.Timeout:
            raise FolderInUseError(
                f"Another process is writing to {str(folder)!r}. Wait for it, "
                "or choose another folder"
            ) from None
    try:
        yield
    finally:
        held.release()


def content_hash(parts):
    """SHA-256 of strings, bytes and arrays, one after the other.

    Args:
        parts: Iterable. Of an array its dtype and shape count, too.

    Returns:
        String of 64 hexadecimal digits.

    Example:

    >>> content_hash(["a", b"b"]) == content_hash(["ab"])
    True
    """
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            part = part.encode()
        elif not isinstance(part, bytes):
            part = np.ascontiguousarray(part)
            total.update(f"{part.dtype} {part.shape}".encode())
            part = part.tobytes()
        total.update(part)
    return total.hexdigest()


def json_hash(value):
    """SHA-256 of what JSON can hold; the order of keys does not count."""
    return content_hash([json.dumps(value, sort_keys=True)])


def file_hash(path):
    """SHA-256 of the bytes of a file."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def tree_hash(path, files=None):
    """SHA-256 of a file, or of files in a folder with their names.

    Args:
        path: Path.
        files: Sequence of paths below `path`, those that count. Defaults to
            all, at any depth.

    Returns:
        String of 64 hexadecimal digits.
    """
    path = pathlib.Path(path)
    if files is None:
        files = path.rglob("*") if path.is_dir() else [path]
    return content_hash(
        f"{file.relative_to(path)} {file_hash(file)}\n"
        for file in sorted(map(pathlib.Path, files))
        if file.is_file()
    )


def versions(packages=PACKAGES):
    """Dict from package to its version, of those that are installed."""
    found = {}
    for name in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found
