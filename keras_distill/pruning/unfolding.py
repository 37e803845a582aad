"""Layers of KerasHub's encoders as the layers of Keras that they consist of."""

import keras
import keras_hub
from keras import ops

from keras_distill._backend import child_layers
from keras_distill._backend import nested_layers
from keras_distill._layers import adapted_layer
from keras_distill.pruning import graph
from keras_distill.pruning.copies import Copy

ATTEND, FEED = "self_attention", "feedforward"
NORM, SUM = "_layer_norm", "_sum"
KIND = keras_hub.layers.TransformerEncoder


def unfold(model):
    """Takes KerasHub's encoder layers apart, so that their heads can be cut.

    A `keras_hub.layers.TransformerEncoder` derives the size of its heads from
    their number, so that fewer of them would be larger ones. Here it becomes
    the attention, dense layers and normalisations of Keras that it consists
    of, with the same weights, named after it: of `transformer_layer_0` the
    attention is `transformer_layer_0_self_attention_layer`, and the last one,
    whose output is its output, has its name. `structure`, `prune` and
    `search` then know the heads beside the inner width.

    Args:
        model: Functional or `Sequential` `keras.Model`, a KerasHub backbone or
            task of BERT, RoBERTa, DistilBERT and others with such layers, at
            any depth. Stays as it is.

    Returns:
        Functional `keras.Model` with the same inputs and outputs. A task's
        preprocessor is not in it.

    Raises:
        ValueError: The model has no graph, or no such layer; one is quantised,
            has LoRA, or is given a mask beside that of padding.

    Example:

    >>> backbone = keras_hub.models.BertBackbone(9, 1, 2, 8, 16)
    >>> for name, group in graph.structure(unfold(backbone)).groups.items():
    ...     print(name, len(group))
    transformer_layer_0_self_attention_layer/heads 2
    transformer_layer_0_feedforward_intermediate_dense 16
    """
    graph.check_graph(model)
    if not has_folded(model):
        raise ValueError(
            "`model` must have a `keras_hub.layers.TransformerEncoder`. "
            f"Received: {type(model).__name__} with layers of "
            f"{sorted({type(layer).__name__ for layer in model.layers})[:8]}"
        )
    return _Unfolded().of(model)


def has_folded(model):
    """Whether a model has layers that `unfold` takes apart."""
    return any(type(layer) is KIND for layer in nested_layers(model))


class _Unfolded(Copy):
    """A model in which an encoder layer is several layers."""

    def cloned(self, model, **arguments):
        if isinstance(model, keras.Sequential):
            (x,), (y,) = model.inputs, model.outputs
            model = keras.Model(x, y, name=model.name)
        return super().cloned(model, **arguments)

    def stays(self, model):
        return not has_folded(model)

    def enters(self, model):
        return has_folded(model)

    def changed(self, layer, config):
        if type(layer) is KIND:
            return _Block(layer)
        return super().changed(layer, config)

    def give_weights(self, layer, copy):
        if not isinstance(copy, _Block):
            super().give_weights(layer, copy)
            return
        for old, new in copy.pairs:
            super().give_weights(old, new)


class _Block:
    """What stands for an encoder layer while a graph is copied.

    Args:
        layer: `keras_hub.layers.TransformerEncoder`.
    """

    def __init__(self, layer):
        adapted = adapted_layer(layer)
        if adapted is not None:
            raise ValueError(
                "Layers that are taken apart must have weights of their own. "
                f"Received: {layer.name!r}, in which {adapted.name!r} is "
                "quantised or has LoRA. Merge it first"
            )
        self._name, self._normalizes_first = layer.name, layer.normalize_first
        last = FEED + (SUM if self._normalizes_first else NORM)

        def named(part):
            return layer.name if part == last else f"{layer.name}_{part}"

        self._layers = {
            part: keras.layers.Add(name=named(part), dtype=layer.dtype_policy)
            for part in (ATTEND + SUM, FEED + SUM)
        }
        self.pairs = []
        for child in child_layers(layer):
            config = child.get_config() | {"name": named(child.name)}
            copy = type(child).from_config(config)
            self._layers[child.name] = copy
            self.pairs.append((child, copy))

    def __call__(self, x, padding_mask=None, **others):
        if any(value is not None for value in others.values()):
            raise ValueError(
                "An encoder layer that is taken apart must be called with its "
                "states and the mask of padding alone. Received: "
                f"{self._name!r} with {sorted(others)}"
            )
        mask = None
        if padding_mask is not None:
            mask = ops.expand_dims(padding_mask, 1)

        def attend(x):
            layer = self._layers[f"{ATTEND}_layer"]
            return layer(x, x, attention_mask=mask)

        def feed(x):
            x = self._layers[f"{FEED}_intermediate_dense"](x)
            return self._layers[f"{FEED}_output_dense"](x)

        x = self._added(ATTEND, attend, x)
        return self._added(FEED, feed, x)

    def _added(self, name, branch, x):
        """`x` and a branch of it, normalised before it or at the end."""
        norm, add = self._layers[name + NORM], self._layers[name + SUM]
        read = norm(x) if self._normalizes_first else x
        x = add([self._layers[f"{name}_dropout"](branch(read)), x])
        return x if self._normalizes_first else norm(x)
