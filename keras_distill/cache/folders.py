"""The folder of a cache: whether there can be one, and who writes to it."""

import contextlib
import pathlib
import stat

from keras_distill import _files
from keras_distill._text_files import file_mode
from keras_distill._text_files import shown_path


class CacheError(ValueError):
    """A cache that cannot be used, or that does not belong to what is asked."""


def folder_of(path):
    """The folder at `path`, which need not be there.

    Raises:
        CacheError: Something else is there.
        ValueError: Nothing can be there.
    """
    mode = file_mode(path)
    if mode is not None and not stat.S_ISDIR(mode):
        raise CacheError(
            "The path of a cache must be a folder, or new, and a file is "
            f"there. Pass another path. Received: path={shown_path(path)}"
        )
    return pathlib.Path(path)


def made_folder(path):
    """The folder at `path`, made where it is missing.

    Raises:
        CacheError: Something else is there, or it cannot be made.
        ValueError: Nothing can be there.
    """
    folder = folder_of(path)
    try:
        with _files.no_room_told(folder.parent):
            folder.mkdir(parents=True, exist_ok=True)
    except _files.NoRoomError:
        raise
    except OSError as error:
        raise CacheError(
            f"The folder of a cache cannot be made ({error.strerror}). Pass "
            f"another path. Received: path={shown_path(path)}"
        ) from error
    return folder


@contextlib.contextmanager
def lock(folder):
    """Holds the folder of a cache for one writer.

    Raises:
        CacheError: Another writer holds it.
    """
    try:
        with _files.lock(folder):
            yield
    except _files.FolderInUseError as error:
        raise CacheError(
            f"Another writer is at work on the cache {str(folder)!r}. "
            "Wait for it, or write to another path"
        ) from error
