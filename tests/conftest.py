"""The same seeds and the same layer names for every test."""

import gc
import os

if "PYTEST_XDIST_WORKER" in os.environ:  # As many processes as cores.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

# Most of a test on XLA is the compiler making tiny graphs fast.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 "
    "--xla_llvm_disable_expensive_passes=true",
)

import keras
import pytest


@pytest.fixture(autouse=True)
def seeds():
    keras.utils.clear_session(free_memory=False)
    keras.utils.set_random_seed(0)


def pytest_collection_finish(session):
    """What is imported by now stays: let the collector pass over it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
