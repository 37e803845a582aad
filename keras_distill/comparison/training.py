"""What every training here shares: batches, the best epoch, accuracy."""

# ruff: noqa: ARG002 - Keras fixes the arguments of a callback's methods.

import dataclasses
import functools
import warnings

import keras
import numpy as np
import tensorflow as tf

from keras_distill import data
from keras_distill._backend import accelerators
from keras_distill._backend import load_model
from keras_distill._files import complete_file

EVALUATION_BATCH = 128


def hard_loss():
    """Cross-entropy with the labels, where there are any."""
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, ignore_class=data.UNLABELLED
    )


def metrics():
    """Accuracy, which training is judged by on the dev part."""
    return [keras.metrics.SparseCategoricalAccuracy(name="accuracy")]


def warm_up_and_decay(peak, steps):
    """A learning rate that rises for a tenth of the steps, then falls to 0."""
    warm_up = max(1, steps // 10)
    return keras.optimizers.schedules.CosineDecay(
        0.0,
        decay_steps=max(1, steps - warm_up),
        warmup_target=peak,
        warmup_steps=warm_up,
    )


def compile_arguments():
    """XLA compiles each length anew, which pays on accelerators only.

    JAX without it would run one operation after the other.
    """
    jit_compile = keras.backend.backend() == "jax" or bool(accelerators())
    return {"jit_compile": jit_compile}


def lengths(encoded):
    """A few lengths to cut batches to: most texts are short."""
    return data.bucket_lengths(encoded.lengths, encoded.width)


def rows(encoded, positions):
    """The rows at `positions`, as an `EncodedDataset`."""
    return data.EncodedDataset(
        {name: array[positions] for name, array in encoded.inputs.items()},
        encoded.labels[positions],
        encoded.lengths[positions],
    )


def with_labels(encoded, labels):
    """The same texts with other labels."""
    return dataclasses.replace(encoded, labels=labels)


def joined(first, second):
    """The rows of both, the second without labels, as an `EncodedDataset`."""
    missing = np.full(len(second), data.UNLABELLED, "int32")
    return data.EncodedDataset(
        {
            name: np.concatenate([array, second.inputs[name]])
            for name, array in first.inputs.items()
        },
        np.concatenate([first.labels, missing]),
        np.concatenate([first.lengths, second.lengths]),
    )


def batches(encoded, batch_size, seed, logits=None):
    """Endless batches to train on, shuffled, of rows of similar length.

    Args:
        encoded: `data.EncodedDataset`.
        batch_size: Integer.
        seed: Integer, of the order.
        logits: Array `[rows, classes]` of the teacher's logits. Then the
            batches are what a `Distiller` without a teacher takes.
    """
    shuffled = functools.partial(
        data.batches,
        batch_size=batch_size,
        shuffle=True,
        seed=seed,
        lengths=lengths(encoded),
    )
    if logits is None:
        return shuffled(encoded).repeat()
    names = list(encoded.inputs)
    position = np.arange(len(encoded), dtype="int32")[:, None]
    inputs = {**encoded.inputs, "position": position}
    logits = tf.constant(logits, "float32")

    def attach(x, y):
        taught = {"logits": tf.gather(logits, x["position"][:, 0])}
        student = {name: x[name] for name in names}
        return {"student": student, "teacher_signal": taught}, y

    numbered = dataclasses.replace(encoded, inputs=inputs)
    return shuffled(numbered).map(attach).repeat()


def fit(model, batches, length, dev, callbacks):
    """`model.fit`, evaluated on dev after each epoch.

    Args:
        model: Compiled `keras.Model`.
        batches: Endless `tf.data.Dataset`.
        length: Pair of epochs and steps in each.
        dev: `data.EncodedDataset` to evaluate on after each epoch.
        callbacks: List of callbacks.

    Returns:
        Dict of lists, one value an epoch.
    """
    epochs, steps = length
    with warnings.catch_warnings():
        # Some encoders have a pooler that the classifier does not read.
        warnings.filterwarnings("ignore", "Gradients do not exist")
        history = model.fit(
            batches,
            epochs=epochs,
            steps_per_epoch=steps,
            shuffle=False,
            validation_data=data.batches(
                dev, EVALUATION_BATCH, lengths=lengths(dev)
            ),
            callbacks=callbacks,
            verbose=0,
        )
    return {
        name: [float(value) for value in values]
        for name, values in history.history.items()
    }


def save(model, path):
    """Saves a model that can be trained on, without its optimizer's state.

    The state would be as large as two more models.
    """
    model.compile("adam", hard_loss(), metrics=metrics())
    with complete_file(path) as draft:
        model.save(draft)


def load(path):
    """The model that `save` left, without a preprocessor of its own.

    A KerasHub task with a preprocessor expects strings.
    """
    model = load_model(path)
    if hasattr(model, "preprocessor"):
        model.preprocessor = None
    return model


def predict(model, encoded):
    """Logits `[rows, classes]`, in the order of the rows.

    The model runs over rows of similar length, so that short texts cost what
    they hold and not what the longest one does.
    """
    few = lengths(encoded)
    buckets = np.searchsorted(few, encoded.lengths)
    order = np.argsort(buckets, kind="stable")
    parts = [
        data.batches(
            rows(encoded, np.flatnonzero(buckets == bucket)),
            EVALUATION_BATCH,
            lengths=[length],
        )
        for bucket, length in enumerate(few)
    ]
    ordered = functools.reduce(tf.data.Dataset.concatenate, parts)
    predicted = model.predict(ordered, verbose=0)
    logits = np.empty_like(predicted)
    logits[order] = predicted
    return logits


def accuracy(model, encoded):
    """Share of the rows whose largest logit is that of the label."""
    return accuracy_of(predict(model, encoded), encoded.labels)


def accuracy_of(logits, labels):
    """Share of the rows whose largest logit is that of the label."""
    return float(np.mean(np.argmax(logits, axis=-1) == labels))


class BestEpoch(keras.callbacks.Callback):
    """Ends a training with the weights of the epoch that was best on dev.

    Args:
        model: The `keras.Model` to restore; a Distiller's student.
    """

    def __init__(self, model):
        super().__init__()
        self._target = model
        self._weights = None
        self.accuracy = None
        self.epoch = None

    def on_epoch_end(self, epoch, logs=None):
        value = float(logs["val_accuracy"])
        if self.accuracy is None or value > self.accuracy:
            self.accuracy, self.epoch = value, epoch + 1
            self._weights = self._target.get_weights()

    def on_train_end(self, logs=None):
        self._target.set_weights(self._weights)
