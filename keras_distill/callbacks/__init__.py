"""Callbacks that change a Distiller's training while it runs."""

from keras_distill.callbacks.annealing import AnnealTemperature
from keras_distill.callbacks.annealing import AnnealWeight
from keras_distill.callbacks.backup import Backup
from keras_distill.callbacks.continuation import continuation_kd
from keras_distill.callbacks.stage_switch import StageSwitch

__all__ = [
    "AnnealTemperature",
    "AnnealWeight",
    "Backup",
    "StageSwitch",
    "continuation_kd",
]
