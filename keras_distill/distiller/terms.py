"""What is distilled: the soft losses and the matches, and their values."""

import keras
from keras import ops

from keras_distill._backend import output_spec
from keras_distill.distiller.features import Features
from keras_distill.distiller.inputs import split
from keras_distill.distiller.soft import SoftLosses
from keras_distill.distiller.state import HARD
from keras_distill.distiller.state import SOFT
from keras_distill.recording import record
from keras_distill.teachers import call_model


class Terms:
    """The terms of a Distiller's loss, and which of them are on.

    Not a Keras object, so that Keras neither tracks nor saves the teacher.

    Args:
        teacher: `Teacher`.
        student: `keras.Model`.
        matches: List of `Match`.
    """

    def __init__(self, teacher, student, matches):
        self.teacher = teacher
        self.student = student
        self.features = Features(matches, teacher.models, student)
        self.soft = SoftLosses(None)
        self.on = {HARD: True, SOFT: True}
        self.outputs = None

    def set_active(self, hard=True, soft=True, matches=None):
        """Switches terms on and off; `matches` None means all of them."""
        self.features.set_active(matches)
        self.on = {HARD: bool(hard), SOFT: bool(soft)}

    def use(self, soft_losses):
        """Makes `soft_losses` those in use.

        Raises:
            ValueError: if they do not fit the models' outputs.
        """
        models = {"teacher": self.teacher.models, "student": [self.student]}
        soft_losses.check_logits(models)
        if self.outputs is not None:
            soft_losses.check_outputs(*self.outputs)
        self.soft = soft_losses

    @property
    def soft_on(self):
        return self.on[SOFT] and bool(self.soft.named)

    @property
    def needs_teacher(self):
        return self.soft_on or bool(self.features.active)

    def names(self, hard):
        """Names of the active terms; `hard` tells if there is a hard loss."""
        first = [HARD] if hard and self.on[HARD] else []
        first += [SOFT] if self.soft_on else []
        return first + [match.name for match in self.features.active]

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

        def student(inputs):
            with record(features.student_taps) as recording:
                outputs = call_model(self.student, inputs)
            return outputs, [recording.value(t) for t in features.student_taps]

        def teacher(inputs):
            with record(features.teacher_taps) as recording:
                outputs = self.teacher(inputs)
            return outputs, [recording.value(t) for t in features.teacher_taps]

        student_outputs, student_states = output_spec(student, student_inputs)
        if signal is not None:
            teacher_outputs = self.soft.from_signal(signal)
            states = features.from_signal(signal)
        elif self.teacher.models:
            teacher_outputs, states = output_spec(teacher, teacher_inputs)
            states = features.by_match(states)
        else:
            raise ValueError(
                "Without a teacher the batches must carry its signal: "
                "x = {'student': inputs, 'teacher_signal': {'logits': ...}}"
            )
        self.soft.check_outputs(teacher_outputs, student_outputs)
        self.outputs = teacher_outputs, student_outputs
        return features.build(states, student_states)

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
        inputs, _, given = split(inputs)
        if given is not None:
            return {
                "logits": self.soft.from_signal(given)
                if self.soft_on
                else None,
                "states": self.features.from_signal(given),
                "masks": {},
            }
        with record(self.features.teacher_taps) as recording:
            logits = self.teacher(inputs)
        signal = self.features.teacher_states(recording, inputs)
        signal["logits"] = logits
        return keras.tree.map_structure(
            lambda value: None if value is None else ops.stop_gradient(value),
            signal,
        )

    def values(self, signal, recording, inputs, y_pred, sample_weight, labels):
        """The unweighted value of each active term but the hard loss.

        Args:
            signal: What `teacher_signal` gave.
            recording: `Recording` of the student's pass.
            inputs: The student's inputs.
            y_pred: The student's outputs.
            sample_weight: As in `keras.Model.fit`, or None.
            labels: As in `keras.Model.fit`, or None.
        """
        values = {}
        if self.soft_on:
            values[SOFT] = self.soft(
                signal["logits"], y_pred, sample_weight, labels
            )
        if self.features.active:
            values |= self.features.values(
                signal, recording, inputs, sample_weight
            )
        return values
