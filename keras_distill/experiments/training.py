"""What every training here shares: batches, the best epoch, predictions."""

# ruff: noqa: ARG002 - Keras fixes the arguments of a callback's methods.

import dataclasses
import functools
import math
import warnings

import keras
import keras_hub
import numpy as np
import tensorflow as tf

from keras_distill import data
from keras_distill._backend import accelerators
from keras_distill._backend import load_model
from keras_distill._errors import UsageError
from keras_distill._files import complete_file
from keras_distill._watcher import Watcher
from keras_distill.distiller import Distiller
from keras_distill.experiments.predicting import Predictor
from keras_distill.experiments.predicting import lengths
from keras_distill.experiments.predicting import predict as predict
from keras_distill.inputs import with_signal

VALUE = "val_score"


def warm_up_and_decay(peak, steps):
    """A learning rate that rises for a tenth of the steps, then falls to 0."""
    warm_up = max(1, steps // 10)
    return keras.optimizers.schedules.CosineDecay(
        0.0,
        decay_steps=max(1, steps - warm_up),
        warmup_target=peak,
        warmup_steps=warm_up,
    )


def compile_for(model, task, optimizer, **further):
    """Compiles `model` with the loss of `task`.

    XLA compiles each length anew, which pays on accelerators only; JAX
    without it would run one operation after the other.

    Args:
        model: `keras.Model` or `Distiller`.
        task: `Task`.
        optimizer: `keras.optimizers.Optimizer`.
        **further: Other arguments of `compile`.
    """
    model.compile(
        optimizer=optimizer,
        loss=task.hard_loss(),
        jit_compile=keras.backend.backend() == "jax" or bool(accelerators()),
        **further,
    )


def batches(encoded, batch_size, seed, signal=None):
    """Endless batches to train on, shuffled, of rows of similar length.

    Args:
        encoded: `data.EncodedDataset`.
        batch_size: Integer.
        seed: Integer, of the order.
        signal: Dict of arrays `[rows, outputs]`: the teacher's `logits`, and
            what else it says of each row. Then the batches are what a
            `Distiller` without a teacher takes. Not for rows that are
            augmented, of which the teacher has seen others.
    """
    shuffled = functools.partial(
        data.batches,
        batch_size=batch_size,
        shuffle=True,
        seed=seed,
        lengths=lengths(encoded),
    )
    if signal is None:
        endless = shuffled(encoded).repeat()
        if encoded.augment is None:
            return endless
        seeds = tf.data.Dataset.random(seed).batch(2, drop_remainder=True)
        return tf.data.Dataset.zip(endless, seeds).map(
            lambda rows, seed: (encoded.augment(rows[0], seed), rows[1])
        )
    names = list(encoded.inputs)
    position = np.arange(len(encoded), dtype="int32")[:, None]
    inputs = {**encoded.inputs, "position": position}
    held = {name: tf.constant(array) for name, array in signal.items()}

    def attach(x, y):
        taught = {
            name: tf.cast(tf.gather(array, x["position"][:, 0]), "float32")
            for name, array in held.items()
        }
        if encoded.per_token:
            taught["logits"] = taught["logits"][:, : tf.shape(y)[1]]
        return with_signal({name: x[name] for name in names}, taught), y

    numbered = dataclasses.replace(encoded, inputs=inputs)
    return shuffled(numbered).map(attach).repeat()


def fit(model, batches, length, callbacks, watcher=None, told=VALUE):
    """`model.fit`, with a progress bar.

    Args:
        model: Compiled `keras.Model`.
        batches: Endless `tf.data.Dataset`.
        length: Pair of epochs and steps in each.
        callbacks: List of callbacks, a `BestEpoch` among them.
        watcher: `Watcher`, or None.
        told: String, which value of the logs the bar shows.

    Returns:
        Dict of lists, one value an epoch; None for one that is not finite.
    """
    epochs, steps = length
    if not isinstance(model, Distiller):
        # TensorFlow traces twice a step that makes variables.
        model.optimizer.build(model.trainable_variables)
    with (
        (watcher or Watcher()).progress(epochs * steps, "steps") as advance,
        warnings.catch_warnings(),
    ):
        # Some encoders have a pooler that the classifier does not read.
        warnings.filterwarnings("ignore", "Gradients do not exist")
        history = model.fit(
            batches,
            epochs=epochs,
            steps_per_epoch=steps,
            shuffle=False,
            callbacks=[*callbacks, Progress(advance, told)],
            verbose=0,
        )
    return {
        name: [float(v) if math.isfinite(v) else None for v in values]
        for name, values in history.history.items()
    }


def save(model, path, task):
    """Saves a model that can be evaluated, without its optimizer's state.

    That would be as large as two more models, and Keras warns where it is
    missing: SGD has none.
    """
    model.compile("sgd", task.keras_loss())
    with complete_file(path) as draft:
        model.save(draft)


def load(path):
    """The model that `save` left, without a preprocessor of its own.

    A KerasHub task with a preprocessor expects strings.
    """
    model = load_model(path)
    take_preprocessor(model)
    return model


def is_hub_task(model):
    """Whether a model is a KerasHub task, which may hold a preprocessor."""
    return isinstance(model, keras_hub.models.Task)


def take_preprocessor(model):
    """Removes and returns a KerasHub task's preprocessor; None of others."""
    if not is_hub_task(model):
        return None
    found, model.preprocessor = model.preprocessor, None
    return found


def check_finite_logits(logits, what):
    """Raises `UsageError` if logits are NaN or infinite.

    Args:
        logits: Array `[rows, outputs]`.
        what: String, whose logits they are.
    """
    broken = ~np.isfinite(logits).all(axis=-1)
    if broken.any():
        raise UsageError(
            f"{what} must be finite numbers. Received: NaN or infinite logits "
            f"for {int(broken.sum()):,} of {len(logits):,} rows, the first "
            f"one row {int(broken.argmax())}. A model whose weights are NaN "
            "must be trained again, with a lower learning rate"
        )


class BestEpoch(keras.callbacks.Callback):
    """Ends a training with the weights of the epoch that was best on dev.

    Scores dev after each epoch, by the task's own measure, and logs it as
    `val_score`. An epoch whose logits are not all finite is never the best:
    the largest of logits that are NaN is class 0 by the rules of argmax, so
    that a broken model has an accuracy like any other. After an epoch whose
    loss is not finite, the training ends.

    Args:
        model: The `keras.Model` to score and to restore; a Distiller's
            student.
        task: `Task`.
    """

    def __init__(self, model, task):
        super().__init__()
        self._target = model
        self._task = task
        self._predict = Predictor(task.encoded["dev"], keep=True)
        self._weights = None
        self.score = None
        self.epoch = None

    @property
    def failure(self):
        """Why there is no best epoch, or None."""
        if self.epoch is not None:
            return None
        return (
            "no epoch gave finite logits for dev: lower the learning rate, "
            "the weight of the loss, or the sizes that blow up"
        )

    def value(self):
        """Float: the score of the model as it is on dev, perhaps NaN."""
        logits = self._predict(self._target)
        if not np.isfinite(logits).all():
            return math.nan
        return self._task.score({"dev": logits}, "dev")

    def on_epoch_end(self, epoch, logs=None):
        if not math.isfinite(logs.get("loss", 0.0)):
            self.model.stop_training = True
        value = logs[VALUE] = self.value()
        # A measure may have no value, as a correlation of equal answers.
        if math.isfinite(value) and (self.score is None or value > self.score):
            self.score, self.epoch = value, epoch + 1
            self._weights = self._target.get_weights()

    def on_train_end(self, logs=None):
        if self._weights is not None:
            self._target.set_weights(self._weights)


class Finite(keras.callbacks.Callback):
    """Ends a run whose loss is not finite: what it would leave is no model.

    Args:
        option: String, what to lower.
    """

    def __init__(self, option):
        super().__init__()
        self._option = option

    def on_epoch_end(self, epoch, logs=None):
        if not all(map(math.isfinite, logs.values())):
            told = {name: float(value) for name, value in logs.items()}
            raise UsageError(
                "The training has left the finite numbers: lower "
                f"`{self._option}`. Received: {told} in epoch {epoch + 1}"
            )


class Progress(keras.callbacks.Callback):
    """Moves a progress bar.

    Args:
        advance: Callable, as `Watcher.progress` yields it.
        name: String, which value of the logs is told after each epoch.
    """

    def __init__(self, advance, name):
        super().__init__()
        self._advance = advance
        self._name = name

    def on_train_batch_end(self, batch, logs=None):
        self._advance()

    def on_epoch_end(self, epoch, logs=None):
        value = logs[self._name]
        told = f"{self._name} {value:.3f}"
        if self._name == VALUE:
            told = f"epoch {epoch + 1}: dev {100 * value:.1f} %"
        self._advance(0, told)
