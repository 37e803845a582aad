"""Distillation losses: the teacher is `y_true`, the student `y_pred`."""

from keras_distill.losses.logits import ForwardKL as ForwardKL
from keras_distill.losses.logits import GeneralizedJSD as GeneralizedJSD
from keras_distill.losses.logits import ReverseKL as ReverseKL
from keras_distill.losses.logits import SoftCrossEntropy as SoftCrossEntropy
from keras_distill.losses.logits_mse import AnnealedMSE as AnnealedMSE
from keras_distill.losses.logits_mse import LogitsMSE as LogitsMSE
