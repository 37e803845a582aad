"""On-policy distillation of causal language models."""

from keras_distill.gkd.decoding import Generator as Generator
from keras_distill.gkd.evaluation import WritingScorer as WritingScorer
from keras_distill.gkd.evaluation import WritingScores as WritingScores
from keras_distill.gkd.fine_tuning import fine_tune as fine_tune
from keras_distill.gkd.language_model import LanguageModel as LanguageModel
from keras_distill.gkd.model import GKDDistiller as GKDDistiller
from keras_distill.gkd.preprocessor import GKDPreprocessor as GKDPreprocessor
from keras_distill.gkd.replay import ReplayBuffer as ReplayBuffer
from keras_distill.gkd.rows import Rows as Rows
from keras_distill.gkd.sources import DatasetResponses as DatasetResponses
from keras_distill.gkd.sources import Sampling as Sampling
from keras_distill.gkd.sources import Source as Source
from keras_distill.gkd.sources import StudentSampler as StudentSampler
from keras_distill.gkd.sources import TeacherSampler as TeacherSampler
from keras_distill.gkd.token_loss import token_divergence as token_divergence
