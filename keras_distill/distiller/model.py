"""`Distiller`: a `keras.Model` that trains a student under a teacher."""

from keras_distill import losses
from keras_distill._backend import can_infer
from keras_distill._backend import check_backend
from keras_distill._backend import hard_loss
from keras_distill._backend import replace_hard_loss
from keras_distill._backend import replace_layers
from keras_distill._backend import scale_updates
from keras_distill._backend import symbolic_inputs
from keras_distill._checks import check_weight
from keras_distill._replicas import scope
from keras_distill._stage import UNCHANGED
from keras_distill.distiller import checks
from keras_distill.distiller.soft import SoftLosses
from keras_distill.distiller.specs import first_batch_specs
from keras_distill.distiller.specs import is_dataset
from keras_distill.distiller.specs import specs
from keras_distill.distiller.state import HARD
from keras_distill.distiller.state import SOFT
from keras_distill.distiller.state import ScheduleState
from keras_distill.distiller.terms import Terms
from keras_distill.distiller.train_step import TrainStep
from keras_distill.inputs import split
from keras_distill.teachers import Teacher


class Distiller(TrainStep):
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

    >>> import keras, numpy as np
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
        self._terms.check_hard(loss)
        self._terms.use_hard(loss, hard_loss(self))
        soft_losses = SoftLosses(soft_loss)
        if not soft_losses.named and not self.matches:
            raise ValueError(
                "There is nothing to distil: pass a `soft_loss`, or `matches` "
                "to the Distiller"
            )
        self._terms.use_soft(soft_losses)
        weights = {HARD: hard_weight, SOFT: soft_weight}
        weights |= {m.name: m.match.weight for m in self.matches}
        outputs = soft_losses.outputs or [SOFT]
        replace_layers(self, "schedules", ScheduleState(outputs, weights))
        soft_losses.bind(self.schedules.temperatures)
        self.start_metrics(weights)
        scale_updates(self.optimizer, self._terms.features.multipliers)

    @property
    def bound_temperatures(self):
        """Dict, output name to its temperature, where a soft loss uses it."""
        return self._terms.soft.temperatures

    def set_losses(self, loss=UNCHANGED, soft_loss=UNCHANGED):
        """Replaces losses during training, at the price of one retrace.

        Args:
            loss: The new hard loss, or `kd.stages.UNCHANGED`.
            soft_loss: The same; for the outputs that the compiled one named.
        """
        if loss is not UNCHANGED:
            self._terms.check_hard(loss)
            replace_hard_loss(self, loss, self._loss_weights)
            self._terms.use_hard(loss, hard_loss(self))
            self.make_test_function(force=True)
        if soft_loss is not UNCHANGED:
            soft_losses = SoftLosses(soft_loss)
            soft_losses.bind(self.schedules.temperatures)
            self._terms.use_soft(soft_losses)
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
        with scope(self):  # The student may get its variables here.
            projections = self._terms.infer(
                teacher_inputs, student_inputs, signal
            )
        replace_layers(self, "projections", projections)
        if self.compiled:
            scale_updates(self.optimizer, self._terms.features.multipliers)
        self.built = self.student.built

    def fit(self, x=None, *args, **kwargs):
        """Trains the student; arguments as in `keras.Model.fit`."""
        checks.check_callbacks(kwargs.get("callbacks"))
        self._ensure_prepared(x)
        if is_dataset(x) and not args:
            # A dataset shuffles itself; Keras' own default only warns of it.
            kwargs.setdefault("shuffle", False)
        return super().fit(x, *args, **kwargs)

    def train_on_batch(self, x, *args, **kwargs):
        """Trains on one batch; arguments as in `keras.Model.train_on_batch`."""
        self._ensure_prepared(x)
        return super().train_on_batch(x, *args, **kwargs)

    def _ensure_prepared(self, x):
        if not self.compiled:
            raise ValueError(
                "You must call `compile()` before training a Distiller"
            )
        models = [*self._terms.teacher.models, self.student]
        checks.check_encoded(x, models)
        if self._terms.outputs is not None:
            return
        found = first_batch_specs(x)
        if found is not None:
            self.prepare(found)
        elif self.matches or self.teacher is None:
            raise ValueError(
                "The matches of models that are not functional are built from "
                "a batch, and this data can be read only once. Call "
                "`distiller.prepare(inputs)` with one batch of inputs first. "
                f"Received: x={type(x).__name__}"
            )
