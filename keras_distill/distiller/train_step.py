"""The train step: what one batch does to the student."""

import contextlib

import keras
from keras import ops

from keras_distill.distiller import jax_step
from keras_distill.distiller.around_student import AroundStudent
from keras_distill.distiller.state import HARD
from keras_distill.distiller.state import LOSS
from keras_distill.distiller.state import SOFT
from keras_distill.inputs import split
from keras_distill.recording import record


class TrainStep(AroundStudent):
    """The train step of a `Distiller`.

    The teacher's signal, the student's pass and its loss, the update:

        loss = hard_weight * hard(y, student(x))
             + soft_weight * soft(teacher(x), student(x))
             + sum_m weight_m * match_m(teacher's states, student's states)
             + the student's own regularisation

    Attributes:
        schedules: `ScheduleState`: the weight of each term.
    """

    def train_step(self, data):
        """One step on TensorFlow; arguments as in `keras.Model`."""
        import tensorflow as tf

        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        signal = self.teacher_signal(x)
        with tf.GradientTape() as tape:
            loss, y_pred, terms = self.training_loss(
                x, y, sample_weight, signal
            )
            scaled = self.optimizer.scale_loss(loss)
        variables = self.trainable_weights
        gradients = tape.gradient(scaled, variables)
        self.optimizer.apply_gradients(zip(gradients, variables))
        # Each replica has its share of the mean over the whole batch.
        replicas = self.distribute_strategy.num_replicas_in_sync
        self.update_metrics(loss, terms, y_pred, replicas)
        return self.compute_metrics(x, y, y_pred, sample_weight)

    if keras.backend.backend() == "jax":
        train_step = jax_step.train_step

    def teacher_signal(self, x):
        """What the terms compare with, from the teacher's one pass.

        Args:
            x: Inputs of a batch.

        Returns:
            Dict with the teacher's outputs, `"logits"`, and, for matches, its
            `"states"` and their `"masks"`. None if no term needs the teacher.
        """
        terms = self._terms
        if not terms.needs_teacher:
            return None
        inputs, _, given = split(x)
        if given is not None:
            return terms.given_signal(given)
        with _recorded(terms.features.teacher_taps) as recording:
            signal = {"logits": terms.teacher.outputs(inputs)}
        if terms.features.active:
            signal |= terms.features.teacher_states(recording, inputs)
        return signal

    def training_loss(self, x, y, sample_weight, signal):
        """The student's one pass and all terms of its loss.

        Args:
            x: Inputs of a batch.
            y: Labels, or None.
            sample_weight: As in `keras.Model.fit`, or None.
            signal: What `teacher_signal(x)` gave.

        Returns:
            Tuple of the total loss, the student's outputs, and a dict from
            each active term to its unweighted value.
        """
        terms, values = self._terms, {}
        if HARD in terms.active:
            _check_labels(y)
        with _recorded(terms.features.student_taps) as recording:
            y_pred = self(x, training=True)
        if HARD in terms.active:
            values[HARD] = terms.hard(y, y_pred, sample_weight)
        if SOFT in terms.active:
            values[SOFT] = terms.soft(
                signal["logits"], y_pred, sample_weight, y
            )
        if terms.features.active:
            values |= terms.features.values(
                signal, recording, split(x)[1], sample_weight
            )
        total = 0.0
        for term, value in values.items():
            weight = self.schedules.weights_by_term[term]
            factor = self.schedules.factors[term]
            total += weight * factor * ops.cast(value, "float32")
        return total + self.own_losses(), y_pred, values

    def update_metrics(self, loss, terms, y_pred, replicas=1):
        """Adds one step's values to the metrics behind the logs.

        Args:
            loss: Scalar, the total.
            terms: Dict, term name to its value.
            y_pred: The student's outputs.
            replicas: Integer, how many times larger the batch is.
        """
        size = ops.shape(keras.tree.flatten(y_pred)[0])[0]
        for name, value in {LOSS: loss, **terms}.items():
            self._terms.metrics[name].update_state(value * replicas, size)

    def start_metrics(self, names):
        """Makes the metrics behind the logs, one for each of these terms."""
        metrics = self._terms.metrics = {LOSS: super().metrics[0]}
        for name in names:
            shown = f"{name}_loss" if name in (HARD, SOFT) else name
            metrics[name] = keras.metrics.Mean(name=shown)

    @property
    def metrics(self):
        """Keras' metrics and, while training, one for each term."""
        found = super().metrics
        if not self.compiled or self.evaluating:
            return found
        terms = [self._terms.metrics[name] for name in self._terms.active]
        return found[:1] + terms + found[1:]

    @property
    def non_trainable_variables(self):
        """On JAX also the teacher's, which the step takes as state."""
        own = super().non_trainable_variables
        if keras.backend.backend() != "jax":
            return own
        known = {id(v) for v in own}
        teacher = self._terms.teacher.variables
        return own + [v for v in teacher if id(v) not in known]


def _recorded(taps):
    """Collects states, where there are any, from the calls in this context."""
    return record(taps) if taps else contextlib.nullcontext()


def _check_labels(y):
    if y is None:
        raise ValueError(
            "The hard loss needs labels, the data has none. Pass (x, y) "
            "batches, or `loss=None` to `compile`"
        )
