"""Experiments: tasks x students x recipes x seeds, in a folder that resumes."""

from keras_distill._watcher import Watcher as Watcher
from keras_distill.experiments.adapting import (
    fine_tune_adaptively as fine_tune_adaptively,
)
from keras_distill.experiments.cells import Cell as Cell
from keras_distill.experiments.comparing import compare as compare
from keras_distill.experiments.comparing import (
    default_recipes as default_recipes,
)
from keras_distill.experiments.compressing import compress as compress
from keras_distill.experiments.contrast import (
    fine_tune_contrastively as fine_tune_contrastively,
)
from keras_distill.experiments.distilling import distill as distill
from keras_distill.experiments.grid import Grid as Grid
from keras_distill.experiments.language_models.run import (
    distill_language_model as distill_language_model,
)
from keras_distill.experiments.language_models.settings import (
    Settings as LanguageModelSettings,  # noqa: F401
)
from keras_distill.experiments.phases import Phase as Phase
from keras_distill.experiments.preparation import Preparation as Preparation
from keras_distill.experiments.prepared import Prepared as Prepared
from keras_distill.experiments.prepared import prepare as prepare
from keras_distill.experiments.run_folder import RunFolder as RunFolder
from keras_distill.experiments.sources import TeacherSource as TeacherSource
from keras_distill.experiments.teaching import Teacher as Teacher
from keras_distill.experiments.teaching import fine_tune as fine_tune
from keras_distill.experiments.tuning import Tuned as Tuned
from keras_distill.experiments.tuning import tune as tune
