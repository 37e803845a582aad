"""Models of a few units, and a Distiller that counts its traces."""

import contextlib

import keras
import keras_hub
import numpy as np

from keras_distill import losses
from keras_distill.distiller import Distiller

CLASSES = 3
FEATURES = 4
VOCABULARY = 20
CROSS_ENTROPY = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def data(rows=16, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, FEATURES)).astype("float32")
    return x, rng.integers(0, CLASSES, rows).astype("int32")


def tokens(rows=8, length=6, seed=0):
    """Inputs of an encoder, padded to different lengths, and labels."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(2, length + 1, (rows, 1))
    inputs = {
        "token_ids": rng.integers(1, VOCABULARY, (rows, length)),
        "segment_ids": np.zeros((rows, length), "int32"),
        "padding_mask": (np.arange(length) < lengths).astype("int32"),
    }
    return inputs, rng.integers(0, CLASSES, rows).astype("int32")


def mlp(units=8, seed=1, dropout=0.0, classes=CLASSES, **kwargs):
    """A functional classifier with the layers `hidden` and `logits`."""

    def dense(size, name, offset, **options):
        init = keras.initializers.GlorotUniform(seed=seed + offset)
        return keras.layers.Dense(
            size, kernel_initializer=init, name=name, **options
        )

    inputs = keras.Input((FEATURES,))
    x = dense(units, "hidden", 0, activation="tanh", **kwargs)(inputs)
    if dropout:
        x = keras.layers.Dropout(dropout, seed=seed)(x)
    return keras.Model(inputs, dense(classes, "logits", 100)(x))


def sequential(units=8):
    return keras.Sequential(
        [
            keras.Input((FEATURES,)),
            keras.layers.Dense(units, activation="tanh", name="hidden"),
            keras.layers.Dense(CLASSES, name="logits"),
        ]
    )


@keras.saving.register_keras_serializable(package="tests")
class Subclassed(keras.Model):
    """Has no symbolic inputs and no weights before its first call."""

    def __init__(self, units=8, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.hidden = keras.layers.Dense(units, "tanh", name="hidden")
        self.logits = keras.layers.Dense(CLASSES, name="logits")

    def call(self, inputs):
        return self.logits(self.hidden(inputs))

    def get_config(self):
        return {**super().get_config(), "units": self.units}


def subclassed(units=8):
    model = Subclassed(units)
    model(np.zeros((1, FEATURES), "float32"))
    return model


def backbone(num_layers=2, hidden_dim=8, **kwargs):
    return keras_hub.models.BertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=num_layers,
        num_heads=2,
        hidden_dim=hidden_dim,
        intermediate_dim=8,
        max_sequence_length=8,
        **kwargs,
    )


def bert(num_layers=2, hidden_dim=8, dropout=0.1):
    """A KerasHub task: its backbone is nested in it."""
    return keras_hub.models.BertTextClassifier(
        backbone(num_layers, hidden_dim, dropout=dropout),
        num_classes=CLASSES,
        preprocessor=None,
        dropout=dropout,
    )


class Traced(Distiller):
    """Counts how often its train step is traced."""

    traces = 0

    def train_step(self, *args):
        self.traces += 1
        return super().train_step(*args)


def distiller(teacher, student, matches=(), kind=Traced, **kwargs):
    """Compiled with SGD, a hard loss and a soft loss."""
    model = kind(teacher, student, matches)
    options = {
        "optimizer": keras.optimizers.SGD(0.1),
        "loss": CROSS_ENTROPY,
        "soft_loss": losses.ForwardKL(2.0),
    }
    model.compile(**options | kwargs)
    return model


def array(variable):
    """The value of a variable or tensor."""
    return np.asarray(variable).copy()


def values(thing):
    """The values of all variables of a model, or of a list."""
    variables = getattr(thing, "variables", thing)
    return [array(v) for v in variables]


def equal(first, second):
    """Whether two lists of arrays agree bit for bit."""
    return len(first) == len(second) and all(
        np.array_equal(a, b) for a, b in zip(first, second)
    )


class Passes:
    """How often a layer was called, and how often the call was executed."""

    def __init__(self):
        self.calls = 0
        self._executed = None

    def add(self):
        self.calls += 1
        if keras.backend.backend() == "jax":
            import jax

            jax.debug.callback(self._count)
        else:
            self._variable().assign_add(1)

    def _count(self):
        self._executed = (self._executed or 0) + 1

    def _variable(self):
        import tensorflow as tf

        if self._executed is None:
            with tf.init_scope():
                self._executed = tf.Variable(0, dtype="int64")
        return self._executed

    @property
    def executed(self):
        if keras.backend.backend() == "jax":
            import jax

            jax.effects_barrier()
        return int(0 if self._executed is None else self._executed)


@contextlib.contextmanager
def passes(layer):
    """Counts the calls of `layer` in this context."""
    counter, call = Passes(), layer.call

    def counted(*args, **kwargs):
        counter.add()
        return call(*args, **kwargs)

    object.__setattr__(layer, "call", counted)
    try:
        yield counter
    finally:
        object.__delattr__(layer, "call")
