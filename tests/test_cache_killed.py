"""Kills writers for good, at random points, and lets others continue."""

import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

from keras_distill import cache

KILLS = 20
ROWS = 400
# Forks before TensorFlow runs anything: 22 writers for the price of one import.
WRITERS = f"""
import os
import sys

import keras
import numpy as np
import tensorflow as tf

from keras_distill import cache


def write(path):
    init = keras.initializers.GlorotUniform(seed=1)
    dense = keras.layers.Dense(3, kernel_initializer=init)
    teacher = keras.Sequential([keras.Input((4,)), dense])
    rows = np.random.default_rng(0).normal(size=({ROWS}, 4))
    rows = tf.data.Dataset.from_tensor_slices(rows.astype("float32"))
    layout = cache.Layout(batch_size=2, shard_size=8)
    cache.write(teacher, rows, path, layout=layout)


for line in sys.stdin:
    child = os.fork()
    if not child:
        write(line.strip())
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


@pytest.fixture
def writers():
    """A process that starts a writer for each path it reads."""
    root = str(pathlib.Path(__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", WRITERS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": root},
    )
    yield process
    process.kill()
    process.communicate()


def start(writers, path):
    """The process number of a new writer."""
    writers.stdin.write(f"{path}\n")
    writers.stdin.flush()
    return int(writers.stdout.readline())


def ended(writers):
    """Waits for the writer; 0 if it came to the end of the data."""
    return int(writers.stdout.readline())


def contents(folder):
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.is_file()
    }


def shards(folder):
    return len(list(folder.glob("shard-*")))


@pytest.mark.large
def test_killed_writers(tmp_path, writers):
    """Each is killed a random time after it has begun to work."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    start(writers, whole)
    assert ended(writers) == 0
    number = shards(whole)
    choice = random.Random(0)
    stopped = []
    for kill in range(KILLS):
        writer = start(writers, broken)
        while shards(broken) <= kill * number // KILLS:
            time.sleep(0.001)
        time.sleep(choice.uniform(0, 0.02))
        os.kill(writer, signal.SIGKILL)
        assert ended(writers) == signal.SIGKILL
        stopped.append(shards(broken))
        for name, data in contents(broken).items():
            if name.startswith("shard-"):
                assert data == (whole / name).read_bytes()
    assert stopped == sorted(stopped)
    assert len(set(stopped)) > KILLS // 2
    assert not cache.Manifest.load(broken).complete
    start(writers, broken)
    assert ended(writers) == 0
    assert contents(broken) == contents(whole)
