"""The command `keras-distill`."""

from keras_distill.cli.entry_point import main as main
