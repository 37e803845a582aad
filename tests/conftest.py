"""The same seeds and the same layer names for every test."""

import keras
import pytest


@pytest.fixture(autouse=True)
def seeds():
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)
