"""The Distiller and its train step."""

from keras_distill.distiller.model import Distiller as Distiller
