"""Tasks: what is learnt, and what an export of it takes in."""

from keras_distill.tasks.base import Task as Task
from keras_distill.tasks.images import (
    ImageClassification as ImageClassification,
)
from keras_distill.tasks.multi_label import (
    MultiLabelClassification as MultiLabelClassification,
)
from keras_distill.tasks.pairs import PairClassification as PairClassification
from keras_distill.tasks.regression import TextRegression as TextRegression
from keras_distill.tasks.tags import TokenClassification as TokenClassification
from keras_distill.tasks.text import TextClassification as TextClassification
from keras_distill.tasks.vectors import TextVectors as TextVectors
