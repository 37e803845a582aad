"""The file that ships: SavedModel and LiteRT, checked before it is there."""

from keras_distill.export._litert import litert as litert
from keras_distill.export._saved_model import saved_model as saved_model
from keras_distill.export.card import model_card as model_card
from keras_distill.export.latency import measure_latency as measure_latency
from keras_distill.export.report import ExportError as ExportError
from keras_distill.export.report import ExportReport as ExportReport
from keras_distill.export.vectors import StaticVectors as StaticVectors
from keras_distill.export.vectors import vectors as vectors
