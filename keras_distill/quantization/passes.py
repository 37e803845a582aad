"""What becomes of activations on their way through a student."""

import functools

import keras


class Pass:
    """One call of a student, in which activations are rounded.

    What an integer kernel gives is in integers, on a grid of its own unless the
    next layer is done in the same step.

    Args:
        places: Dict from layers to tuples, as `readers.for_readers` gives it.
        ranges: Their `Ranges`.
        training: Boolean, whether these follow.
    """

    def __init__(self, places, ranges, training):
        self._places, self._ranges = places, ranges
        self._training = bool(training)
        self._on_grid, self._in_integers = {}, {}

    def through(self, layer, call, *args, **kwargs):
        """What a layer gives, rounded where it is to be."""
        if "apart" in self._places[layer]:
            return _attend(call, *args, **kwargs)
        return self._called(layer, call, *args, **kwargs)

    def _called(self, layer, call, x, *args, **kwargs):
        places = self._places[layer]
        if "shares" in places:
            ends = self._ranges.ends(layer, "shares")
            return self._round(call(x, *args, **kwargs), ends)
        if "input" in places:
            x = self._rounded(x, layer, "input")
            self._in_integers[id(x)] = x
            call = self._by_kernel(layer, call, self._on_grid[id(x)][1])
        call = functools.partial(call, x, *args, **kwargs)
        if "units" in places:
            return self._ranges.round_units(call, layer, self._training)
        outputs = call()
        read = [id(value) for value in keras.tree.flatten(x)]
        if not any(key in self._in_integers for key in read):
            return outputs
        if "output" in places:
            outputs = self._rounded(outputs, layer, "output")
        elif "same" in places and read[0] in self._on_grid:
            ends = self._on_grid[read[0]][1]
            outputs = self._with_range(outputs, ends, moves=False)
        self._in_integers[id(outputs)] = outputs
        return outputs

    def _rounded(self, x, layer, place):
        if id(x) in self._on_grid:
            return x
        return self._with_range(x, self._ranges.ends(layer, place))

    def _with_range(self, x, ends, moves=True):
        value = self._round(x, ends, moves)
        # Kept with their ids, which are another tensor's otherwise.
        self._on_grid[id(value)] = value, ends
        return value

    def _round(self, x, ends, moves=True):
        return self._ranges.round(x, ends, moves and self._training)

    def _by_kernel(self, layer, call, ends):
        """The call of a layer as its kernel of integers does it.

        Its bias is in integers, too, and what its activation reads, if that is
        a step of its own.
        """
        activation = layer.activation
        round_bias = self._ranges.bias_rounding(layer, ends)
        inner = self._ranges.ends(layer, "inner")

        def activated(x):
            x = round_bias(x)
            return activation(x if inner is None else self._round(x, inner))

        def called(*args, **kwargs):
            layer.activation = activated
            try:
                return call(*args, **kwargs)
            finally:
                layer.activation = activation

        return called


def _attend(call, *args, return_attention_scores=False, **kwargs):
    """Attention in the way that has a softmax of its own: to return it."""
    found = call(*args, return_attention_scores=True, **kwargs)
    return found if return_attention_scores else found[0]
