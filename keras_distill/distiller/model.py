"""`Distiller`: a `keras.Model` that trains a student under a teacher."""

import keras
from keras import ops

from keras_distill import losses
from keras_distill._backend import can_infer
from keras_distill._backend import check_backend
from keras_distill._backend import unscale_for_distribution
from keras_distill._checks import check_weight
from keras_distill.distiller import checks
from keras_distill.distiller.around_student import AroundStudent
from keras_distill.distiller.inputs import first_batch_specs
from keras_distill.distiller.inputs import specs
from keras_distill.distiller.inputs import split
from keras_distill.distiller.soft import SoftLosses
from keras_distill.distiller.state import HARD
from keras_distill.distiller.state import SOFT
from keras_distill.distiller.state import ScheduleState
from keras_distill.distiller.state import TermMetrics
from keras_distill.distiller.steps import STEPS
from keras_distill.distiller.terms import Terms
from keras_distill.distiller.updates import scale_updates
from keras_distill.recording import record
from keras_distill.teachers import Teacher
from keras_distill.teachers import symbolic_inputs


class Distiller(AroundStudent):
    """Trains `student` on labels and on what `teacher` says.

    The loss of a training step is
    `hard_weight * hard_loss + soft_weight * soft_loss +
    sum(match.weight * match)` plus the student's own regularisation.
    `evaluate` and `predict` are the student's; checkpoints hold the student,
    the projections, the schedules and the optimizer, and no teacher.

    Inputs `x` go to both models, each taking the entries it has names for.
    With `x = {"teacher": ..., "student": ...}` they read different inputs.
    With `x = {"student": ..., "teacher_signal": {"logits": ...}}` the teacher
    does not run: its outputs come with the batch.

    Args:
        teacher: `keras.Model` or `kd.Ensemble`, trained; outputs logits. It
            runs with `training=False` and is never changed. None when the
            batches carry the teacher's signal.
        student: `keras.Model`, outputs logits.
        matches: List of `kd.Match`, pairs of layers that are to agree.
        name: String.

    Raises:
        ValueError: if the models or the matches do not fit together.

    Example:

    >>> import numpy as np
    >>> import keras_distill as kd
    >>> def mlp(units):
    ...     return keras.Sequential([keras.Input((4,)),
    ...         keras.layers.Dense(units), keras.layers.Dense(2)])
    >>> distiller = kd.Distiller(teacher=mlp(8), student=mlp(2))
    >>> distiller.compile(
    ...     optimizer="adam",
    ...     loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ...     soft_loss=kd.losses.ForwardKL(8.0))
    >>> x, y = np.ones((8, 4), "float32"), np.zeros(8, "int32")
    >>> history = distiller.fit(x, y, verbose=0)
    >>> sorted(history.history)
    ['hard_loss', 'loss', 'soft_loss']

    Reference:
        Hinton et al., 2015, https://arxiv.org/abs/1503.02531
    """

    def __init__(self, teacher, student, matches=(), name="distiller"):
        check_backend()
        holder = Teacher(teacher)
        checks.check_models(holder, student)
        super().__init__(name=name, dtype=student.dtype_policy)
        self.student = student
        self.evaluating = False
        self._terms = Terms(holder, student, matches)
        self.projections = []
        self.schedules = None
        self.built = student.built
        inputs = [symbolic_inputs(m) for m in (*holder.models[:1], student)]
        known = holder.models and all(x is not None for x in inputs)
        if known and can_infer(inputs):
            self._prepare(specs(inputs[0]), specs(inputs[1]), None)

    # Keras saves and restores what `dir` lists: the teacher must not be there.
    def __dir__(self):
        return [name for name in super().__dir__() if name != "teacher"]

    @property
    def teacher(self):
        """The teacher as it was given."""
        return self._terms.teacher.source

    @property
    def matches(self):
        """The bound matches, each with its `name`."""
        return self._terms.features.matches

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        soft_loss="default",
        hard_weight=checks.DEFAULT_WEIGHT,
        soft_weight=checks.DEFAULT_WEIGHT,
        **kwargs,
    ):
        """Configures the losses and the optimizer.

        Args:
            optimizer: As in `keras.Model.compile`.
            loss: The hard loss, as in `keras.Model.compile`, on the student's
                logits and the labels. None: no labels are used.
            soft_loss: A loss of the teacher's and the student's outputs, such
                as `kd.losses.ForwardKL(4.0)`, the default; a dict or list of
                these for several outputs, with None for outputs to leave
                out; or None for matches alone.
            hard_weight: Number, at least 0.
            soft_weight: Number, at least 0.
            **kwargs: `metrics`, `weighted_metrics`, `loss_weights`,
                `jit_compile`, `steps_per_execution` and so on, as in
                `keras.Model.compile`.

        Raises:
            ValueError: if nothing is left to learn from, or the losses do not
                fit the outputs.
        """
        check_weight("hard_weight", hard_weight)
        check_weight("soft_weight", soft_weight)
        if isinstance(soft_loss, str) and soft_loss == "default":
            soft_loss = losses.ForwardKL()
        checks.check_weights_used(loss, hard_weight, soft_loss, soft_weight)
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        self._loss_weights = kwargs.get("loss_weights")
        self._terms.set_active()
        checks.check_hard_loss(loss, self.student)
        soft_losses = SoftLosses(soft_loss)
        if not soft_losses.named and not self.matches:
            raise ValueError(
                "There is nothing to distil: pass a `soft_loss`, or `matches` "
                "to the Distiller"
            )
        self._terms.use(soft_losses)
        weights = {HARD: hard_weight, SOFT: soft_weight}
        weights |= {m.name: m.match.weight for m in self.matches}
        outputs = soft_losses.outputs or [SOFT]
        self.replace("schedules", ScheduleState(outputs, weights))
        soft_losses.bind(self.schedules.temperatures)
        self._trackers = TermMetrics(weights)
        scale_updates(self.optimizer, self._terms.features.multipliers)

    @property
    def bound_temperatures(self):
        """Dict, output name to its temperature, where a soft loss uses it."""
        return self._terms.soft.temperatures

    def set_losses(self, loss="unchanged", soft_loss="unchanged"):
        """Replaces losses during training, at the price of one retrace.

        Args:
            loss: The new hard loss, or `"unchanged"`.
            soft_loss: The new soft loss or losses, or `"unchanged"`. It must
                name the outputs that the compiled one named.
        """
        if not (isinstance(loss, str) and loss == "unchanged"):
            checks.check_hard_loss(loss, self.student)
            names = getattr(self, "output_names", None)
            weights = self._loss_weights
            self._compile_loss = checks.compiled_loss(loss, weights, names)
            self.make_test_function(force=True)
        if not (isinstance(soft_loss, str) and soft_loss == "unchanged"):
            soft_losses = SoftLosses(soft_loss)
            soft_losses.bind(self.schedules.temperatures)
            self._terms.use(soft_losses)
        self.retrace()

    def set_active(self, hard=True, soft=True, matches=None):
        """Switches terms on and off, at the price of one retrace.

        Args:
            hard: Boolean, the hard loss.
            soft: Boolean, the soft losses.
            matches: Names of the matches that are on. None: all of them.

        Raises:
            ValueError: if a match is not known.
        """
        self.build_optimizer()
        self._terms.set_active(hard, soft, matches)
        self.retrace()

    def retrace(self):
        """Makes the next training step trace anew."""
        self.make_train_function(force=True)

    @property
    def needs_teacher(self):
        """Whether an active term compares with the teacher."""
        return self._terms.needs_teacher

    @property
    def prepared(self):
        """Whether the projections are built, if there are matches."""
        return not self.matches or self._terms.outputs is not None

    def prepare(self, inputs):
        """Builds the projections and checks shapes on one batch of inputs.

        `fit` does it by itself, unless the data is a generator. With models
        that do not know their shapes (subclassed ones; on JAX also those of
        any length) it is needed before `load_weights`.

        Args:
            inputs: Arrays, or their `keras.KerasTensor` specs, as in `fit`.
        """
        self._prepare(*split(specs(inputs)))

    def _prepare(self, teacher_inputs, student_inputs, signal):
        projections = self._terms.infer(teacher_inputs, student_inputs, signal)
        self.replace("projections", projections)
        if self.compiled:
            scale_updates(self.optimizer, self._terms.features.multipliers)
        self.built = self.student.built

    def fit(self, x=None, *args, **kwargs):
        """Trains the student; arguments as in `keras.Model.fit`."""
        checks.check_callbacks(kwargs.get("callbacks"))
        self._ensure_prepared(x)
        if hasattr(x, "element_spec") and not args:
            # A dataset shuffles itself; Keras' own default only warns of it.
            kwargs.setdefault("shuffle", False)
        return super().fit(x, *args, **kwargs)

    def train_on_batch(self, x, *args, **kwargs):
        """Trains on one batch; arguments as in `keras.Model.train_on_batch`."""
        self._ensure_prepared(x)
        return super().train_on_batch(x, *args, **kwargs)

    def _ensure_prepared(self, x):
        self._assert_compile_called("fit")
        unknown = self._terms.outputs is None
        if not self.prepared or (unknown and self.teacher is None):
            self.prepare(first_batch_specs(x))

    def teacher_signal(self, inputs):
        """What active terms compare with, from the teacher's one pass."""
        return self._terms.teacher_signal(inputs)

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
        with record(self._terms.features.student_taps) as recording:
            y_pred = self(x, training=True)
        terms = {}
        if self._terms.on[HARD] and self._compile_loss is not None:
            if y is None:
                raise ValueError(
                    "The hard loss needs labels, the data has none. Pass "
                    "(x, y) batches, or `loss=None` to `compile`"
                )
            terms[HARD] = self._compile_loss(y, y_pred, sample_weight)
        terms |= self._terms.values(
            signal, recording, split(x)[1], y_pred, sample_weight, y
        )
        total = sum(
            self.schedules.weight(term) * ops.cast(value, "float32")
            for term, value in terms.items()
        )
        total += self.own_losses()
        return total, y_pred, terms

    def update_terms(self, loss, terms, y_pred):
        """Adds one step's values to the metrics behind the logs."""
        size = ops.shape(keras.tree.flatten(y_pred)[0])[0]
        self._loss_tracker.update_state(unscale_for_distribution(loss), size)
        self._trackers.update(terms, size)

    def train_step(self, *args):
        """One step: `(data)` on TensorFlow, `(state, data)` on JAX."""
        return STEPS[keras.backend.backend()](self, *args)

    @property
    def metrics(self):
        """Keras' metrics and, while training, one for each term."""
        found = super().metrics
        if not self.compiled or self.evaluating:
            return found
        terms = self._terms.names(hard=self._compile_loss is not None)
        return found[:1] + self._trackers.of(terms) + found[1:]

    @property
    def non_trainable_variables(self):
        """On JAX also the teacher's, which the step takes as state."""
        own = super().non_trainable_variables
        if keras.backend.backend() != "jax":
            return own
        known = {id(v) for v in own}
        teacher = self._terms.teacher.variables
        return own + [v for v in teacher if id(v) not in known]
