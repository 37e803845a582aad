"""What of a GKD training a checkpoint holds, besides student and optimizer."""

import keras
import numpy as np
from keras import ops


class GKDState(keras.layers.Layer):
    """Holds the draws' state, so that a resumed training draws the same.

    Args:
        lmbda: Float, the initial probability of on-policy completions.
        seed: Integer, seeds all draws.
        sources: Tuple of `Source`, whose own states are saved too.

    Attributes:
        lmbda: float32 scalar variable.
        seed: int32 scalar variable.
        step: int32 scalar variable, how many batches were trained on.
    """

    def __init__(self, lmbda, seed, sources, name="gkd_state"):
        super().__init__(name=name, trainable=False, dtype="float32")
        self.sources = sources
        self.lmbda = self._scalar("lmbda", lmbda, "float32")
        self.seed = self._scalar("seed", seed, "int32")
        self.step = self._scalar("step", 0, "int32")
        self.built = True

    def _scalar(self, name, value, dtype):
        return self.add_weight(
            shape=(),
            dtype=dtype,
            trainable=False,
            name=name,
            initializer=keras.initializers.Constant(value),
        )

    def save_own_variables(self, store):
        """Saves the variables and what the sources keep."""
        for variable in self.variables:
            store[variable.name] = np.asarray(variable)
        for index, source in enumerate(self.sources):
            for name, value in source.state().items():
                store[f"{index}_{name}"] = value

    def load_own_variables(self, store):
        """Loads what `save_own_variables` saved."""
        for variable in self.variables:
            variable.assign(np.asarray(store[variable.name]))
        for index, source in enumerate(self.sources):
            prefix = f"{index}_"
            source.restore(
                {
                    name.removeprefix(prefix): np.asarray(store[name])
                    for name in store.keys()  # noqa: SIM118 - h5py's group.
                    if name.startswith(prefix)
                }
            )


class Trackers:
    """The means of an epoch behind the logs.

    Not a Keras object: the Distiller shows them to Keras as it needs them.

    Args:
        statistics: Names of the entries of a batch's `"statistics"`.
    """

    def __init__(self, statistics):
        self._loss = keras.metrics.Mean(name="loss")
        self._divergence = keras.metrics.Mean(name="divergence")
        self._sft = keras.metrics.Mean(name="sft_loss")
        self._statistics = [
            keras.metrics.Mean(name=name) for name in statistics
        ]

    def of(self, sft, origins):
        found = [self._loss, self._divergence]
        found += [self._sft] if sft else []
        return found + self._statistics if origins else found

    def update(self, terms, counts, x):
        """Adds the values of a batch.

        Args:
            terms: Tensor of shape `[3]`: loss, divergence, cross-entropy.
            counts: Pair of scalars, the tokens in the latter two.
            x: Dict, the batch.
        """
        self._loss.update_state(terms[0], counts[0])
        self._divergence.update_state(terms[1], counts[0])
        self._sft.update_state(terms[2], counts[1])
        if "statistics" in x:
            rows = ops.any(x["padding_mask"], axis=1)
            rows = ops.sum(ops.cast(rows, "float32"))
            for index, metric in enumerate(self._statistics):
                metric.update_state(x["statistics"][index], rows)
