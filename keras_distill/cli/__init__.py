"""The command `keras-distill`."""

from keras_distill.cli.program import main as main
