"""Files that are either whole or absent, and one writer for a folder."""

import contextlib
import hashlib
import os
import uuid


class CacheError(ValueError):
    """A cache that cannot be used, or that does not belong to what is asked."""


def checksum(path):
    """SHA-256 of a file, as a hexadecimal string."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def atomic(path):
    """Yields a temporary path that becomes `path` if nothing is raised.

    What `path` names is on the disk, whole, before it has this name.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        yield temporary
        _sync(temporary)
        os.replace(temporary, path)
        _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_leftovers(folder):
    """Removes the temporary files of a writer that was killed."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def lock(folder):
    """Holds `folder` for one writer; a killed one holds it no more.

    Raises:
        CacheError: if another writer holds it.
    """
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CacheError(
                f"Another writer is at work on the cache {str(folder)!r}. "
                "Wait for it, or write to another path"
            ) from None
        yield
    finally:
        os.close(descriptor)
