"""The same seeds and the same layer names for every test."""

import contextlib
import functools
import gc
import importlib.metadata
import os
import pathlib
from unittest import mock

if "PYTEST_XDIST_WORKER" in os.environ:  # As many processes as cores.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")

# What makes large graphs fast is most of the time of tiny ones: oneDNN's
# kernels and rewriting, and the passes and fused kernels of XLA's compiler.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
try:
    RELEASE = importlib.metadata.version("jaxlib").split(".")
except importlib.metadata.PackageNotFoundError:
    RELEASE = "00"
if tuple(map(int, RELEASE[:2])) < (0, 11):
    # A flag that XLA does not know ends the process.
    FUSED = "--xla_cpu_use_fusion_emitters=false"
else:
    FUSED = ""
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_backend_optimization_level=0 "
    f"--xla_llvm_disable_expensive_passes=true {FUSED}",
)
# Half of what JAX compiles for a test it has compiled for another one.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR",
    str(pathlib.Path(__file__).parents[1] / ".pytest_cache" / "jax"),
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import keras
import pytest
import tensorflow as tf

from keras_distill._untuned import untuned

# They read what they are to do from the command line as they are imported.
collect_ignore = ["distribution_job.py", "worker_job.py"]

iterate = tf.data.Dataset.__iter__


def iterate_untuned(dataset):
    """Iterators that nothing waits for when they go."""
    return iterate(untuned(dataset))


tf.data.Dataset.__iter__ = iterate_untuned

kernels_kept = contextlib.nullcontext
if keras.backend.backend() == "tensorflow":
    from tensorflow.python.eager import context

    # A graph that runs a few times never pays back what rewriting it takes.
    tf.config.optimizer.set_experimental_options(
        {"disable_meta_optimizer": True}
    )

    def kernels_kept():
        """Seeds and names are set without a search for every kernel anew."""
        return mock.patch.object(context.pywrap_tfe, "TFE_ContextClearCaches")


@pytest.fixture(autouse=True)
def seeds():
    with kernels_kept():
        keras.utils.clear_session(free_memory=False)
        keras.utils.set_random_seed(0)


@pytest.fixture
def eager(monkeypatch):
    """Commands that train step by step; `examples/` run them compiled."""
    import tiny_runs

    tiny_runs.without_tracing(monkeypatch)


def pytest_collection_finish(session):
    """What is imported by now stays: let the collector pass over it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)
    # LiteRT's converter asks for a whole collection each time.
    gc.collect = functools.partial(gc.collect, 1)
