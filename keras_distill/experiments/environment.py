"""On what a run was made: versions, backend, machine."""

import os
import platform

import keras

from keras_distill._backend import accelerators
from keras_distill._files import versions


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
        "versions": versions(),
    }
