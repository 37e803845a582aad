"""A training that goes on after a kill, bit by bit as it would have gone."""

import math
import pathlib

import keras

from keras_distill import _files
from keras_distill._replicas import of_workers
from keras_distill._replicas import scope
from keras_distill._replicas import worker
from keras_distill._sealed import read_sealed
from keras_distill._sealed import write_sealed

KEPT = 2


class Backup(keras.callbacks.Callback):
    """Keeps weights and optimizer of the last epochs, each whole or not there.

    `keras.callbacks.BackupAndRestore` overwrites its file in place, and writes
    the number of the epoch after it: a kill in between leaves a file that
    cannot be read, or weights of one epoch with the number of another. Here an
    epoch counts once its hash is written, beside weights that are complete.

    Call `restore` before `fit`, and start the data where that epoch ended.
    `logs` holds what the last whole epoch logged, where `fit` has none left to
    do, too.

    Of several workers (`tf.distribute.MultiWorkerMirroredStrategy`, or the
    processes of `jax.distributed`) the first writes and all restore, so that
    they need a folder in common. Where one of them dies, start all again.

    Args:
        folder: Path.

    Example:

    >>> import numpy as np, tempfile
    >>> x, y = np.ones((4, 2)), np.ones((4, 1))
    >>> folder = tempfile.mkdtemp()
    >>> for epochs in (1, 3):  # The second goes on after the first epoch.
    ...     model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    ...     model.compile("adam", "mse")
    ...     backup = Backup(folder)
    ...     done = backup.restore(model)
    ...     history = model.fit(x, y, epochs=epochs, initial_epoch=done,
    ...                         callbacks=[backup], verbose=0)
    >>> history.epoch
    [1, 2]
    """

    def __init__(self, folder):
        super().__init__()
        self._folder = pathlib.Path(folder)
        self.logs = {}

    def restore(self, model):
        """Loads the newest epoch that is whole.

        Args:
            model: Built and compiled `keras.Model`.

        Returns:
            Integer, how many epochs are done.

        Raises:
            ValueError: if workers found different epochs.
        """
        done = self._restored(model)
        found = of_workers(model, done)
        if len(set(found)) > 1:
            raise ValueError(
                "All workers must go on from one epoch. Give them one folder, "
                f"on a disk that they share. Received: {str(self._folder)!r}, "
                f"where the workers found the epochs {found}"
            )
        return done

    def _restored(self, model):
        for number in sorted(self._numbers(), reverse=True):
            held = self._whole(number)
            if held is not None:
                # Its moments are in the file, and need a place to go to.
                with scope(model):
                    model.optimizer.build(model.trainable_variables)
                model.load_weights(self._file(number, "weights.h5"))
                self.logs = held["logs"]
                return number
        return 0

    def on_epoch_end(self, epoch, logs=None):
        # JSON has no word for numbers that are none.
        found = (logs or {}).items()
        self.logs = {k: float(v) for k, v in found if math.isfinite(v)}
        if worker(self.model) == 0:
            self._keep(epoch + 1)

    def _keep(self, number):
        weights = self._file(number, "weights.h5")
        with _files.complete_file(weights) as draft:
            self.model.save_weights(draft)
        held = {
            "epoch": number,
            "logs": self.logs,
            "weights": _files.file_hash(weights),
        }
        write_sealed(self._file(number, "json"), held)
        # Later ones are damaged, or training would have gone on from there.
        numbers = sorted(self._numbers())
        kept = [n for n in numbers if n <= number][-KEPT:]
        for old in {*numbers} - {*kept}:
            for suffix in ("json", "weights.h5"):
                self._file(old, suffix).unlink(missing_ok=True)

    def _whole(self, number):
        """What was written of an epoch, None where its files are damaged."""
        held = read_sealed(self._file(number, "json"))
        try:
            weights = _files.file_hash(self._file(number, "weights.h5"))
        except OSError:
            return None
        return held if held and held.get("weights") == weights else None

    def _file(self, number, suffix):
        return self._folder / f"epoch_{number:06}.{suffix}"

    def _numbers(self):
        paths = self._folder.glob("epoch_*.json")
        names = [path.stem.removeprefix("epoch_") for path in paths]
        return [int(name) for name in names if name.isdecimal()]
