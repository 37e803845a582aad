"""Keeps TensorFlow's native log messages off the user's screen."""

import contextlib
import logging
import os
import sys


def before_import():
    """Sets what TensorFlow reads while it is imported, and its warnings.

    Those are for developers: a few lengths mean a few traces.
    """
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@contextlib.contextmanager
def native_messages_to(path):
    """Sends what C++ writes to standard error into a file.

    Some messages come before TensorFlow knows its log level. Python's
    standard error stays where it is.

    Args:
        path: Path of the file, which is appended to.
    """
    sys.stderr.flush()
    screen = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        with (
            os.fdopen(os.dup(screen), "w", buffering=1) as stream,
            contextlib.redirect_stderr(stream),
        ):
            os.dup2(log, 2)
            try:
                yield
            finally:
                os.dup2(screen, 2)
    finally:
        os.close(log)
        os.close(screen)
