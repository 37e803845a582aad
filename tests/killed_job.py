"""Work in processes that others kill: reads lines `WORK FOLDER`.

Forks before TensorFlow runs anything: many processes for the price of one
import. For each line it prints the number of the process, and when that has
ended its status. A training that starts to learn makes a file `begun`, and one
that has come to its end leaves what it learned in `end.npz`.
"""

# ruff: noqa: T201 - What it prints is what it is for.

import os
import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf
import tiny
import tiny_gkd

import keras_distill as kd
from keras_distill.gkd.replay import ReplayBuffer
from keras_distill.gkd.sources import DatasetResponses
from keras_distill.gkd.sources import StudentSampler

ROWS = 400
EPOCHS = 12


class Begun(keras.callbacks.Callback):
    """Says that the training learns."""

    def __init__(self, folder):
        super().__init__()
        self.path = folder / "begun"

    def on_train_batch_end(self, batch, logs=None):
        self.path.touch()


def train(model, folder, x, y=None, callbacks=(), **options):
    backup = kd.callbacks.Backup(folder / "backup")
    done = backup.restore(model)
    model.fit(
        x,
        y,
        epochs=EPOCHS,
        initial_epoch=done,
        callbacks=[*callbacks, backup, Begun(folder)],
        shuffle=False,
        verbose=0,
        **options,
    )
    learned = [*model.student.variables, *model.optimizer.variables]
    learned += [v for p in getattr(model, "projections", ()) for v in p.weights]
    np.savez(folder / "end.npz", *map(tiny.array, learned))


def student():
    return tiny.mlp(6, seed=4, dropout=0.3)


def stages(folder):
    """Stages that freeze and restore, annealing within, a matched layer."""
    mse = keras.losses.MeanSquaredError()
    match = kd.Match("hidden", "hidden", mse, name="hidden")
    found = [
        kd.Stage(
            5, hard_weight=0.0, temperature=kd.schedules.Linear(4.0, 1.0, 20)
        ),
        kd.Stage(
            7, freeze=["hidden"], learning_rate=0.02, restore_best="val_loss"
        ),
    ]
    model = tiny.distiller(
        tiny.mlp(8), student(), [match], run_eagerly=True,
        optimizer=keras.optimizers.Adam(0.05),
    )  # fmt: skip
    weight = kd.callbacks.AnnealWeight(
        "hidden", kd.schedules.Linear(1.0, 0.0, 40), per="step"
    )
    switch = kd.callbacks.StageSwitch(found, directory=folder / "best")
    x, y = tiny.data(24)
    train(
        model, folder, x, y, [switch, weight], batch_size=6,
        validation_data=tiny.data(8, seed=1),
    )  # fmt: skip


def cached(folder):
    """A teacher's signals from a cache, which is written first."""
    dataset = tf.data.Dataset.from_tensor_slices(tiny.data(24))
    teacher = tiny.mlp(8)
    kd.cache.write(teacher, dataset, folder / "cache")
    x = kd.cache.attach(dataset, folder / "cache", teacher=teacher).batch(6)
    line = kd.schedules.Linear(4.0, 1.0, 40)
    anneal = kd.callbacks.AnnealTemperature(line, per="step")
    model = tiny.distiller(None, student(), run_eagerly=True)
    train(model, folder, x, callbacks=[anneal])


def gkd(folder):
    """On the student's own text, and what it wrote before."""
    sources = ReplayBuffer(6, 0.5, StudentSampler()), DatasetResponses()
    model = tiny_gkd.distiller(lmbda=0.6, sources=sources)
    prompts, ends = [3] * 8, [8, 4, 9, 9, 12, 6, 5, 7]
    train(model, folder, tiny_gkd.batch(prompts, ends), batch_size=4)


def write(folder):
    """A cache of many shards."""
    init = keras.initializers.GlorotUniform(seed=1)
    dense = keras.layers.Dense(3, kernel_initializer=init)
    teacher = keras.Sequential([keras.Input((4,)), dense])
    rows = np.random.default_rng(0).normal(size=(ROWS, 4))
    rows = tf.data.Dataset.from_tensor_slices(rows.astype("float32"))
    layout = kd.cache.Layout(batch_size=2, shard_size=8)
    kd.cache.write(teacher, rows, folder, layout=layout)


WORK = {f.__name__: f for f in (stages, cached, gkd, write)}

if __name__ == "__main__":
    for line in sys.stdin:
        name, path = line.split(maxsplit=1)
        child = os.fork()
        if not child:
            keras.utils.set_random_seed(0)
            WORK[name](pathlib.Path(path.strip()))
            os._exit(0)
        print(child, flush=True)
        print(os.waitpid(child, 0)[1], flush=True)
