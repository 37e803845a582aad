"""What a Distiller is to the outside: its student."""

import contextlib

import keras
from keras import ops

from keras_distill._backend import hard_loss
from keras_distill._backend import nested_layers
from keras_distill._backend.steps import OfAnyStrategy
from keras_distill._replicas import scope
from keras_distill.distiller.checkpoints import Checkpoints
from keras_distill.inputs import attach_padding_mask
from keras_distill.inputs import call_model
from keras_distill.inputs import split


class AroundStudent(Checkpoints, OfAnyStrategy):
    """Calls, evaluates and predicts with `student`, and is not saved whole.

    Attributes:
        student: `keras.Model`.
        evaluating: Boolean, whether the student is being evaluated.
        prepared: Boolean, whether all layers that are saved exist.
    """

    def call(self, inputs, training=None):
        """The student's outputs."""
        student_inputs = split(inputs)[1]
        outputs = call_model(self.student, student_inputs, training)
        return attach_padding_mask(outputs, student_inputs)

    @property
    def output_names(self):
        """The student's output names, for Keras' losses and metrics."""
        return self.student.output_names

    def own_losses(self):
        """Sum of regularisers and `add_loss`, as Keras adds them."""
        total = 0.0
        for own in self.losses:
            total += ops.sum(ops.cast(own, "float32"))
        if keras.backend.backend() == "jax":
            return total
        # TensorFlow adds up the gradients of all replicas.
        return total / self.distribute_strategy.num_replicas_in_sync

    def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
        """The student's own loss, as `evaluate` reports it."""
        if hard_loss(self) is None and not self.losses:
            return ops.zeros(())
        return super().compute_loss(x, y, y_pred, *args, **kwargs)

    @contextlib.contextmanager
    def _evaluation(self):
        self.evaluating = True
        try:
            yield
        finally:
            self.evaluating = False

    def evaluate(self, *args, **kwargs):
        """Evaluates the student; arguments as in `keras.Model.evaluate`."""
        with self._evaluation():
            return super().evaluate(*args, **kwargs)

    def test_on_batch(self, *args, **kwargs):
        """Tests the student; arguments as in `keras.Model.test_on_batch`."""
        with self._evaluation():
            return super().test_on_batch(*args, **kwargs)

    def build_optimizer(self):
        """Makes the optimizer's slots, before a part of the model is frozen.

        An optimizer cannot take in a variable later.
        """
        if self.built and not self.optimizer.built:
            with scope(self):
                self.optimizer.build(self.trainable_variables)

    def make_train_function(self, force=False):
        """Keras' own, over a step that makes no variables.

        TensorFlow traces twice what makes some.
        """
        if all(layer.built for layer in nested_layers(self)):
            self.build_optimizer()
        self.note_what_is_trained()
        super().make_train_function(force)
