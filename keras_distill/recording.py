"""Reads taps during the one call of a model.

A layer's `call` is intercepted while the model runs, so nested and subclassed
models need no second pass.
"""

import contextlib
import dataclasses

from keras import ops

from keras_distill._backend import get_mask

SMALLEST_PROBABILITY = 1e-9


class Recording:
    """What the tapped layers computed while `record` was active."""

    def __init__(self):
        self._values = {}

    def append(self, layer, kind, value):
        self._values.setdefault((id(layer), kind), []).append(value)

    def value(self, tap):
        """The tensor at `tap`.

        Raises:
            ValueError: if the layer was not called, or not often enough, or
                if it gave something else than one tensor.
        """
        kind = "attention" if tap.kind == "attention_scores" else tap.kind
        calls = self._values.get((id(tap.layer), kind), [])
        if tap.call_index >= len(calls):
            raise ValueError(
                f"Layer {tap.path!r} was called {len(calls)} times in this "
                f"pass, call {tap.call_index} was asked for"
            )
        value = calls[tap.call_index]
        if not hasattr(value, "shape"):
            raise ValueError(
                f"Layer {tap.path!r} must give one tensor. Received: "
                f"{type(value).__name__}. Tap a layer inside it instead"
            )
        return _scores(value) if tap.kind == "attention_scores" else value

    def mask(self, tap):
        """The Keras mask `[batch, length]` of the tensor at `tap`, or None.

        Of attention probabilities, whose own mask has other axes, it is the
        mask of the attention layer's output.
        """
        return get_mask(self.value(dataclasses.replace(tap, kind="output")))


def _scores(probabilities):
    """Scores of at least 0 whose softmax gives the probabilities back."""
    probabilities = ops.cast(probabilities, "float32")
    probabilities = ops.maximum(probabilities, SMALLEST_PROBABILITY)
    return ops.log(probabilities / SMALLEST_PROBABILITY)


def _interceptor(layer, kinds, recording):
    call = layer.call

    def intercepted(*args, **kwargs):
        if kinds == {"output"}:
            output = call(*args, **kwargs)
            recording.append(layer, "output", output)
            return output
        wanted = kwargs.pop("return_attention_scores", False)
        output, scores = call(*args, return_attention_scores=True, **kwargs)
        recording.append(layer, "attention", scores)
        recording.append(layer, "output", output)
        return (output, scores) if wanted else output

    return intercepted


@contextlib.contextmanager
def record(taps):
    """Collects the values at `taps` from the calls made in this context.

    Args:
        taps: Iterable of `Tap`.

    Yields:
        A `Recording`.
    """
    recording = Recording()
    kinds, layers = {}, {}
    for tap in taps:
        kinds.setdefault(id(tap.layer), set()).add(tap.kind)
        layers[id(tap.layer)] = tap.layer
    before = {key: vars(layer).get("call") for key, layer in layers.items()}
    # An instance attribute shadows the method, past Keras' own tracking.
    for key, layer in layers.items():
        interceptor = _interceptor(layer, kinds[key], recording)
        object.__setattr__(layer, "call", interceptor)
    try:
        yield recording
    finally:
        for key, layer in layers.items():
            object.__delattr__(layer, "call")
            if before[key] is not None:
                object.__setattr__(layer, "call", before[key])
