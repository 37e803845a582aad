"""Which variants of a large test CI runs; `pytest -m large` runs them all."""

import pytest


def exhaustive(value):
    """A parameter of a test with which CI does not run it."""
    return pytest.param(value, marks=pytest.mark.exhaustive)


def in_ci(values, *chosen):
    """Parameters of a test, all but `chosen` marked as exhaustive."""
    assert all(value in values for value in chosen), chosen
    return [value if value in chosen else exhaustive(value) for value in values]
