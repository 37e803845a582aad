"""Numbers in few bits, and gradients that pass straight through."""

import keras
import numpy as np
from keras import ops

# Below it a channel is nothing but zeros, and has no scale of its own.
SMALLEST = 1e-12


def levels(bits):
    """The largest integer of symmetric weights: 127 of int8, 7 of int4."""
    return 2 ** (bits - 1) - 1


def scales(weights, bits, axes, rows=1, xp=np):
    """What one step of the integers is worth, `[.., 1, ..]` over `axes`.

    Args:
        weights: As of `rounded`, like all others.
        bits: Integer.
        axes: Tuple.
        rows: Integer.
        xp: Module.
    """
    largest = xp.max(xp.abs(weights), axis=axes, keepdims=True)
    if rows > 1:
        count = weights.shape[0]
        padded = xp.pad(xp.reshape(largest, (count,)), ((0, -count % rows),))
        groups = xp.max(xp.reshape(padded, (-1, rows)), axis=1)
        largest = xp.repeat(groups, rows)[:count, None]
    return xp.maximum(largest, SMALLEST) / levels(bits)


def rounded(weights, bits, axes, rows=1, xp=np):
    """Weights on the symmetric grid of their channels.

    Rounding twice changes nothing: the largest weight of a channel is on the
    grid, so that the scale of what is rounded is the same.

    Args:
        weights: Float32 array.
        bits: Integer.
        axes: Tuple of the axes that share a scale.
        rows: Integer, how many rows of a table share one, too.
        xp: `numpy`, or `keras.ops`.

    Returns:
        Float32 array of the same shape.
    """
    step = scales(weights, bits, axes, rows, xp)
    return xp.round(weights / step) * step


def round_through(weights, bits, axes, rows=1):
    """`rounded`, with the gradient of what is not (straight through).

    Reference:
        Bengio et al., 2013, https://arxiv.org/abs/1308.3432
    """
    value = rounded(weights, bits, axes, rows, ops)
    return weights + ops.stop_gradient(value - weights)


def fake_quantize(x, low, high):
    """Activations as the 256 numbers of int8 between two ends can hold them.

    0 is one of them, as padding needs it; the ends move by less than a step.
    The gradient is that of a clip to the ends.

    Args:
        x: Float tensor.
        low: Float scalar tensor, at most 0.
        high: Float scalar tensor, at least 0.

    Returns:
        Tensor of the shape of `x`.

    Reference:
        Jacob et al., 2018, https://arxiv.org/abs/1712.05877, section 3.
    """
    low = ops.minimum(low, 0.0)
    high = ops.maximum(high, low + 1e-6)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # The converter knows this operation, and takes its range.
        return tf.quantization.fake_quant_with_min_max_vars(x, low, high)
    step = (high - low) / 255.0
    zero = ops.round(-low / step)
    inside = ops.clip(x, -zero * step, (255.0 - zero) * step)
    value = ops.floor(inside / step + 0.5) * step
    return inside + ops.stop_gradient(value - inside)
