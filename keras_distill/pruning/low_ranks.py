"""Matrices as products of two narrow ones."""

import keras
import keras_hub
import numpy as np

from keras_distill._checks import check_integer
from keras_distill._checks import check_positive
from keras_distill.pruning import graph
from keras_distill.pruning.copies import Copy

# Of KerasHub's families some have the table of Keras, others its own.
KINDS = (
    keras.layers.Dense,
    keras.layers.Embedding,
    keras.layers.ReversibleEmbedding,
    keras_hub.layers.ReversibleEmbedding,
)


def low_rank(model, rank):
    """Factorises tables of tokens and dense layers by their singular values.

    A layer becomes two: a narrow one, `NAME_narrow`, of a table a narrow table,
    and a dense one of its name with what else the layer had. Of all matrices of
    that rank the product is nearest to the layer's.

    Args:
        model: Functional or `Sequential` `keras.Model`; stays as it is.
        rank: Dict from names of `Dense` or `Embedding` layers, at any depth, to
            an integer, the rank, or to a float in (0, 1], the share of the
            squares of the singular values that is kept.

    Returns:
        `keras.Model` with the same inputs and outputs.

    Raises:
        ValueError: The model has no graph, or no such layer; a rank or a share
            is wrong; a table also gives the logits.

    Example:

    >>> model = keras.Sequential(
    ...     [keras.Input((8,)), keras.layers.Dense(64, name="hidden"),
    ...      keras.layers.Dense(2, name="logits")])
    >>> low_rank(model, {"hidden": 4}).count_params(), model.count_params()
    (482, 706)

    Reference:
        Eckart and Young, 1936, doi.org/10.1007/BF02288367.
    """
    graph.check_graph(model)
    if not isinstance(rank, dict):
        raise ValueError(
            "`rank` must be a dict from names of layers to their rank, or the "
            f"share of energy to keep. Received: {rank!r}"
        )
    copy = _Factorised(rank)
    result = copy.of(model)
    missing = sorted(set(rank) - copy.known)
    if missing:
        raise ValueError(
            f"`rank` must name Dense or Embedding layers. Received: {missing}; "
            f"there are {sorted(copy.known)}"
        )
    return result


class _Factorised(Copy):
    """A model of the same layers, some of them as two."""

    def __init__(self, rank):
        super().__init__()
        self._rank, self._narrow = rank, {}
        self.known = set()

    def parts(self, copy):
        before = self._narrow.get(id(copy))
        return [copy] if before is None else [before, copy]

    def call_parts(self, copy, *args, **kwargs):
        if kwargs.get("reverse") and id(copy) in self._narrow:
            # Its transpose would be the two layers' transposes, the other way
            # round, and no layer of Keras has a transposed dense one.
            raise ValueError(
                "`rank` must not name a table that gives the logits, too. "
                f"Received: rank[{copy.name!r}]. Make the other layers "
                "narrower, or the vocabulary smaller: "
                "`kd.pruning.vocabulary`"
            )
        return super().call_parts(copy, *args, **kwargs)

    def changed(self, layer, config):
        if type(layer) not in KINDS or layer.quantization_mode is not None:
            return super().changed(layer, config)
        self.known.add(layer.name)
        if layer.name not in self._rank:
            return super().changed(layer, config)
        return self._factorised(layer, config)

    def _factorised(self, layer, config):
        """The second of the two layers; the first is kept beside it."""
        rank = _rank(layer, self._rank[layer.name])
        name = f"{layer.name}_narrow"
        plain = {"use_bias": False, "dtype": layer.dtype_policy}
        if isinstance(layer, keras.layers.Dense):
            narrow = keras.layers.Dense(rank, name=name, **plain)
            copy = type(layer).from_config(config)
        else:
            changed = {"name": name, "output_dim": rank}
            narrow = type(layer).from_config(config | changed)
            copy = keras.layers.Dense(
                layer.output_dim, name=layer.name, **plain
            )
        self._narrow[id(copy)] = narrow
        return copy

    def give_weights(self, layer, copy):
        weights = layer.get_weights()
        narrow = self._narrow.get(id(copy))
        if narrow is not None:
            matrix, *others = weights
            left, values, right = _decomposed(matrix)
            rank = narrow.weights[0].shape[1]
            root = np.sqrt(values[:rank])
            narrow.set_weights([left[:, :rank] * root])
            weights = [root[:, None] * right[:rank], *others]
        copy.set_weights(weights)


def _decomposed(matrix):
    return np.linalg.svd(matrix.astype("float64"), full_matrices=False)


def _rank(layer, asked):
    """The integer that a rank, or a share of energy, means for a layer."""
    matrix, name = layer.get_weights()[0], f"rank[{layer.name!r}]"
    if not np.isfinite(matrix).all():
        raise ValueError(f"The weights of {layer.name!r} are not finite")
    if isinstance(asked, float):
        check_positive(name, asked, maximum=1)
        energy = np.cumsum(np.square(_decomposed(matrix)[1]))
        return 1 + int(np.searchsorted(energy, asked * energy[-1]))
    check_integer(name, asked, minimum=1, maximum=min(matrix.shape))
    return asked
