"""Small models, and the ways to make them for a task.

Functions build models; classes, such as `TextCNN`, make them for any task and
teacher, and say how long they are trained.
"""

from keras_distill import _kinds
from keras_distill.students.base import Custom as Custom
from keras_distill.students.base import Student as Student
from keras_distill.students.bi_encoder import bi_encoder as bi_encoder
from keras_distill.students.bilstm import bilstm as bilstm
from keras_distill.students.conv_net import conv_net as conv_net
from keras_distill.students.mean_pooled import (
    mean_pooled_classifier as mean_pooled_classifier,
)
from keras_distill.students.ngram import ngram as ngram
from keras_distill.students.shrink import shrink as shrink
from keras_distill.students.shrink_causal_lm import (
    shrink_causal_lm as shrink_causal_lm,
)
from keras_distill.students.siamese import siamese as siamese
from keras_distill.students.static import static as static
from keras_distill.students.taggers import bilstm_tagger as bilstm_tagger
from keras_distill.students.taggers import cnn_tagger as cnn_tagger
from keras_distill.students.taggers import token_classifier as token_classifier
from keras_distill.students.text_cnn import text_cnn as text_cnn

__getattr__, _names = _kinds.lazy(
    __name__,
    {place.partition(":")[2]: place for place in _kinds.STUDENTS.values()},
)


def __dir__():
    return [*globals(), *_names()]
