"""What a user can put right, told in one paragraph."""

import contextlib

LONGEST = 1200


class UsageError(ValueError):
    """An argument, a file or a folder is wrong; the message says what to do.

    The command line prints the message and ends with exit code 2. Whatever
    else is raised is a fault of this package, and keeps its traceback.

    Args:
        text: String, which becomes one paragraph. What was received may be a
            whole file: of a long text the beginning and the end are told.
    """

    def __init__(self, text):
        text = " ".join(text.split())
        if len(text) > LONGEST:
            text = f"{text[: LONGEST - 300]} [...] {text[-300:]}"
        super().__init__(text)


@contextlib.contextmanager
def as_usage_error(*kinds, advice=""):
    """Turns exceptions of these kinds into a `UsageError`.

    Args:
        *kinds: Exception classes.
        advice: String, what to do, appended to the message.
    """
    try:
        yield
    except UsageError:
        raise
    except kinds as error:
        text = str(error).rstrip() or type(error).__name__
        if advice:
            text = f"{text.removesuffix('.')}. {advice}"
        raise UsageError(text) from error
