"""Arms x seeds on one task: does distillation help, and by how much?"""

from keras_distill.comparison.arms import Arm as Arm
from keras_distill.comparison.arms import Student as Student
from keras_distill.comparison.arms import default_arms as default_arms
from keras_distill.comparison.engine import CompareOptions as CompareOptions
from keras_distill.comparison.engine import Watcher as Watcher
from keras_distill.comparison.engine import compare as compare
from keras_distill.comparison.task import Task as Task
