"""What becomes of activations on their way through a student."""

import contextlib

import keras


class Pass:
    """One call of a student, in which activations are rounded.

    What an integer kernel gives is in integers, on a grid of its own unless the
    next layer is done in the same step.

    Args:
        places: Dict from layers to tuples, as `activations.places` gives it.
        ranges: Dict from ids of layers and places to pairs of ends.
        round_activation: Callable of a tensor, its ends, and `moves`, whether
            they may follow it.
    """

    def __init__(self, places, ranges, round_activation):
        self._places, self._ranges = places, ranges
        self._round = round_activation
        self._on_grid, self._in_integers = {}, {}

    def through(self, layer, call, *args, **kwargs):
        """What a layer gives, rounded where it is to be."""
        if "apart" in self._places[layer]:
            return _attend(call, *args, **kwargs)
        return self._called(layer, call, *args, **kwargs)

    def _called(self, layer, call, x, *args, **kwargs):
        places = self._places[layer]
        if "shares" in places:
            ends = self._ranges[id(layer), "shares"]
            return self._round(call(x, *args, **kwargs), ends)
        if "input" in places:
            x = self._rounded(x, layer, "input")
            self._in_integers[id(x)] = x
        if "inner" in places:
            with self._inner(layer):
                outputs = call(x, *args, **kwargs)
        else:
            outputs = call(x, *args, **kwargs)
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
        return self._with_range(x, self._ranges[id(layer), place])

    def _with_range(self, x, ends, **moves):
        value = self._round(x, ends, **moves)
        # Kept with their ids, which are another tensor's otherwise.
        self._on_grid[id(value)] = value, ends
        return value

    @contextlib.contextmanager
    def _inner(self, layer):
        """What the layer's activation reads is rounded, too."""
        activation = layer.activation
        ends = self._ranges[id(layer), "inner"]
        layer.activation = lambda x: activation(self._round(x, ends))
        try:
            yield
        finally:
            layer.activation = activation


def _attend(call, *args, return_attention_scores=False, **kwargs):
    """Attention in the way that has a softmax of its own: to return it."""
    found = call(*args, return_attention_scores=True, **kwargs)
    return found if return_attention_scores else found[0]
