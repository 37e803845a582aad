"""Distillation losses: the teacher is `y_true`, the student `y_pred`."""

from keras_distill.losses._feature_loss import FeatureLoss as FeatureLoss
from keras_distill.losses.attention import AttentionCE as AttentionCE
from keras_distill.losses.attention import AttentionMSE as AttentionMSE
from keras_distill.losses.continuation import ContinuationMSE as ContinuationMSE
from keras_distill.losses.correlation import DIST as DIST
from keras_distill.losses.decoupled import DKD as DKD
from keras_distill.losses.decoupled import NKD as NKD
from keras_distill.losses.feature_maps import (
    AttentionTransfer as AttentionTransfer,
)
from keras_distill.losses.feature_maps import (
    SimilarityPreserving as SimilarityPreserving,
)
from keras_distill.losses.features import FlowOfSolution as FlowOfSolution
from keras_distill.losses.features import HiddenCosine as HiddenCosine
from keras_distill.losses.features import HiddenMSE as HiddenMSE
from keras_distill.losses.features import NeuronSelectivity as NeuronSelectivity
from keras_distill.losses.features import PatientKD as PatientKD
from keras_distill.losses.logits import BinaryKL as BinaryKL
from keras_distill.losses.logits import ForwardKL as ForwardKL
from keras_distill.losses.logits import GeneralizedJSD as GeneralizedJSD
from keras_distill.losses.logits import ReverseKL as ReverseKL
from keras_distill.losses.logits import SoftCrossEntropy as SoftCrossEntropy
from keras_distill.losses.logits_loss import LogitsLoss as LogitsLoss
from keras_distill.losses.logits_mse import AnnealedMSE as AnnealedMSE
from keras_distill.losses.logits_mse import LogitsMSE as LogitsMSE
from keras_distill.losses.multi_label import (
    SoftBinaryCrossEntropy as SoftBinaryCrossEntropy,
)
from keras_distill.losses.relations import MiniLMRelation as MiniLMRelation
from keras_distill.losses.relations import RKDAngle as RKDAngle
from keras_distill.losses.relations import RKDDistance as RKDDistance
from keras_distill.losses.sequence import AdaptiveKL as AdaptiveKL
from keras_distill.losses.sequence import AlphaBeta as AlphaBeta
from keras_distill.losses.sequence import SkewKL as SkewKL
from keras_distill.losses.sequence import SkewReverseKL as SkewReverseKL
from keras_distill.losses.sequence import TotalVariation as TotalVariation
from keras_distill.losses.standardized import TTM as TTM
from keras_distill.losses.standardized import WTTM as WTTM
from keras_distill.losses.standardized import StandardizedKL as StandardizedKL
from keras_distill.losses.vectors import NeighbourKL as NeighbourKL
from keras_distill.losses.vectors import VectorCosine as VectorCosine
from keras_distill.losses.weighted_soft_labels import WSLD as WSLD
