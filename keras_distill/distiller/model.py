"""`Distiller`: a `keras.Model` that trains a student under a teacher."""

import contextlib

import keras
from keras import ops

from keras_distill import losses
from keras_distill import taps
from keras_distill._backend import can_infer
from keras_distill._backend import check_backend
from keras_distill._backend import output_spec
from keras_distill._backend import scale_for_distribution
from keras_distill._backend import unscale_for_distribution
from keras_distill._checks import check_weight
from keras_distill.distiller import checks
from keras_distill.distiller import soft
from keras_distill.distiller.features import Features
from keras_distill.distiller.inputs import attach_padding_mask
from keras_distill.distiller.inputs import first_batch_specs
from keras_distill.distiller.inputs import specs
from keras_distill.distiller.inputs import split
from keras_distill.distiller.state import HARD
from keras_distill.distiller.state import SOFT
from keras_distill.distiller.state import ScheduleState
from keras_distill.distiller.state import TermMetrics
from keras_distill.distiller.steps import STEPS
from keras_distill.distiller.updates import scale_updates
from keras_distill.teachers import Teacher
from keras_distill.teachers import call_model
from keras_distill.teachers import symbolic_inputs


class Distiller(keras.Model):
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
        self._teacher = holder
        self.student = student
        self._features = Features(matches, holder.models, student)
        self._evaluating = False
        self._active = {HARD: True, SOFT: True}
        self._soft_losses = {}
        self._prepared = False
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
        return self._teacher.source

    @property
    def matches(self):
        """The bound matches, each with its `name`."""
        return self._features.matches

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        soft_loss="default",
        hard_weight=0.5,
        soft_weight=0.5,
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
        super().compile(optimizer=optimizer, loss=loss, **kwargs)
        self._active = {HARD: True, SOFT: True}
        self._features.set_active(None)
        checks.check_hard_loss(loss, self.student)
        weights = {HARD: hard_weight, SOFT: soft_weight}
        weights |= {m.name: m.match.weight for m in self.matches}
        self._soft_losses = soft.named_losses(soft_loss)
        if not self._soft_losses and not self.matches:
            raise ValueError(
                "There is nothing to distil: pass a `soft_loss`, or `matches` "
                "to the Distiller"
            )
        self._check_soft_losses()
        self._make_state(weights)
        self._trackers = TermMetrics(weights)
        scale_updates(self.optimizer, self._features.multipliers)

    def _make_state(self, weights):
        names = [str(key) for key in self._soft_losses] or [SOFT]
        self._replace("schedules", ScheduleState(names, weights))
        self._bind_temperatures()

    def _replace(self, name, value):
        """Sets an attribute; Keras would go on saving the old layers."""
        self._tracker.unlock()
        for layer in keras.tree.flatten(getattr(self, name)):
            self._tracker.untrack(layer)
        setattr(self, name, value)
        self._tracker.lock()

    def _bind_temperatures(self):
        for key, loss in self._soft_losses.items():
            temperature = getattr(loss, "temperature", None)
            variable = self.schedules.temperatures.get(str(key))
            if variable is None or not isinstance(temperature, (int, float)):
                continue
            variable.assign(temperature)
            loss.temperature = variable

    @property
    def bound_temperatures(self):
        """Dict, output name to its temperature, where a soft loss uses it."""
        return {
            str(key): loss.temperature
            for key, loss in self._soft_losses.items()
            if isinstance(getattr(loss, "temperature", None), keras.Variable)
            and str(key) in self.schedules.temperatures
        }

    def _check_soft_losses(self):
        checks.check_logits(self._soft_losses, self._teacher.models, "teacher")
        checks.check_logits(self._soft_losses, [self.student], "student")
        if self._prepared:
            soft.check_outputs(self._soft_losses, *self._output_specs)

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
            self._compile_loss = checks.compiled_loss(loss, names)
            self.make_test_function(force=True)
        if not (isinstance(soft_loss, str) and soft_loss == "unchanged"):
            self._soft_losses = soft.named_losses(soft_loss)
            self._check_soft_losses()
            self._bind_temperatures()
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
        self._features.set_active(matches)
        self._active = {HARD: bool(hard), SOFT: bool(soft)}
        self.retrace()

    def build_optimizer(self):
        """Makes the optimizer's slots, before a part of the model is frozen.

        An optimizer cannot take in a variable later.
        """
        if self.built and not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)

    def retrace(self):
        """Makes the next training step trace anew."""
        self.make_train_function(force=True)

    @property
    def needs_teacher(self):
        """Whether an active term compares with the teacher."""
        soft_on = self._active[SOFT] and self._soft_losses
        return bool(soft_on or self._features.active)

    def prepare(self, inputs):
        """Builds the projections and checks shapes on one batch of inputs.

        Needed once, before `fit`, when a model is subclassed and the data is
        a generator; else it happens by itself.

        Args:
            inputs: Arrays, or their `keras.KerasTensor` specs, as in `fit`.
        """
        self._prepare(*split(specs(inputs)))

    def _prepare(self, teacher_inputs, student_inputs, signal):
        def run(model, recorded, inputs):
            with taps.record(recorded) as recording:
                outputs = model(inputs)
                return outputs, [recording.value(tap) for tap in recorded]

        def student(inputs):
            return run(
                lambda x: call_model(self.student, x),
                self._features.student_taps,
                inputs,
            )

        def teacher(inputs):
            return run(self._teacher, self._features.teacher_taps, inputs)

        student_outputs, student_states = output_spec(student, student_inputs)
        if signal is None:
            if not self._teacher.models:
                raise ValueError(
                    "Without a teacher the batches must carry its signal: "
                    "x = {'student': inputs, 'teacher_signal': {'logits': "
                    "...}}"
                )
            teacher_outputs, states = output_spec(teacher, teacher_inputs)
            states = self._features.by_match(states)
        else:
            teacher_outputs = signal.get("logits")
            states = self._features.from_signal(signal)
        self._output_specs = teacher_outputs, student_outputs
        if self.compiled:
            soft.check_outputs(self._soft_losses, *self._output_specs)
        projections = self._features.build(states, student_states)
        self._replace("projections", projections)
        if self.compiled:
            scale_updates(self.optimizer, self._features.multipliers)
        self._prepared = True
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
        if not self._prepared and (self.matches or self.teacher is None):
            self.prepare(first_batch_specs(x))

    def load_weights(self, *args, **kwargs):
        """Loads a checkpoint; arguments as in `keras.Model.load_weights`."""
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

    def call(self, inputs, training=None):
        """The student's outputs."""
        student_inputs = split(inputs)[1]
        outputs = call_model(self.student, student_inputs, training)
        return attach_padding_mask(outputs, student_inputs)

    @property
    def output_names(self):
        """The student's output names, for Keras' losses and metrics."""
        return self.student.output_names

    def teacher_signal(self, inputs):
        """The teacher's outputs and states, from its one pass.

        Args:
            inputs: `x` of a batch.

        Returns:
            Dict with `"logits"`, `"states"` and `"masks"`, or None if no
            active term needs the teacher.
        """
        if not self.needs_teacher:
            return None
        inputs, _, signal = split(inputs)
        if signal is not None:
            states = self._features.from_signal(signal)
            return {
                "logits": signal.get("logits"),
                "states": states,
                "masks": {},
            }
        with taps.record(self._features.teacher_taps) as recording:
            logits = self._teacher(inputs)
        signal = self._features.teacher_states(recording, inputs)
        signal["logits"] = logits
        return keras.tree.map_structure(
            lambda value: None if value is None else ops.stop_gradient(value),
            signal,
        )

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
        with taps.record(self._features.student_taps) as recording:
            y_pred = self(x, training=True)
        terms = {}
        if self._active[HARD] and self._compile_loss is not None:
            if y is None:
                raise ValueError(
                    "The hard loss needs labels, the data has none. Pass "
                    "(x, y) batches, or `loss=None` to `compile`"
                )
            terms[HARD] = self._compile_loss(y, y_pred, sample_weight)
        if self._active[SOFT] and self._soft_losses:
            terms[SOFT] = soft.soft_value(
                self._soft_losses, signal["logits"], y_pred, sample_weight
            )
        if self._features.active:
            terms |= self._features.values(
                signal, recording, split(x)[1], sample_weight
            )
        total = sum(
            self.schedules.weight(term) * ops.cast(value, "float32")
            for term, value in terms.items()
        )
        total += sum(
            scale_for_distribution(ops.sum(ops.cast(own, "float32")))
            for own in self.losses
        )
        return total, y_pred, terms

    def update_terms(self, loss, terms, y_pred):
        """Adds one step's values to the metrics behind the logs."""
        size = ops.shape(keras.tree.flatten(y_pred)[0])[0]
        self._loss_tracker.update_state(unscale_for_distribution(loss), size)
        self._trackers.update(terms, size)

    def train_step(self, *args):
        """One step: `(data)` on TensorFlow, `(state, data)` on JAX."""
        return STEPS[keras.backend.backend()](self, *args)

    def compute_loss(self, x=None, y=None, y_pred=None, *args, **kwargs):
        """The student's own loss, as `evaluate` reports it."""
        if self._compile_loss is None and not self.losses:
            return ops.zeros(())
        return super().compute_loss(x, y, y_pred, *args, **kwargs)

    @contextlib.contextmanager
    def _evaluation(self):
        self._evaluating = True
        try:
            yield
        finally:
            self._evaluating = False

    def evaluate(self, *args, **kwargs):
        """Evaluates the student; arguments as in `keras.Model.evaluate`."""
        with self._evaluation():
            return super().evaluate(*args, **kwargs)

    def test_on_batch(self, *args, **kwargs):
        """Tests the student; arguments as in `keras.Model.test_on_batch`."""
        with self._evaluation():
            return super().test_on_batch(*args, **kwargs)

    @property
    def metrics(self):
        """Keras' metrics and, while training, one for each term."""
        found = super().metrics
        if not self.compiled or self._evaluating:
            return found
        terms = [match.name for match in self._features.active]
        if self._active[SOFT] and self._soft_losses:
            terms.insert(0, SOFT)
        if self._active[HARD] and self._compile_loss is not None:
            terms.insert(0, HARD)
        return found[:1] + self._trackers.of(terms) + found[1:]

    @property
    def non_trainable_variables(self):
        """On JAX also the teacher's, which the step takes as state."""
        own = super().non_trainable_variables
        if keras.backend.backend() != "jax":
            return own
        known = {id(v) for v in own}
        teacher = self._teacher.variables
        return own + [v for v in teacher if id(v) not in known]
