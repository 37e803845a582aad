"""Knowledge distillation for Keras 3 and TensorFlow."""

import importlib

_MODULES = (
    "augment",
    "cache",
    "callbacks",
    "comparison",
    "data",
    "divergences",
    "export",
    "gkd",
    "losses",
    "schedules",
    "students",
    "temperatures",
)
_NAMES = {
    "Distiller": "distiller",
    "Ensemble": "teachers",
    "GKDDistiller": "gkd",
    "Match": "matching",
    "Stage": "stages",
    "annealing_kd_stages": "stages",
    "attention_maps": "taps",
    "attention_vectors": "taps",
    "compare": "comparison",
    "hidden_states": "taps",
    "uniform_layer_map": "layer_maps",
}


def __getattr__(name):
    # On first use: TensorFlow takes seconds, which `--help` need not wait for.
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        module = importlib.import_module(f"{__name__}.{_NAMES[name]}")
        return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*_MODULES, *_NAMES]
