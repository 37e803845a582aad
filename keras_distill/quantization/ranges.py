"""What int8 holds in each place of a student, and the rounding to it."""

import keras
import numpy as np
from keras import ops

from keras_distill.quantization.activations import fixed_range
from keras_distill.quantization.readers import units_of
from keras_distill.quantization.rounding import fake_quantize
from keras_distill.quantization.rounding import scales

# How much of a range a batch's own ends replace.
MOVED = 0.01
# A unit's range is this share of the largest one's, at least.
SMALLEST_UNIT = 1e-3
# Places that have one range; `"units"` has one for each unit.
RANGED = "input", "inner", "output", "shares"


class Ranges:
    """The ends of what int8 holds, which follow the batches of training.

    Args:
        places: Dict from layers to tuples, as `readers.for_readers` gives it.
        kernels: The student's `Kernel`s, of int8.
        add_weight: Callable, of the layer that keeps the ends.
    """

    def __init__(self, places, kernels, add_weight):
        self._axes = {kernel.layer: kernel.axes for kernel in kernels}
        self._places = places
        self._ends = {}
        self.in_file = False  # Then all are known, and stay as they are.

        def new(name, shape=()):
            return add_weight(
                shape=shape,
                initializer="zeros",
                trainable=False,
                aggregation="mean",
                name=name,
            )

        for layer, of_layer in places.items():
            for place in (place for place in of_layer if place in RANGED):
                name = f"{layer.name}_{place}"
                self._ends[layer, place] = fixed_range(layer, place) or (
                    new(f"{name}_low"),
                    new(f"{name}_high"),
                )
            if "units" in of_layer:
                name = f"{layer.name}_largest"
                self._ends[layer, "units"] = new(name, units_of(layer))

    def ends(self, layer, place):
        """Two ends, of units the largest number of each; None if none."""
        return self._ends.get((layer, place))

    def read(self, layer, place):
        """The ends as numbers, of units as arrays."""
        if place == "units":
            largest = np.asarray(self._ends[layer, "units"])
            return -largest, largest
        return tuple(map(float, self._ends[layer, place]))

    def round(self, x, ends, moves):
        """A tensor on the grid between two ends.

        Args:
            x: Float tensor.
            ends: Pair of variables, or of numbers.
            moves: Boolean, whether variables follow `x`.
        """
        (low, high), values = ends, ops.cast(x, "float32")
        if self.in_file:
            return ops.cast(fake_quantize(values, low, high), x.dtype)
        known = high > low
        moves = moves and isinstance(low, keras.Variable)
        if moves:
            seen = ops.stop_gradient(values)
            _follow(low, ops.min(seen), known)
            _follow(high, ops.max(seen), known)
        value = ops.cast(fake_quantize(values, low, high), x.dtype)
        return value if moves else ops.where(known, value, x)

    def round_units(self, call, layer, moves):
        """What a layer gives, with the same integers for all its units.

        Its kernel has one scale for what it gives. Some units of a transformer
        give a hundred times as much as others, which would be left with a few
        integers (Bondarenko et al., 2021, https://arxiv.org/abs/2109.12948):
        weights and bias are divided by what is the largest that their unit
        gives, and the outputs, floats for their readers, multiplied by it.

        Args:
            call: Callable without arguments.
            layer: The layer that it calls.
            moves: Boolean, whether the ranges follow what it gives.
        """
        largest = self._ends[layer, "units"]
        known = ops.max(largest) > 0
        floor = SMALLEST_UNIT * ops.max(largest)
        unit = ops.where(known, ops.maximum(largest, floor), 1.0)
        weights = [v for v in (layer.kernel, layer.bias) if v is not None]
        with keras.StatelessScope([(v, _by_unit(v, unit)) for v in weights]):
            outputs = call()
        values = ops.cast(outputs, "float32")
        whole = fake_quantize(values, -1.0, 1.0)
        if not self.in_file:
            whole = ops.where(known, whole, values)
        if moves:
            axes = tuple(range(len(values.shape) - len(unit.shape)))
            seen = ops.max(ops.abs(ops.stop_gradient(values)), axis=axes)
            _follow(largest, seen * unit, known)
        return ops.cast(whole * unit, outputs.dtype)

    def bias_rounding(self, layer, ends):
        """A callable that brings the bias in what a layer gives onto integers.

        They are in steps of inputs times weights (Jacob et al., 2018, section
        2.4). In a file the converter does that itself, and what is done in one
        step with the kernel changes the bias first.

        Args:
            layer: Layer with a kernel of integers.
            ends: Pair, of what it reads.
        """
        units, is_fused = units_of(layer), self._places[layer] == ("input",)
        if layer.bias is None or units is None or is_fused or self.in_file:
            return lambda outputs: outputs
        # Here, as the scope of `round_units` does not hold the ends.
        low, high = map(ops.convert_to_tensor, ends)
        of_inputs = (ops.maximum(high, 0.0) - ops.minimum(low, 0.0)) / 255.0

        def rounded_bias(outputs):
            weights = ops.cast(layer.kernel.value, "float32")
            of_weights = scales(weights, 8, self._axes[layer], xp=ops)
            step = of_inputs * ops.reshape(of_weights, units)
            known = ops.where(step > 0, step, 1.0)
            bias = ops.cast(layer.bias.value, "float32")
            error = ops.round(bias / known) * known - bias
            error = ops.stop_gradient(ops.where(step > 0, error, 0.0))
            return outputs + ops.cast(error, outputs.dtype)

        return rounded_bias


def _follow(end, value, known):
    """Moves an end towards a batch's own, or onto it, if it is the first."""
    moved = ops.where(known, MOVED, 1.0)
    end.assign(end + moved * (value - end))


def _by_unit(variable, unit):
    """Weights over the ranges of their units, which are their last axes."""
    rows = ops.reshape(variable.value, (-1, *unit.shape))
    return ops.reshape(rows / unit, variable.shape)
