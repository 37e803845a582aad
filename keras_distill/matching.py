"""Matches: pairs of places in teacher and student, and their projections."""

import keras
from keras import ops

from keras_distill import taps
from keras_distill._backend import set_mask
from keras_distill._checks import check_weight
from keras_distill.layer_maps import uniform_layer_map as uniform_layer_map
from keras_distill.losses import FeatureLoss
from keras_distill.losses._reduction import share_of_mean

PROJECTIONS = {"linear": None, "relu": "relu", "tanh": "tanh"}


class Match:
    """One pair of layers whose values are to agree.

    Args:
        teacher: Where to read in the teacher: a tap from `kd.hidden_states`
            or `kd.attention_maps`, a layer, its `/`-separated path, or an
            integer index into `kd.hidden_states(teacher)`. A pair of these
            for losses that compare the relation of two layers
            (`FlowOfSolution`, `NeuronSelectivity`).
        student: The same for the student.
        loss: A feature loss of `kd.losses`, or another `keras.losses.Loss`
            of the teacher's state and the student's.
        weight: Number, at least 0. Defaults to `1.0`.
        projection: What brings the student's values to the teacher's width:
            `"linear"`, `"relu"`, `"tanh"` (a dense layer with this
            activation), a `keras.layers.Layer`, `None` for nothing, or
            `"auto"`, linear where the loss needs equal widths and they are
            not. Trained with the student, never exported with it.
        learning_rate_multiplier: Number, at least 0. The projection's own
            factor on each update. Defaults to `1.0`.
        name: String, the name in the logs. Defaults to the loss's name and
            the student's layer.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> from keras_distill import losses
    >>> match = Match(6, 2, losses.HiddenMSE(), weight=0.5)
    >>> match.projection
    'auto'

    Reference:
        Romero et al., 2014, https://arxiv.org/abs/1412.6550, eq. 3.
    """

    def __init__(
        self,
        teacher,
        student,
        loss,
        weight=1.0,
        projection="auto",
        learning_rate_multiplier=1.0,
        name=None,
    ):
        check_weight("weight", weight)
        check_weight("learning_rate_multiplier", learning_rate_multiplier)
        if not isinstance(loss, keras.losses.Loss):
            raise ValueError(
                "`loss` must be an instance of `keras.losses.Loss`, such as "
                f"`kd.losses.HiddenMSE()`. Received: loss={loss!r}"
            )
        if not (
            projection in (None, "auto", *PROJECTIONS)
            if projection is None or isinstance(projection, str)
            else isinstance(projection, keras.layers.Layer)
        ):
            raise ValueError(
                "`projection` must be None, 'auto', "
                f"{', '.join(map(repr, PROJECTIONS))} or a layer. "
                f"Received: projection={projection!r}"
            )
        self.teacher = teacher
        self.student = student
        self.loss = loss
        self.weight = weight
        self.projection = projection
        self.learning_rate_multiplier = learning_rate_multiplier
        self.name = name


def _as_list(reference):
    is_pair = isinstance(reference, (list, tuple))
    return list(reference) if is_pair else [reference]


def _resolve_teacher(models, reference):
    errors = []
    for model in models:
        try:
            return taps.resolve(model, reference)
        except ValueError as error:
            errors.append(str(error))
    raise ValueError("; ".join(errors))


class BoundMatch:
    """A `Match` whose layers were found in a teacher and a student.

    Args:
        match: `Match`.
        teachers: List of models to look for the teacher's layers in. Empty
            when the teacher's values come with the batches.
        student: `keras.Model`.

    Raises:
        ValueError: if a layer is not there, naming the match.
    """

    def __init__(self, match, teachers, student):
        self.match = match
        self.pair = isinstance(match.student, (list, tuple))
        self.name = match.name
        feature = isinstance(match.loss, FeatureLoss)
        self._across_widths = feature and match.loss.across_widths
        self._across_lengths = feature and match.loss.across_lengths
        try:
            self.student_taps = [
                taps.resolve(student, reference)
                for reference in _as_list(match.student)
            ]
            self.name = match.name or self._default_name()
            self.teacher_taps = [
                _resolve_teacher(teachers, reference)
                for reference in _as_list(match.teacher)
                if teachers
            ]
        except ValueError as error:
            label = self.name or match.loss
            raise ValueError(f"Match {label!r}: {error}") from error
        if len(_as_list(match.teacher)) != len(self.student_taps):
            raise ValueError(
                f"Match {self.name!r}: teacher and student must name the same "
                f"number of layers. Received: teacher={match.teacher}, "
                f"student={match.student}"
            )
        if self.pair != (feature and match.loss.pairs):
            wanted = "single layers" if self.pair else "pairs of layers"
            raise ValueError(
                f"Match {self.name!r}: `{type(match.loss).__name__}` compares "
                f"{wanted}. Received: student={match.student!r}"
            )
        self.projection = None
        self.trains_projection = False

    def _default_name(self):
        layers = "-".join(str(tap).split("/")[-1] for tap in self.student_taps)
        name = f"{self.match.loss.name}_{layers}"
        return name.replace(":", "_").replace("@", "_")

    def build(self, teacher_specs, student_specs):
        """Checks the shapes and makes the projection.

        Args:
            teacher_specs: List of objects with `shape`, one a layer.
            student_specs: The same for the student.
        """
        for teacher, student in zip(teacher_specs, student_specs):
            self._check_lengths(teacher.shape, student.shape)
        width = teacher_specs[0].shape[-1]
        projection = self.match.projection
        equal = all(
            t.shape[-1] == s.shape[-1]
            for t, s in zip(teacher_specs, student_specs)
        )
        free = self._across_widths
        if projection == "auto":
            projection = None if equal or free else "linear"
        if projection is None and not equal and not free:
            raise ValueError(
                f"Match {self.name!r}: with `projection=None` teacher and "
                "student must have the same width. Received: teacher shape "
                f"{tuple(teacher_specs[0].shape)}, student shape "
                f"{tuple(student_specs[0].shape)}. Pass projection='linear'"
            )
        if isinstance(projection, str):
            projection = keras.layers.Dense(
                width,
                activation=PROJECTIONS[projection],
                name=f"{self.name}_projection",
            )
        if projection is None:
            return
        shape = student_specs[0].shape
        if not projection.built:
            projection.build(shape)
        projected = projection.compute_output_shape(shape)
        if projected[-1] != width and not free:
            raise ValueError(
                f"Match {self.name!r}: the projection must give the teacher's "
                f"width. Expected {width}. Received: {projected[-1]}"
            )
        self.projection = projection
        self.trains_projection = projection.trainable

    def _check_lengths(self, teacher, student):
        pools = self._across_lengths
        if len(teacher) != len(student):
            problem = "rank"
        elif pools or len(teacher) < 3 or None in (teacher[-2], student[-2]):
            return
        elif teacher[-2] != student[-2]:
            problem = "sequence length"
        else:
            return
        raise ValueError(
            f"Match {self.name!r}: teacher and student must have the same "
            f"{problem}. Received: teacher shape {tuple(teacher)}, student "
            f"shape {tuple(student)}"
        )

    def __call__(self, teacher_states, student_states, mask, sample_weight):
        """The scalar value of this match.

        Args:
            teacher_states: List of tensors, one a layer.
            student_states: List of tensors, one a layer.
            mask: Tensor `[batch, length]` of both models, or None. It masks no
                state `[batch, width]`, which has no tokens.
            sample_weight: Tensor `[batch]`, or None.
        """
        for teacher, student in zip(teacher_states, student_states):
            self._check_lengths(teacher.shape, student.shape)
        if self.projection is not None:
            student_states = [self.projection(s) for s in student_states]
        loss = self.match.loss
        teacher = teacher_states if self.pair else teacher_states[0]
        student = student_states if self.pair else student_states[0]
        if isinstance(loss, FeatureLoss):
            return loss(teacher, student, sample_weight, mask=mask)
        if mask is None or len(student.shape) < 3:
            return loss(teacher, student, sample_weight)
        self._check_tokens(student.shape)
        set_mask(student, mask)
        if sample_weight is not None:
            # Keras would lay the weights of the rows on the tokens.
            sample_weight = ops.reshape(sample_weight, (-1, 1))
        value = loss(teacher, student, sample_weight)
        return value * share_of_mean(loss, sample_weight, mask)

    def _check_tokens(self, shape):
        """Raises `ValueError` where Keras would lay the mask on other axes."""
        if len(shape) > 3:
            raise ValueError(
                f"Match {self.name!r}: with a padding mask "
                f"`{self.match.loss.name}` takes states [batch, length, width] "
                "or [batch, width]. Use a loss of `kd.losses`, such as "
                "`AttentionMSE` for attention. Received: student shape "
                f"{tuple(shape)}"
            )
