"""Reads taps during the one call of a model, and changes what layers do in it.

A layer's `call` is intercepted while the model runs, so nested and subclassed
models need no second pass. A layer may be in several recordings at a time:
two Distillers can have one teacher, and TensorFlow traces each replica in a
thread of its own. It is therefore intercepted once for all of them, until the
last one ends, whichever that is.
"""

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable

import keras
from keras import ops

from keras_distill._backend import get_mask

SMALLEST_PROBABILITY = 1e-9
_LOCK = threading.Lock()
_INTERCEPTED = {}  # By the layers' ids.


class Recording:
    """What the tapped layers computed while `record` was active."""

    def __init__(self):
        self._values = {}

    def append(self, layer, kind, value):
        self._values.setdefault((id(layer), kind), []).append(value)

    def outputs(self, layer):
        """What the calls of a tapped layer gave, in their order."""
        return self._values.get((id(layer), "output"), [])

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
        if keras.tree.is_nested(value):
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


@dataclasses.dataclass(frozen=True)
class _Listener:
    """A recording, which of a layer's values it wants, and in which thread."""

    recording: Recording
    kinds: frozenset
    thread: int = dataclasses.field(default_factory=threading.get_ident)

    @property
    def wants_scores(self):
        return not self.kinds <= {"output", "input"}


@dataclasses.dataclass(frozen=True)
class _Wrapping:
    """What is called instead of a layer, and in which thread."""

    wrap: Callable
    thread: int = dataclasses.field(default_factory=threading.get_ident)


class _Interception:
    """A layer whose calls are heard."""

    def __init__(self, layer):
        self.layer = layer
        self.before = vars(layer).get("call")
        self.call = layer.call
        self.listeners = []
        # An instance attribute shadows the method, past Keras' own tracking.
        # A function, as Keras may look for one.
        object.__setattr__(
            layer, "call", lambda *args, **kwargs: self.heard(args, kwargs)
        )

    def heard(self, args, kwargs):
        """Calls the layer, and tells the listeners of this thread."""
        thread = threading.get_ident()
        here = [one for one in self.listeners if one.thread == thread]
        call = self.call
        for one in here:
            if isinstance(one, _Wrapping):
                call = functools.partial(one.wrap, self.layer, call)
        listeners = [one for one in here if isinstance(one, _Listener)]
        if not any(one.wants_scores for one in listeners):
            result = output = call(*args, **kwargs)
        else:
            wanted = kwargs.pop("return_attention_scores", False)
            output, scores = call(*args, return_attention_scores=True, **kwargs)
            result = (output, scores) if wanted else output
        for one in listeners:
            if "input" in one.kinds:
                read = next(iter([*args, *kwargs.values()]))
                one.recording.append(self.layer, "input", read)
            if one.wants_scores:
                one.recording.append(self.layer, "attention", scores)
                one.recording.append(self.layer, "output", output)
            else:
                one.recording.append(self.layer, "output", result)
        return result

    def end(self):
        """Gives the layer back the `call` that it had."""
        object.__delattr__(self.layer, "call")
        if self.before is not None:
            object.__setattr__(self.layer, "call", self.before)


def _begin(layer, listener):
    with _LOCK:
        key = id(layer)
        if key not in _INTERCEPTED:
            _INTERCEPTED[key] = _Interception(layer)
        _INTERCEPTED[key].listeners.append(listener)


def _end(layer, listener):
    with _LOCK:
        interception = _INTERCEPTED[id(layer)]
        interception.listeners.remove(listener)
        if not interception.listeners:
            _INTERCEPTED.pop(id(layer)).end()


@contextlib.contextmanager
def record(taps):
    """Collects the values at `taps` from the calls made in this context.

    From those of the thread that entered it. Contexts may overlap and end in
    any order.

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
    with contextlib.ExitStack() as stack:
        for key, layer in layers.items():
            listener = _Listener(recording, frozenset(kinds[key]))
            _begin(layer, listener)
            stack.callback(_end, layer, listener)
        yield recording


@contextlib.contextmanager
def wrap_calls(layers, wrap):
    """Calls `wrap` instead of layers, in this context and this thread.

    Args:
        layers: Iterable of `keras.Layer`.
        wrap: Callable of the layer, its `call`, and what it is called with,
            that gives what the call is to give.
    """
    with contextlib.ExitStack() as stack:
        for layer in layers:
            wrapping = _Wrapping(wrap)
            _begin(layer, wrapping)
            stack.callback(_end, layer, wrapping)
        yield
