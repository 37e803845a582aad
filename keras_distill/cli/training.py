"""What teacher and students share, with a progress bar."""

# ruff: noqa: ARG002 - Keras fixes the arguments of a callback's methods.

import keras

from keras_distill.comparison import training
from keras_distill.comparison.training import BestEpoch as BestEpoch
from keras_distill.comparison.training import accuracy as accuracy
from keras_distill.comparison.training import accuracy_of as accuracy_of
from keras_distill.comparison.training import batches as batches
from keras_distill.comparison.training import (
    compile_arguments as compile_arguments,
)
from keras_distill.comparison.training import hard_loss as hard_loss
from keras_distill.comparison.training import joined as joined
from keras_distill.comparison.training import lengths as lengths
from keras_distill.comparison.training import load as load
from keras_distill.comparison.training import metrics as metrics
from keras_distill.comparison.training import predict as predict
from keras_distill.comparison.training import rows as rows
from keras_distill.comparison.training import save as save
from keras_distill.comparison.training import (
    warm_up_and_decay as warm_up_and_decay,
)
from keras_distill.comparison.training import with_labels as with_labels


def fit(model, batches, length, dev, callbacks, screen):
    """`model.fit` with a progress bar.

    Args:
        model: Compiled `keras.Model`.
        batches: Endless `tf.data.Dataset`.
        length: Pair of epochs and steps in each.
        dev: `data.EncodedDataset` to evaluate on after each epoch.
        callbacks: List of callbacks.
        screen: `Screen`.
    """
    epochs, steps = length
    with screen.progress(epochs * steps, "steps") as advance:
        training.fit(
            model, batches, length, dev, [*callbacks, Progress(advance)]
        )


class Progress(keras.callbacks.Callback):
    """Moves a progress bar.

    Args:
        advance: Callable, as `Screen.progress` yields it.
    """

    def __init__(self, advance):
        super().__init__()
        self._advance = advance

    def on_train_batch_end(self, batch, logs=None):
        self._advance()

    def on_epoch_end(self, epoch, logs=None):
        value = 100 * logs["val_accuracy"]
        self._advance(0, f"epoch {epoch + 1}: dev {value:.1f} %")
