"""What a unit is worth: by its weights, by gradients on data, by chance."""

import keras
import numpy as np

from keras_distill._checks import check_choice
from keras_distill.pruning import activations
from keras_distill.pruning import graph

METHODS = ("taylor", "activation", "weight", "random")
ROWS = 32  # At a time, where no gradient of each is asked for.


def importance(
    model,
    data=None,
    loss=None,
    method="taylor",
    freeze=(),
    batch_size=1,
    seed=0,
):
    """What each unit of a model is worth: the least goes first.

    * `"taylor"`: how much the loss changes, to first order, when nobody reads
      the unit any more: the mean over batches of `(sum of g w)^2`, over the
      weights that read it. A batch is one row: of a model that is trained the
      gradients of rows cancel out;
    * `"activation"`: the mean square of its values on data, where layers read
      them, over the mean of its group;
    * `"weight"`: the sum of the squares of its weights, over the mean of its
      group, so that groups compare;
    * `"random"`: the control.

    Args:
        model: As of `structure`.
        data: For `"taylor"` and `"activation"` `(x, y)`, arrays or dicts of
            arrays, or an iterable of such batches, each of which is read once
            and let go.
        loss: Keras loss, or its name, of the labels and the model's output.
            Defaults to cross-entropy of integer labels and logits.
        method: One of the above.
        freeze: As of `structure`.
        batch_size: Integer, the rows whose gradients are averaged first.
        seed: Integer, of the control.

    Returns:
        Dict from names of groups to float64 arrays `[size]`.

    Raises:
        ValueError: An argument is wrong, data are missing, or a value is not
            finite.

    Reference:
        Molchanov et al., 2019, https://arxiv.org/abs/1906.10771, equation 8.
    """
    check_choice("method", method, METHODS)
    found = graph.structure(model, freeze)
    if method == "random":
        rng = np.random.default_rng(seed)
        return {name: rng.random(len(g)) for name, g in found.groups.items()}
    if method == "weight":
        return by_weights(found)
    if method == "activation":
        batches = batches_of(data, ROWS)
        return _level(found, activations.mean_squares(model, found, batches))
    variables = [weight.variable for weight in found.weights]
    values = [
        keras.ops.convert_to_numpy(v).astype("float64") for v in variables
    ]
    gradients = _compiled_gradients(model, _loss(loss), variables)
    total, batches = 0.0, 0
    for x, y in batches_of(data, batch_size):
        parts = [
            np.zeros(value.shape) if gradient is None else value * gradient
            for value, gradient in zip(values, gradients(x, y))
        ]
        total = total + np.square(_of_units(found, parts, reading=True))
        batches += 1
    if not batches or not np.isfinite(total).all():
        raise ValueError(
            "Importance needs batches with a finite loss. Received: "
            f"{batches} batches"
        )
    return _of_groups(found, total / batches)


def by_weights(found):
    """The sums of squares of a `Structure`, as of `importance`."""
    squares = [
        np.square(keras.ops.convert_to_numpy(w.variable), dtype="float64")
        for w in found.weights
    ]
    return _level(found, _of_units(found, squares))


def _level(found, total):
    """Of each group over its mean, so that groups compare."""
    sums = _of_groups(found, total)
    if not all(np.isfinite(v).all() for v in sums.values()):
        raise ValueError("Importance needs finite values. Received: others")
    # Where all are 0, each is as good as another.
    return {name: v / (v.mean() or 1.0) for name, v in sums.items()}


def _of_units(found, parts, reading=False):
    """Sums of values like the weights, over those of each unit.

    A weight between two units is counted for both, or where `reading` for the
    unit that it reads.
    """
    total = np.zeros(len(found.units))
    for weight, values in zip(found.weights, parts):
        for axis, units in enumerate(weight.axes):
            if units is None or (reading and axis != weight.reads):
                continue
            others = tuple(i for i in range(values.ndim) if i != axis)
            np.add.at(total, found.units.roots(units), values.sum(axis=others))
    return total


def _of_groups(found, total):
    return {name: total[group.units] for name, group in found.groups.items()}


def _loss(loss):
    if loss is None:
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    found = keras.losses.get(loss)
    # Of a name it is the function, which has a value for each row.
    return lambda y, outputs: keras.ops.mean(found(y, outputs))


def batches_of(data, batch_size):
    """Yields pairs of inputs and labels, of so many rows."""
    if data is None:
        raise ValueError(
            "Importance by data needs `data`, `(x, y)` or batches of such. "
            "Received: data=None. Without any, take `method='weight'`"
        )
    for batch in [data] if isinstance(data, tuple) else data:
        x, y = _checked(batch)
        leaves = [np.asarray(leaf) for leaf in keras.tree.flatten(x)]
        for start in range(0, len(y), batch_size):
            rows = slice(start, start + batch_size)
            part = [leaf[rows] for leaf in leaves]
            yield keras.tree.pack_sequence_as(x, part), np.asarray(y[rows])


def _checked(batch):
    if not isinstance(batch, tuple) or len(batch) < 2:
        raise ValueError(
            "`data` must be `(x, y)`, or batches of such, with labels. "
            f"Received: {type(batch).__name__}"
        )
    return batch[:2]


def _compiled_gradients(model, loss, variables):
    """A function from inputs and labels to gradients of the mean loss.

    Arrays in the order of the variables, None where nothing flows. The model
    runs as it predicts: dropout draws nothing.
    """
    if keras.backend.backend() == "jax":
        return _gradients_on_jax(model, loss, variables)
    import tensorflow as tf

    # The last batch, and texts of other lengths, are traced once.
    @tf.function(reduce_retracing=True)
    def gradients(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=False))
        return tape.gradient(value, [variable.value for variable in variables])

    def on_arrays(x, y):
        found = gradients(*keras.tree.map_structure(tf.constant, (x, y)))
        return [
            None if g is None else np.asarray(tf.convert_to_tensor(g))
            for g in found
        ]

    return on_arrays


def _gradients_on_jax(model, loss, variables):
    import jax

    def value(values, x, y):
        mapping = list(zip(variables, values))
        with keras.StatelessScope(state_mapping=mapping):
            return loss(y, model(x, training=False))

    compiled = jax.jit(jax.grad(value))

    def on_arrays(x, y):
        found = compiled([variable.value for variable in variables], x, y)
        return [np.asarray(g) for g in found]

    return on_arrays
