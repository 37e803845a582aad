"""Which variants of a large test CI runs; `pytest -m large` runs them all."""

import pytest


def in_ci(values, *chosen):
    """Parameters of a test, all but `chosen` marked as exhaustive."""
    return [
        value
        if value in chosen
        else pytest.param(value, marks=pytest.mark.exhaustive)
        for value in values
    ]
