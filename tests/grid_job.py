"""Tasks and teachers that the workers of a grid can import."""

import os
import pathlib
import signal

import tensorflow as tf

from keras_distill import experiments
from keras_distill.experiments import grid

# As in conftest.py, which a worker does not import: rewritten graphs add up in
# another order, and the last bits differ.
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


def made(preparation, path):
    """What `Grid.make` gives, which leaves the process's number."""
    with (pathlib.Path(path).parent / "processes").open("a") as stream:
        stream.write(f"{os.getpid()}\n")
    return grid.restored(preparation, path)


def dies_once(preparation, path):
    """The same, but the first worker that asks is killed."""
    try:
        (pathlib.Path(path).parent / "killed").touch(exist_ok=False)
    except FileExistsError:
        return made(preparation, path)
    return os.kill(os.getpid(), signal.SIGKILL)


def compare(folder, data, teacher, grid=None, **options):
    """`compare` on a prepared run in `folder`."""
    import keras_distill as kd

    prepared = experiments.prepare(
        folder,
        command="compare",
        data=str(data),
        teacher=str(teacher),
        transfer=None,
    )
    with prepared.folder:
        return kd.compare(
            prepared.task,
            prepared.teacher,
            {"TextCNN": kd.students.TextCNN(epochs=2, width=4)},
            prepared.folder,
            recipes=[kd.recipes.hard(), kd.recipes.kd()],
            seeds=2,
            export=False,
            html=False,
            grid=grid and grid(prepared),
            **options,
        )
