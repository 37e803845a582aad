"""Small models to distil into."""

from keras_distill.students.bilstm import bilstm as bilstm
from keras_distill.students.mean_pooled import (
    mean_pooled_classifier as mean_pooled_classifier,
)
from keras_distill.students.shrink import shrink as shrink
from keras_distill.students.shrink_causal_lm import (
    shrink_causal_lm as shrink_causal_lm,
)
from keras_distill.students.text_cnn import text_cnn as text_cnn
