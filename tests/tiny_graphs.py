"""Small functional graphs, drawn: residual, joined, gated, shared, nested."""

import keras
import numpy as np
from keras import layers

SHAPE = (5, 5, 3)


class _Graph:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.inputs = keras.Input(SHAPE)
        self.tensors = [self.inputs]

    def pick(self):
        return self.tensors[self.rng.integers(len(self.tensors))]

    def some(self):
        return int(self.rng.integers(2, 7))

    def convolution(self, x, filters=None):
        kind = self.rng.choice(["Conv2D", "SeparableConv2D", "Conv2DTranspose"])
        function = self.rng.choice(["relu", "gelu", "sigmoid", "linear"])
        return getattr(layers, kind)(
            filters or self.some(),
            int(self.rng.choice([1, 3])),
            padding="same",
            activation=str(function),
            use_bias=bool(self.rng.integers(2)),
        )(x)

    def like(self, x):
        return self.convolution(self.pick(), x.shape[-1])

    # What a step may be.

    def convolved(self):
        x = self.convolution(self.pick())
        return layers.BatchNormalization()(x) if self.rng.integers(2) else x

    def depthwise(self):
        count = int(self.rng.integers(1, 3))
        return layers.DepthwiseConv2D(
            3, padding="same", depth_multiplier=count
        )(self.pick())

    def alone(self):
        kinds = [
            layers.PReLU(shared_axes=[1, 2]),
            layers.LeakyReLU(),
            layers.Dropout(0.5),
            layers.MaxPooling2D(3, 1, padding="same"),
            layers.Permute((2, 1, 3)),
            layers.Reshape((*SHAPE[:2], self.pick().shape[-1])),
        ]
        layer = kinds[self.rng.integers(len(kinds))]
        x = self.pick()
        if isinstance(layer, layers.Reshape):
            layer = layers.Reshape((SHAPE[1], SHAPE[0], x.shape[-1]))
        return layer(x)

    def merged(self):
        x = self.pick()
        kinds = ["Add", "Multiply", "Maximum", "Subtract", "Average"]
        return getattr(layers, self.rng.choice(kinds))()([x, self.like(x)])

    def operation(self):
        x = self.pick()
        return 1.0 - keras.ops.relu(x + self.like(x)) / 2.0

    def joined(self):
        return layers.Concatenate()(
            [self.pick(), self.convolution(self.pick())]
        )

    def gated(self):
        x = self.pick()
        gate = layers.GlobalAveragePooling2D(keepdims=True)(x)
        gate = layers.Dense(x.shape[-1], activation="sigmoid")(gate)
        return x * gate

    def one_gate(self):
        x = self.pick()
        return layers.Multiply()([x, layers.Dense(1)(x)])

    def shared(self):
        x = self.pick()
        layer = layers.Conv2D(self.some(), 3, padding="same")
        return layers.Add()([layer(x), layer(self.like(x))])

    def nested(self):
        x = self.pick()
        inputs = keras.Input(x.shape[1:])
        y = layers.Conv2D(self.some(), 1, activation="relu")(inputs)
        y = layers.Conv2D(x.shape[-1], 3, padding="same")(y)
        model = keras.Model(inputs, layers.Add()([inputs, y]))
        x = model(x)
        return model(x) if self.rng.integers(2) else x

    def sequential(self):
        return keras.Sequential(
            [layers.Dense(self.some(), activation="tanh"), layers.Dense(4)]
        )(self.pick())

    def frozen(self):
        kinds = [
            layers.LayerNormalization(),
            layers.Softmax(),
            layers.Lambda(lambda x: x[..., ::-1]),
        ]
        return kinds[self.rng.integers(len(kinds))](self.pick())

    def ended(self):
        x = layers.Concatenate()([self.pick(), self.tensors[-1]])
        if self.rng.integers(2):
            x = layers.Flatten()(x)
        else:
            x = keras.ops.max(x, axis=[1, 2])
        return keras.Model(self.inputs, layers.Dense(3)(x))


STEPS = (
    *("convolved", "convolved", "depthwise", "alone", "merged", "operation"),
    *("joined", "gated", "one_gate", "shared", "nested", "sequential"),
    "frozen",
)


def drawn(seed):
    """A model with weights that are all different from 0."""
    keras.utils.set_random_seed(seed)
    graph = _Graph(seed)
    for step in graph.rng.choice(STEPS, graph.rng.integers(3, 8)):
        graph.tensors.append(getattr(graph, step)())
    model = graph.ended()
    for weight in model.weights:
        value = 0.3 * graph.rng.normal(size=weight.shape)
        weight.assign(np.abs(value) if "variance" in weight.name else value)
    return model
