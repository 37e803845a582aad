"""A Keras model whose batches get their completions before each step.

Sampling is a loop of its own, on arrays, and no part of the compiled step:
Keras' step is wrapped, so that `fit` does the rest.
"""

import keras

from keras_distill._backend.steps import prepare_batches
from keras_distill._replicas import replicas
from keras_distill.distiller.around_student import AroundStudent
from keras_distill.distiller.checks import check_callbacks
from keras_distill.distiller.specs import is_dataset
from keras_distill.gkd.rollout import OF_THE_BATCH
from keras_distill.gkd.rows import only_inputs


class OnCompletedBatches(AroundStudent):
    """Trains on what `rollout` makes of the data set's batches.

    Attributes:
        rollout: `Rollout`.
        state: `GKDState`.
        lmbda_schedule: Callable of the step that gives lambda, or None.
        micro_batch_size: Integer or None, of which the rows are a multiple.
    """

    def fit(self, x=None, *args, **kwargs):
        """Trains the student; arguments as in `keras.Model.fit`."""
        check_callbacks(kwargs.get("callbacks"))
        own_order = is_dataset(x) or isinstance(x, keras.utils.PyDataset)
        if own_order and not args:
            # A dataset shuffles itself; Keras' own default only warns of it.
            kwargs.setdefault("shuffle", False)
        return super().fit(x, *args, **kwargs)

    def build_for_fit(self, batch):
        """Nothing: what a step reads is made later, and the rest is built."""

    def make_train_function(self, force=False):
        """Keras' own, on batches that got their completions before."""
        if self.train_function is None or force:
            super().make_train_function(force)
            self.train_function = prepare_batches(
                self, self.train_function, self._complete, whole=OF_THE_BATCH
            )

    def make_test_function(self, force=False):
        """Keras' own, on the data set's responses."""
        if self.test_function is None or force:
            super().make_test_function(force)
            self.test_function = prepare_batches(
                self, self.test_function, self._responses, whole=OF_THE_BATCH
            )

    def _complete(self, data):
        step = int(self.state.step.numpy())
        if self.lmbda_schedule is not None:
            self.state.lmbda.assign(self.lmbda_schedule(step))
        batch = self.rollout.fill(
            only_inputs(data),
            float(self.state.lmbda.numpy()),
            int(self.state.seed.numpy()),
            step,
            (self.micro_batch_size or 1) * replicas(self),
        )
        self.state.step.assign(step + 1)
        return batch

    def _responses(self, data):
        data = only_inputs(data)
        return self.rollout.responses(data, replicas(self))
