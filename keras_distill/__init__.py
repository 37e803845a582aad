"""Knowledge distillation for Keras 3 and TensorFlow."""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:  # For editors, which run nothing of what follows.
    from keras_distill import augment as augment
    from keras_distill import cache as cache
    from keras_distill import callbacks as callbacks
    from keras_distill import data as data
    from keras_distill import divergences as divergences
    from keras_distill import experiments as experiments
    from keras_distill import export as export
    from keras_distill import gkd as gkd
    from keras_distill import losses as losses
    from keras_distill import pruning as pruning
    from keras_distill import quantization as quantization
    from keras_distill import recipes as recipes
    from keras_distill import schedules as schedules
    from keras_distill import students as students
    from keras_distill import tasks as tasks
    from keras_distill import temperatures as temperatures
    from keras_distill.distiller import Distiller as Distiller
    from keras_distill.experiments import compare as compare
    from keras_distill.experiments import compress as compress
    from keras_distill.experiments import distill as distill
    from keras_distill.gkd import GKDDistiller as GKDDistiller
    from keras_distill.image_taps import feature_maps as feature_maps
    from keras_distill.layer_maps import uniform_layer_map as uniform_layer_map
    from keras_distill.layouts import layout_map as layout_map
    from keras_distill.matching import Match as Match
    from keras_distill.stages import Stage as Stage
    from keras_distill.stages import annealing_kd_stages as annealing_kd_stages
    from keras_distill.taps import attention_maps as attention_maps
    from keras_distill.taps import attention_vectors as attention_vectors
    from keras_distill.taps import hidden_states as hidden_states
    from keras_distill.teachers import Ensemble as Ensemble

_MODULES = (
    "augment",
    "cache",
    "callbacks",
    "data",
    "divergences",
    "experiments",
    "export",
    "gkd",
    "losses",
    "pruning",
    "quantization",
    "recipes",
    "schedules",
    "students",
    "tasks",
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
    "compare": "experiments",
    "compress": "experiments",
    "distill": "experiments",
    "feature_maps": "image_taps",
    "hidden_states": "taps",
    "layout_map": "layouts",
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
