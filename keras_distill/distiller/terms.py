"""What is distilled: the losses and the matches, and which of them are on."""

from keras_distill._backend import output_spec
from keras_distill.distiller import checks
from keras_distill.distiller.features import Features
from keras_distill.distiller.heads import head_taps
from keras_distill.distiller.heads import heads
from keras_distill.distiller.soft import SoftLosses
from keras_distill.distiller.state import HARD
from keras_distill.distiller.state import SOFT
from keras_distill.inputs import call_model
from keras_distill.recording import record


class Terms:
    """The terms of a Distiller's loss, and which of them are on.

    Not a Keras object, so that Keras neither tracks nor saves the teacher.

    Args:
        teacher: `Teacher`.
        student: `keras.Model`.
        matches: List of `Match`.

    Attributes:
        hard: The hard loss as Keras compiled it, or None.
        soft: `SoftLosses`.
        features: `Features`.
        active: List of the names of the terms that are on.
        needs_teacher: Boolean, whether one of them compares with the teacher.
        metrics: Dict, `"loss"` and term names to the `keras.metrics.Mean`
            behind the logs. The Distiller shows them to Keras while it trains
            and hides them while it evaluates the student alone.
        outputs: Pair of the teacher's and the student's outputs, as specs;
            None while they are not known.
    """

    def __init__(self, teacher, student, matches):
        self.teacher = teacher
        self.student = student
        self.features = Features(matches, teacher.models, student)
        self.hard = None
        self.soft = SoftLosses(None)
        self.metrics = {}
        self.outputs = None
        self._hard_loss = None
        self._heads = {"teacher": [], "student": []}
        self.set_active()

    def set_active(self, hard=True, soft=True, matches=None):
        """Switches terms on and off; `matches` None means all of them."""
        self.features.set_active(matches)
        self._on = {HARD: bool(hard), SOFT: bool(soft)}
        self._update()

    def _update(self):
        there = {HARD: self.hard is not None, SOFT: bool(self.soft.named)}
        self.active = [name for name in there if there[name] and self._on[name]]
        self.active += [match.name for match in self.features.active]
        self.needs_teacher = any(name != HARD for name in self.active)

    def check_hard(self, loss):
        """Raises `ValueError` if `loss`, as given by the user, cannot be."""
        checks.check_hard_loss(loss, self._heads["student"])

    def use_hard(self, loss, compiled):
        """Makes `loss` the hard loss; `compiled` is what Keras made of it."""
        self._hard_loss, self.hard = loss, compiled
        self._update()

    def use_soft(self, soft_losses):
        """Makes `soft_losses` those in use.

        Raises:
            ValueError: if they do not fit the models' outputs.
        """
        self._check_soft(soft_losses)
        self.soft = soft_losses
        self._update()

    def _check_soft(self, soft_losses):
        for side, models in self._heads.items():
            for name, activations in models:
                soft_losses.check_heads(activations, f"{side} {name!r}")
        if self.outputs is not None:
            soft_losses.check_outputs(*self.outputs)

    def infer(self, teacher_inputs, student_inputs, signal):
        """Checks the shapes of all outputs and builds the projections.

        Args:
            teacher_inputs: Specs of what the teacher reads.
            student_inputs: Specs of what the student reads.
            signal: Specs of the teacher's signal, or None where it runs.

        Returns:
            List of projection layers.
        """
        features = self.features
        student_outputs, student_states = self._trace(
            "student",
            lambda x: call_model(self.student, x),
            [self.student],
            features.student_taps,
            student_inputs,
        )
        if signal is not None:
            teacher_outputs = self.soft.from_signal(signal)
            states = features.from_signal(signal)
        elif self.teacher.models:
            teacher_outputs, states = self._trace(
                "teacher",
                self.teacher.outputs,
                self.teacher.models,
                features.teacher_taps,
                teacher_inputs,
            )
            states = features.by_match(states)
        else:
            raise ValueError(
                "Without a teacher the batches must carry its signal: "
                "x = {'student': inputs, 'teacher_signal': {'logits': ...}}"
            )
        self.outputs = teacher_outputs, student_outputs
        self._check_soft(self.soft)
        self.check_hard(self._hard_loss)
        return features.build(states, student_states)

    def _trace(self, side, call, models, taps, inputs):
        """Specs of the outputs and of the tapped values; notes the heads."""

        def traced(inputs):
            watched = [tap for model in models for tap in head_taps(model)]
            with record([*taps, *watched]) as recording:
                outputs = call(inputs)
            self._heads[side] = [(m.name, heads(m, recording)) for m in models]
            return outputs, [recording.value(tap) for tap in taps]

        return output_spec(traced, inputs)

    def given_signal(self, signal):
        """What the step compares with, where a signal came with the batch."""
        soft = self.soft.from_signal(signal) if SOFT in self.active else None
        states = self.features.from_signal(signal)
        return {"logits": soft, "states": states, "masks": {}}
