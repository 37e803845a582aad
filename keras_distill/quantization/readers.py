"""What is rounded where nothing but floats reads it."""

import keras
import numpy as np
from keras import layers

from keras_distill._backend import symbolic_inputs
from keras_distill._backend import trace
from keras_distill._backend import value_layer
from keras_distill.quantization.activations import fixed_range
from keras_distill.quantization.kernels import CONVOLUTIONS
from keras_distill.quantization.kernels import DEPTHWISE
from keras_distill.recording import wrap_calls


def units_of(layer):
    """The shape of a layer's units: the last axes of its outputs and bias.

    Args:
        layer: Built `keras.Layer` with an integer kernel.

    Returns:
        Tuple, or None where the units stand elsewhere.
    """
    if isinstance(layer, layers.EinsumDense):
        inputs, outputs = layer.equation.split("->")
        inputs, kernel = inputs.split(",")
        units = "".join(name for name in kernel if name not in inputs)
        shape = tuple(layer.kernel.shape[-len(units) :])
        last = kernel.endswith(units) and outputs.endswith(units)
        bias_fits = layer.bias is None or tuple(layer.bias.shape) == shape
        return shape if units and last and bias_fits else None
    if getattr(layer, "data_format", None) == "channels_first":
        return None
    if isinstance(layer, DEPTHWISE):
        return (int(np.prod(layer.kernel.shape[-2:])),)
    if isinstance(layer, (layers.Dense, *CONVOLUTIONS)):
        return (layer.kernel.shape[-1],)
    return None


def for_readers(model, places):
    """The places of activations, without integers that only floats read.

    What the converter finds between integers and a normalisation of layers it
    makes integers, too, with ranges of its own. So floats read what has no
    integers: what is computed without weights, or by an activation that is a
    step of its own, is not rounded, and kernels have a range for each unit.

    The model is traced, all of it together, as what a KerasHub block computes
    inside is in no graph of Keras.

    Args:
        model: Built `keras.Model`.
        places: Dict from layers to tuples, as `activations.places` gives it.

    Returns:
        Dict like `places`; the same for a model that does not know its inputs.
    """
    inputs = symbolic_inputs(model)
    while inputs is not None and (found := _read_by_floats(model, places)):
        # In their order, by which ranges are saved and loaded.
        places = {
            layer: _without_output(of_layer) if layer in found else of_layer
            for layer, of_layer in places.items()
            if layer not in found or of_layer != ("output",)
        }
    return places


def _read_by_floats(model, places):
    """The layers whose rounded outputs neither integers read nor the caller."""
    found = []

    def asked(values):
        readers = _Readers(places)
        with wrap_calls(places, readers.through):
            outputs = model(values)
        readers.note_read(outputs)
        found.append(readers.given - readers.read)
        return outputs

    trace(asked, symbolic_inputs(model))
    return found[-1]


class _Readers:
    """Follows what layers give to the layers that read it."""

    def __init__(self, places):
        self._places = places
        self._outputs = {}  # By ids, kept, as those are another's otherwise.
        self.given, self.read = set(), set()

    def through(self, layer, call, *args, **kwargs):
        """The layer's outputs, after noting what it reads and gives."""
        places, givers = self._places[layer], self._givers((args, kwargs))
        outputs = call(*args, **kwargs)
        if "same" in places:
            self._outputs[id(outputs)] = outputs, givers
            return outputs
        self.read |= givers
        if "apart" in places:
            # What attention averages is multiplied as integers.
            self.read.add(value_layer(layer))
        elif "output" in places and _may_be_floats(layer, places):
            self.given.add(layer)
            self._outputs[id(outputs)] = outputs, {layer}
        return outputs

    def note_read(self, values):
        """Notes that something reads tensors in integers, or as they are."""
        self.read |= self._givers(values)

    def _givers(self, values):
        kept = (self._outputs.get(id(x)) for x in keras.tree.flatten(values))
        return set().union(*(givers for _, givers in filter(None, kept)))


def _may_be_floats(layer, places):
    """Whether its kernel leaves that open, or can have ranges of units."""
    if fixed_range(layer, "output") is not None:
        return False
    return places != ("input", "output") or units_of(layer) is not None


def _without_output(places):
    left = tuple(place for place in places if place != "output")
    return (*left, "units") if left == ("input",) else left
