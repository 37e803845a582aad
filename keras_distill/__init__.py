"""Knowledge distillation for Keras 3 and TensorFlow."""

from keras_distill import callbacks as callbacks
from keras_distill import data as data
from keras_distill import divergences as divergences
from keras_distill import export as export
from keras_distill import gkd as gkd
from keras_distill import losses as losses
from keras_distill import schedules as schedules
from keras_distill import students as students
from keras_distill import temperatures as temperatures
from keras_distill.distiller import Distiller as Distiller
from keras_distill.gkd import GKDDistiller as GKDDistiller
from keras_distill.matching import Match as Match
from keras_distill.matching import uniform_layer_map as uniform_layer_map
from keras_distill.stages import Stage as Stage
from keras_distill.stages import annealing_kd_stages as annealing_kd_stages
from keras_distill.taps import attention_maps as attention_maps
from keras_distill.taps import hidden_states as hidden_states
from keras_distill.teachers import Ensemble as Ensemble
