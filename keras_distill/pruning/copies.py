"""Models of the same layers, some of them changed."""

import keras
import keras_hub

from keras_distill.pruning import graph

KERAS_HUB = keras_hub.models.Backbone, keras_hub.models.Task


def _cannot_be_made_again(layer, reason):
    return (
        f"Layer {layer.name!r} cannot be made again from its configuration "
        f"({reason})"
    )


class Copy:
    """Copies models, each of their layers once, wherever it is called.

    A subclass says what becomes of a layer, `changed`, of a weight, `value`,
    which layers are no copies, `shares`, which models in a model are copied
    layer by layer, `enters`, and which of KerasHub's stay what they are,
    `stays`.
    """

    def __init__(self):
        self._copies = {}

    def of(self, model, inputs=None):
        """The copy of a model, weights and all.

        Args:
            model: `keras.Model` whose graph is known.
            inputs: Structure of Keras tensors, where they are other ones.
        """
        if isinstance(model, KERAS_HUB) and self.stays(model):
            copy = self.changed(model, model.get_config())
            self.give_weights(model, copy)
            return copy

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
        if self.shares(layer):
            return layer
        try:
            return self.changed(layer, layer.get_config())
        except (AttributeError, TypeError) as error:
            # KerasHub's Llama gives none, its Qwen3 one without `head_dim`.
            raise ValueError(
                f"{_cannot_be_made_again(layer, error)}. Cut all layers of "
                "its kind alike, and nothing else, so that one of the whole "
                "model says it"
            ) from error

    def _is_entered(self, layer):
        if isinstance(layer, KERAS_HUB) and self.stays(layer):
            return False
        return graph.is_graph(layer) and self.enters(layer)

    def cloned(self, model, **arguments):
        """`keras.models.clone_model`, with `parts` in the place of a layer."""
        if not isinstance(model, keras.Sequential):
            return keras.models.clone_model(
                model, call_function=self.call_parts, **arguments
            )
        copies = [arguments["clone_function"](layer) for layer in model.layers]
        parts = [part for copy in copies for part in self.parts(copy)]
        if parts == copies:
            return keras.models.clone_model(model, **arguments)
        (x,) = model.inputs
        x = keras.Input(batch_shape=x.shape, dtype=x.dtype, name=x.name)
        return keras.Sequential([x, *parts], name=model.name)

    def call_parts(self, copy, *args, **kwargs):
        """Calls `parts` where the layer of a copy was called."""
        parts = self.parts(copy)
        if parts == [copy]:
            return copy(*args, **kwargs)
        x, *others = args
        for part in parts[:-1]:
            x = part(x)
        return parts[-1](x, *others, **kwargs) if parts else x

    def parts(self, copy):
        """The layers that are called, one after the other, where one was.

        Args:
            copy: What `changed` gave, for a layer with one input.
        """
        return [copy]

    def shares(self, layer):
        """Whether a copy has the layer itself."""
        # A `Lambda` has no weights, and its function no configuration.
        return isinstance(layer, keras.layers.Lambda)

    def enters(self, model):
        """Whether a model in a model is copied layer by layer."""
        del model
        return True

    def stays(self, model):
        """Whether a configuration says what becomes of KerasHub's model."""
        del model
        return False

    def inputs_of(self, model):
        """Other inputs of a model in a model, or None."""
        del model

    def changed(self, layer, config):
        """The copy of a layer, without its weights."""
        if isinstance(layer, keras_hub.models.Task):
            backbone = self.changed(layer.backbone, layer.backbone.get_config())
            config["backbone"] = backbone
            config["preprocessor"] = self.preprocessor_of(layer)
        return type(layer).from_config(config)

    def preprocessor_of(self, task):
        """What becomes of a KerasHub task's preprocessor, or None."""
        return task.preprocessor

    def give_weights(self, layer, copy):
        """Gives a copy of a layer its weights."""
        try:
            for old, new in zip(layer.weights, copy.weights, strict=True):
                new.assign(self.value(old, new))
        except ValueError as error:
            # What LoRA or `quantize` did to a layer inside is in none of
            # Keras' configurations.
            raise ValueError(
                f"{_cannot_be_made_again(layer, 'it has other weights')}. "
                "Merge the LoRA weights of the layers inside, and quantise "
                "after the cut"
            ) from error

    def value(self, old, new):
        """What a weight of a copy starts as."""
        del new
        return keras.ops.convert_to_numpy(old)
