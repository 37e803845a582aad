"""What a user can put right, told in one paragraph."""

import contextlib


class UsageProblem(Exception):
    """Ends the program with exit code 2 and the message, no traceback."""


@contextlib.contextmanager
def as_usage_problem(*kinds, advice=""):
    """Turns exceptions of these kinds into a `UsageProblem`.

    Args:
        *kinds: Exception classes.
        advice: String, what to do, appended to the message.
    """
    try:
        yield
    except kinds as error:
        text = " ".join(str(error).split()) or type(error).__name__
        if advice:
            text = f"{text.removesuffix('.')}. {advice}"
        raise UsageProblem(text) from error
