"""Keeps TensorFlow's native log messages off the user's screen, in a file."""

import contextlib
import faulthandler
import logging
import os
import pathlib
import sys
import tempfile


def before_import():
    """Sets what TensorFlow reads while it is imported, and its warnings.

    Those are for developers: a few lengths mean a few traces.
    """
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@contextlib.contextmanager
def kept():
    """Sends what C++ writes to standard error into a file of its own.

    Some messages come before TensorFlow knows its log level; others are the
    last that a process says, of memory that ran out or a check that failed.
    The file is removed when all went well. Where the process is aborted, the
    Python stack still goes to the screen.

    Yields:
        Path of the file.
    """
    number, name = tempfile.mkstemp(prefix="keras-distill-", suffix=".log")
    os.close(number)
    path = pathlib.Path(name)
    with native_messages_to(path) as screen:
        faulthandler.enable(screen)
        try:
            yield path
            path.unlink()
        finally:
            faulthandler.disable()


def call(function, log):
    """Calls a function from a frame that has the log's name.

    A process that C++ aborts runs no Python any more. What it still says is
    the stack, with the file of each frame: there the user finds the log.

    Args:
        function: Callable without arguments.
        log: Path.
    """
    code = compile("function()", f"{log}, the log of TensorFlow", "eval")
    return eval(code, {"function": function})


@contextlib.contextmanager
def native_messages_to(path):
    """Sends what C++ writes to standard error into a file.

    Python's standard error stays where it is.

    Args:
        path: Path of the file, which is appended to.

    Yields:
        File: standard error, as Python writes to it.
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
                yield stream
            finally:
                os.dup2(screen, 2)
    finally:
        os.close(log)
        os.close(screen)
