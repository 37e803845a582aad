"""Models of the same layers, some of them changed."""

import keras

from keras_distill.pruning import graph


class Copy:
    """Copies models, each of their layers once, wherever it is called.

    A subclass says what becomes of a layer, `changed`, of a weight, `value`,
    and which models in a model are copied layer by layer, `enters`.
    """

    def __init__(self):
        self._copies = {}

    def of(self, model, inputs=None):
        """The copy of a model, weights and all.

        Args:
            model: `keras.Model` whose graph is known.
            inputs: Structure of Keras tensors, where they are other ones.
        """

        def clone(operation):
            if not isinstance(operation, keras.Layer):
                return operation
            layers[id(operation)] = operation
            if id(operation) not in self._copies:
                self._copies[id(operation)] = self._copy(operation)
            return self._copies[id(operation)]

        layers = {}
        arguments = {} if inputs is None else {"input_tensors": inputs}
        result = self.cloned(model, clone_function=clone, **arguments)
        for key, layer in layers.items():
            if not self._is_entered(layer):  # Its layers have theirs.
                self.give_weights(layer, self._copies[key])
        return result

    def _copy(self, layer):
        if self._is_entered(layer):
            return self.of(layer, self.inputs_of(layer))
        if isinstance(layer, keras.layers.Lambda):
            # It has nothing to share, and its function no configuration.
            return layer
        return self.changed(layer, layer.get_config())

    def _is_entered(self, layer):
        return graph.is_graph(layer) and self.enters(layer)

    def cloned(self, model, **arguments):
        """`keras.models.clone_model`, unless a layer becomes several."""
        return keras.models.clone_model(model, **arguments)

    def enters(self, model):
        """Whether a model in a model is copied layer by layer."""
        del model
        return True

    def inputs_of(self, model):
        """Other inputs of a model in a model, or None."""
        del model

    def changed(self, layer, config):
        """The copy of a layer, without its weights."""
        return type(layer).from_config(config)

    def give_weights(self, layer, copy):
        """Gives a copy of a layer its weights."""
        for old, new in zip(layer.weights, copy.weights, strict=True):
            new.assign(self.value(old, new))

    def value(self, old, new):
        """What a weight of a copy starts as."""
        del new
        return keras.ops.convert_to_numpy(old)
