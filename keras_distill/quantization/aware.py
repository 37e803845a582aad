"""A student under the rounding of the file that it will be."""

import contextlib

import keras
import numpy as np
from keras import ops

from keras_distill._checks import check_choice
from keras_distill.inputs import call_model
from keras_distill.quantization import activations as places_of_activations
from keras_distill.quantization.kernels import kernels
from keras_distill.quantization.passes import Pass
from keras_distill.quantization.ranges import Ranges
from keras_distill.quantization.readers import for_readers
from keras_distill.quantization.rounding import round_through
from keras_distill.quantization.rounding import rounded
from keras_distill.recording import wrap_calls

BITS = {"int8": 8, "int4": 4}


@keras.saving.register_keras_serializable(package="keras_distill")
class QuantizationAware(keras.Model):
    """Trains a student under the rounding that its file will have.

    The weights of the student stay floats, and learn; whenever it is called,
    they are on the grid of integers, and so are its activations if asked, with
    ranges that follow the batches. Gradients pass straight through. It is the
    student of a `Distiller` like any other; `kd.export.litert` makes the file
    that computes the same, whose `quantization` it knows.

    Only worth its time where plain quantization loses: int4 weights, and int8
    activations. For each unit that comes out one scale is kept, of a table for
    each row, or so many narrow ones, from the largest weight.

    Args:
        student: Built `keras.Model`, with plain weights.
        weights: `"int8"` (default) or `"int4"`.
        activations: `None` (default), or `"int8"`, with int8 weights alone:
            what dense and convolutional layers read and give, and what follows
            them in integers, the shares that attention gives among them.
            Its scores and normalisations of layers stay floats. Their ranges
            are means over the batches of training, the last hundred or so;
            before the first nothing is rounded. A tanh, a sigmoid and a softmax
            have those of their kernels.
        name: String. Optional.

    Attributes:
        student: The student, whose weights stay floats.
        places: Dict from layers to where activations are rounded: `"input"`,
            `"inner"`, what their activation reads, `"output"`, `"same"`, an
            output on the grid of the input, `"units"`, an output on a grid for
            each unit, `"shares"`, what attention gives each position, or
            `"apart"`, attention that computes these in a layer of their own.
            What an integer kernel does in one step with the layer after it has
            no output, and what nothing but floats read has `"units"`, or none.

    Raises:
        ValueError: If nothing can be rounded, a layer is quantised already, or
            with activations recurrent or separable, or an argument is wrong.

    Example:

    >>> import keras
    >>> student = keras.Sequential(
    ...     [keras.Input((64,)), keras.layers.Dense(32), keras.layers.Dense(2)])
    >>> aware = QuantizationAware(student, weights="int4")
    >>> tuple(aware(np.ones((1, 64))).shape)
    (1, 2)
    >>> len(np.unique(aware.finish().layers[0].kernel[:, 0])) <= 15
    True

    Reference:
        Jacob et al., 2018, https://arxiv.org/abs/1712.05877.
    """

    def __init__(self, student, weights="int8", activations=None, name=None):
        super().__init__(name=name)
        check_choice("weights", weights, tuple(BITS))
        check_choice("activations", activations, (None, "int8"))
        if activations and weights != "int8":
            raise ValueError(
                "`activations='int8'` goes with `weights='int8'`. Received: "
                f"weights={weights!r}"
            )
        _check_student(student)
        self.student = student
        self.weights_in, self.activations_in = weights, activations
        self._kernels = kernels(student)
        self.places = {}
        if activations:
            places = places_of_activations.places(student, self._kernels)
            self.places = for_readers(student, places)
        self._ranges = Ranges(self.places, self._kernels, self.add_weight)
        self.built = True

    @property
    def quantization(self):
        """String, the form of `kd.export.litert` that computes the same."""
        if self.activations_in:
            return "int8"
        return {"int8": "int8_weights", "int4": "int4"}[self.weights_in]

    @property
    def output_names(self):
        """The student's output names, for Keras' losses and metrics."""
        return self.student.output_names

    def call(self, inputs, training=None):
        """The student's outputs, from rounded weights and activations."""
        if self._ranges.in_file:
            return self._run(inputs, training)
        before = [(v, v.value) for v in self.variables]
        values = {id(v): value for v, value in before}
        for kernel in self._kernels:
            values[id(kernel.variable)] = self._round(kernel)
        # A scope inside JAX' own does not see what that one holds.
        with keras.StatelessScope([(v, values[id(v)]) for v, _ in before]) as s:
            outputs = self._run(inputs, training)
        for variable, _ in before:
            value = s.get_current_value(variable)
            if value is not values[id(variable)]:
                variable.assign(value)
        return outputs

    def finish(self):
        """Puts the student's weights onto the grid, where they are.

        Returns:
            `student`, a plain model. Its activations are not rounded.
        """
        for kernel in self._kernels:
            kernel.variable.assign(self._on_grid(kernel))
        return self.student

    @contextlib.contextmanager
    def on_grid(self):
        """The student's weights as `finish` puts them, in this context."""
        saved = [np.asarray(kernel.variable) for kernel in self._kernels]
        self.finish()
        self._ranges.in_file = True
        try:
            yield
        finally:
            self._ranges.in_file = False
            for kernel, value in zip(self._kernels, saved):
                kernel.variable.assign(value)

    def ranges(self, layer, place):
        """The ends of what int8 holds somewhere, 0 if unknown.

        Args:
            layer: A layer in `places`.
            place: `"input"`, `"inner"`, `"output"`, `"units"` or `"shares"`,
                one of its places.

        Returns:
            Two floats; of `"units"` two arrays, a number for each unit.
        """
        return self._ranges.read(layer, place)

    def get_config(self):
        """The student and how it is rounded, as `from_config` takes them."""
        return {
            "name": self.name,
            "student": keras.saving.serialize_keras_object(self.student),
            "weights": self.weights_in,
            "activations": self.activations_in,
        }

    @classmethod
    def from_config(cls, config):
        """Makes it again, with a student of its own."""
        student = keras.saving.deserialize_keras_object(config["student"])
        return cls(**config | {"student": student})

    def _bits(self):
        return BITS[self.weights_in]

    def _round(self, kernel):
        value = ops.cast(kernel.variable.value, "float32")
        return round_through(value, self._bits(), kernel.axes, kernel.rows)

    def _on_grid(self, kernel):
        value = np.asarray(kernel.variable, "float32")
        return rounded(value, self._bits(), kernel.axes, kernel.rows)

    def _run(self, inputs, training):
        passed = Pass(self.places, self._ranges, training)
        with wrap_calls(self.places, passed.through):
            return call_model(self.student, inputs, training)


def _check_student(student):
    if not isinstance(student, keras.Model) or not student.built:
        raise ValueError(
            "`student` must be a built `keras.Model`: call it on a batch "
            f"first. Received: {student!r}"
        )
    if isinstance(student, QuantizationAware):
        raise ValueError(
            "`student` must not be under rounding already. Pass its "
            f"`student`. Received: {student.name!r}"
        )


def plain_student(student):
    """The model whose layers and inputs a student has."""
    return (
        student.student if isinstance(student, QuantizationAware) else student
    )


def on_grid(student):
    """A context in which the weights of a student are those of its file."""
    if isinstance(student, QuantizationAware):
        return student.on_grid()
    return contextlib.nullcontext()
