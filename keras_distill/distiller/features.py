"""All matches of a Distiller: their taps, projections and values."""

import keras
from keras import ops

from keras_distill._checks import check_choice
from keras_distill._masks import padding_mask
from keras_distill.distiller.state import HARD
from keras_distill.distiller.state import LOSS
from keras_distill.distiller.state import SOFT
from keras_distill.matching import BoundMatch
from keras_distill.matching import Match


class Features:
    """The matches between one teacher and one student.

    Args:
        matches: List of `Match`.
        teachers: List of models, empty when signals come with the batches.
        student: `keras.Model`.

    Attributes:
        multipliers: List of pairs, a projection's variable and the factor of
            its learning rate.

    Raises:
        ValueError: if a layer is not found or a name is used twice.
    """

    def __init__(self, matches, teachers, student):
        for match in matches:
            if not isinstance(match, Match):
                raise ValueError(
                    "`matches` must be a list of `kd.Match`. "
                    f"Received: {match!r}"
                )
        self.matches = [BoundMatch(m, teachers, student) for m in matches]
        names = [match.name for match in self.matches]
        taken = (LOSS, HARD, SOFT)
        for name in names:
            if names.count(name) > 1 or name in taken:
                raise ValueError(
                    f"Each match needs a name of its own, none of {taken}. "
                    f"Received: {names}. Pass `name` to `kd.Match`"
                )
        self.multipliers = []
        self.set_active(None)

    def set_active(self, names):
        """Leaves only the matches in `names` on; None means all."""
        known = [match.name for match in self.matches]
        for name in known if names is None else names:
            check_choice("matches", name, known)
        self.active = [
            match
            for match in self.matches
            if names is None or match.name in names
        ]
        for match in self.matches:
            if match.projection is not None:
                on = match in self.active and match.trains_projection
                match.projection.trainable = on
        self.student_taps = [t for m in self.active for t in m.student_taps]
        self.teacher_taps = [t for m in self.active for t in m.teacher_taps]

    def by_match(self, values):
        """Splits a flat list, one value a tap, into one list a match."""
        values = iter(values)
        return {
            match.name: [next(values) for _ in match.student_taps]
            for match in self.active
        }

    def from_signal(self, signal):
        """The teacher's states that came with a batch, one list a match."""
        missing = [m.name for m in self.active if m.name not in signal]
        if missing:
            raise ValueError(
                f"The teacher signal must hold one entry for each match. "
                f"Missing: {missing}. Received: {sorted(signal)}"
            )
        return {
            match.name: list(signal[match.name])
            if match.pair
            else [signal[match.name]]
            for match in self.active
        }

    def build(self, teacher_states, student_states):
        """Builds the projections.

        Args:
            teacher_states: Dict, match name to its list of specs.
            student_states: Flat list of specs, one a tap.

        Returns:
            List of projection layers.
        """
        student_states = self.by_match(student_states)
        self.multipliers = []
        for match in self.matches:
            match.build(teacher_states[match.name], student_states[match.name])
            if match.projection is not None:
                factor = match.match.learning_rate_multiplier
                self.multipliers += [
                    (variable, factor)
                    for variable in match.projection.trainable_variables
                ]
        projections = [match.projection for match in self.matches]
        return [p for p in projections if p is not None]

    def values(self, teacher, student, inputs, sample_weight):
        """The scalar value of each active match, by name.

        Args:
            teacher: Dict with `"states"`, match name to list of tensors, and
                `"masks"`, match name to a mask or None.
            student: `Recording` of the student's pass.
            inputs: The student's inputs, for their padding mask.
            sample_weight: Tensor `[batch]`, or None.
        """
        weights = keras.tree.flatten(sample_weight)
        if len(weights) > 1:
            raise ValueError(
                "Matches take one `sample_weight` of shape [batch], not one "
                f"for each output. Received: {len(weights)} of them"
            )
        values = {}
        for match in self.active:
            states = [student.value(tap) for tap in match.student_taps]
            mask = self._mask(student, match.student_taps[0], inputs)
            values[match.name] = match(
                teacher["states"][match.name],
                states,
                _both(mask, teacher["masks"].get(match.name)),
                weights[0],
            )
        return values

    def teacher_states(self, recording, inputs):
        """What `values` needs of the teacher, from its one pass."""
        return {
            "states": self.by_match(
                [recording.value(tap) for tap in self.teacher_taps]
            ),
            "masks": {
                match.name: self._mask(recording, match.teacher_taps[0], inputs)
                for match in self.active
            },
        }

    @staticmethod
    def _mask(recording, tap, inputs):
        mask = recording.mask(tap)
        return padding_mask(inputs) if mask is None else mask


def _both(first, second):
    if first is None or second is None:
        return second if first is None else first
    first, second = ops.cast(first, "bool"), ops.cast(second, "bool")
    if first.shape[-1] != second.shape[-1]:  # The loss pools over length.
        return first
    return ops.logical_and(first, second)
