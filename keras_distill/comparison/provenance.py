"""On what a run was made: versions, backend, machine."""

import importlib.metadata
import os
import platform

import keras

from keras_distill._backend import accelerators

PACKAGES = (
    "keras-distill",
    "keras",
    "keras-hub",
    "tensorflow",
    "jax",
    "numpy",
    "ai-edge-litert",
)


def environment():
    """What a result may depend on besides its settings.

    Returns:
        Dict: `python`, `platform`, `processors`, `accelerators`, `backend`,
        `versions` (a dict, without packages that are not installed).

    Example:

    >>> sorted(environment())[:3]
    ['accelerators', 'backend', 'platform']
    """
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "accelerators": accelerators(),
        "backend": keras.backend.backend(),
        "versions": _versions(),
    }


def _versions():
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
