"""One of two workers, which may die: `worker_job.py INDEX PORT FOLDER [EPOCH]`.

With `EPOCH` the second worker kills itself in it. The weights at the end go to
`FOLDER/end_INDEX.npz`.
"""

# ruff: noqa: E402 - Workers are told before TensorFlow starts.

import os
import signal
import sys

from tiny_devices import join_workers

INDEX, PORT, FOLDER = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
DEADLY = int(sys.argv[4]) if len(sys.argv) > 4 else None
os.environ["KERAS_BACKEND"] = "tensorflow"
join_workers(INDEX, PORT)

import tensorflow as tf

STRATEGY = tf.distribute.MultiWorkerMirroredStrategy()

import keras
import numpy as np
import tiny

import keras_distill as kd


class Dies(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if self.epoch == DEADLY and INDEX == 1 and batch == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch = epoch


if __name__ == "__main__":
    keras.utils.set_random_seed(0)
    with STRATEGY.scope():
        match = kd.Match("hidden", "hidden", keras.losses.MeanSquaredError())
        adam = keras.optimizers.Adam(0.05)
        model = tiny.distiller(
            tiny.mlp(16), tiny.mlp(8), [match], optimizer=adam
        )
    x, y = tiny.data(32)
    model.prepare(x[:8])
    line = kd.schedules.Linear(4.0, 1.0, length=5)
    backup = kd.callbacks.Backup(FOLDER)
    done = backup.restore(model)
    callbacks = [kd.callbacks.AnnealTemperature(line), backup, Dies()]
    model.fit(
        x, y, batch_size=8, epochs=5, initial_epoch=done, shuffle=False,
        callbacks=callbacks, verbose=0,
    )  # fmt: skip
    weights = tiny.values(model.student) + tiny.values(model.projections[0])
    np.savez(f"{FOLDER}/end_{INDEX}.npz", *weights, done=done)
