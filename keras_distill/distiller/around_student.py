"""What a Distiller is to the outside: its student."""

import contextlib

import keras
from keras import ops

from keras_distill._backend import scale_for_distribution
from keras_distill.distiller.inputs import attach_padding_mask
from keras_distill.distiller.inputs import split
from keras_distill.teachers import call_model


class AroundStudent(keras.Model):
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
        return sum(
            scale_for_distribution(ops.sum(ops.cast(own, "float32")))
            for own in self.losses
        )

    def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
        """The student's own loss, as `evaluate` reports it."""
        if self._compile_loss is None and not self.losses:
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

    def replace(self, name, value):
        """Sets an attribute; Keras would go on saving the old layers."""
        self._tracker.unlock()
        for layer in keras.tree.flatten(getattr(self, name)):
            self._tracker.untrack(layer)
        setattr(self, name, value)
        self._tracker.lock()

    def build_optimizer(self):
        """Makes the optimizer's slots, before a part of the model is frozen.

        An optimizer cannot take in a variable later.
        """
        if self.built and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    def load_weights(self, *args, **kwargs):
        """Loads a checkpoint; arguments as in `keras.Model.load_weights`."""
        if not self.prepared:
            raise ValueError(
                "The projections of the matches are not built yet. Call "
                "`distiller.prepare(inputs)` with one batch of inputs first"
            )
        if self.compiled:
            self.build_optimizer()  # Keras would skip its slots.
        super().load_weights(*args, **kwargs)

    def get_config(self):
        """Refuses: the teacher would have to be a part of it."""
        raise NotImplementedError(
            "A Distiller is not saved as a whole, because its teacher is no "
            "part of it. Use `distiller.save_weights` to go on training, and "
            "`distiller.student.save` or `kd.export` to keep the student"
        )

    def save(self, *_args, **_kwargs):
        """Refuses, as `get_config`, before a file is made."""
        self.get_config()

    def export(self, *_args, **_kwargs):
        """Refuses, as `get_config`, before a file is made."""
        self.get_config()
