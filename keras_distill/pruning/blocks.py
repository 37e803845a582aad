"""Which whole layers of a transformer are worth least."""

import keras
import numpy as np

from keras_distill import taps
from keras_distill._checks import check_integer
from keras_distill._masks import padding_mask
from keras_distill.pruning.importances import batches_of
from keras_distill.recording import record

ROWS = 32
SMALLEST = 1e-12


def block_influence(model, data):
    """How much each layer of a transformer changes what it reads.

    `1 - cos(input, output)` of each token, the mean over the tokens of all
    rows, padding left out. A layer that changes little can go.

    Args:
        model: A KerasHub backbone or task, or a model around one backbone.
        data: As of `importance`; labels are not read.

    Returns:
        Float64 array `[layers]`, from 0 to 2.

    Raises:
        ValueError: The model holds no such backbone, data are missing, or a
            value is not finite.

    Example:

    >>> import keras_hub
    >>> model = keras_hub.models.BertBackbone(50, 3, 2, 16, 32)
    >>> x = {name: np.ones((4, 8), "int32") for name in model.input}
    >>> block_influence(model, (x, np.zeros(4))).shape
    (3,)

    Reference:
        Men et al., 2024, https://arxiv.org/abs/2403.03853, equation 1.
    """
    states = taps.hidden_states(model)
    total, count = np.zeros(len(states) - 1), 0
    for x, _ in batches_of(data, ROWS):
        with record(states) as recording:
            model(x, training=False)
        values = [
            keras.ops.convert_to_numpy(
                keras.ops.cast(recording.value(tap), "float32")
            ).astype("float64")
            for tap in states
        ]
        mask = padding_mask(x)
        kept = np.ones(values[0].shape[:2]) if mask is None else mask != 0
        total += [
            np.sum((1 - _cosine(before, after)) * kept)
            for before, after in zip(values, values[1:])
        ]
        count += np.sum(kept)
    if not count or not np.isfinite(total).all():
        raise ValueError(
            "Block influence needs rows with tokens and finite states. "
            f"Received: {int(count)} tokens"
        )
    return total / count


def layer_map(influence, num_layers):
    """The layers that stay, as `students.shrink` takes them.

    Args:
        influence: Array `[layers]`, of `block_influence`.
        num_layers: Integer, how many stay: those of the largest influence, in
            their order.

    Returns:
        List of pairs `(teacher_layer, student_layer)`, counted from 1.

    Example:

    >>> layer_map([0.3, 0.1, 0.2], num_layers=2)
    [(1, 1), (3, 2)]
    """
    check_integer("num_layers", num_layers, 1, len(influence))
    order = np.argsort(-np.asarray(influence), kind="stable")
    kept = np.sort(order[:num_layers]) + 1
    return list(zip(kept.tolist(), range(1, num_layers + 1)))


def _cosine(a, b):
    lengths = np.linalg.norm(a, axis=-1) * np.linalg.norm(b, axis=-1)
    return np.sum(a * b, axis=-1) / np.maximum(lengths, SMALLEST)
