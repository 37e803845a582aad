"""Which variants of a test CI runs; `pytest -m large` runs the others, too."""

import pytest


def exhaustive(value):
    """A parameter of a test, or a tuple of them, that CI does not run."""
    values = value if isinstance(value, tuple) else (value,)
    marks = [pytest.mark.large, pytest.mark.exhaustive]
    return pytest.param(*values, marks=marks)


def in_ci(values, *chosen):
    """Parameters of a test, all but `chosen` marked as exhaustive."""
    assert all(value in values for value in chosen), chosen
    return [value if value in chosen else exhaustive(value) for value in values]
