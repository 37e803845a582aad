"""Kills processes for good, at random points, and lets others go on."""

import contextlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import variants

from keras_distill import cache

FOLDER = pathlib.Path(__file__).parent
KILLS = 20
# Together more than 30.
KILLS_OF_EACH_TRAINING = 11


class Processes:
    """Work of `killed_job.py`, each in a process of its own."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, FOLDER / "killed_job.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=FOLDER,
        )

    def start(self, work, path):
        """The number of a new process."""
        self._process.stdin.write(f"{work} {path}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def ended(self):
        """Waits for the process; 0 if it came to its end."""
        return int(self._process.stdout.readline())

    def close(self):
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def processes():
    found = Processes()
    yield found
    found.close()


def contents(folder):
    return {
        file.name: file.read_bytes()
        for file in folder.iterdir()
        if file.is_file()
    }


def shards(folder):
    return len(list(folder.glob("shard-*")))


@pytest.mark.large
def test_killed_writers(tmp_path, processes):
    """Each is killed a random time after it has begun to work."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    processes.start("write", whole)
    assert processes.ended() == 0
    number = shards(whole)
    choice = random.Random(0)
    stopped = []
    for kill in range(KILLS):
        writer = processes.start("write", broken)
        while shards(broken) <= kill * number // KILLS:
            time.sleep(0.001)
        time.sleep(choice.uniform(0, 0.02))
        os.kill(writer, signal.SIGKILL)
        assert processes.ended() == signal.SIGKILL
        stopped.append(shards(broken))
        for name, data in contents(broken).items():
            if name.startswith("shard-"):
                assert data == (whole / name).read_bytes()
    assert stopped == sorted(stopped)
    assert len(set(stopped)) > KILLS // 2
    assert not cache.Manifest.load(broken).complete
    processes.start("write", broken)
    assert processes.ended() == 0
    assert contents(broken) == contents(whole)


def learned(folder):
    with np.load(folder / "end.npz") as arrays:
        return [arrays[name] for name in arrays.files]


def alive(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def killed(processes, work, folder, seconds):
    """Whether a training was killed some seconds after it had begun."""
    begun = folder / "begun"
    begun.unlink(missing_ok=True)
    process = processes.start(work, folder)
    while alive(process) and not begun.exists():
        time.sleep(0.001)
    end = time.perf_counter() + seconds
    while alive(process) and time.perf_counter() < end:
        time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    status = processes.ended()
    assert status in (0, signal.SIGKILL)
    return status != 0


@pytest.mark.large
@pytest.mark.parametrize(
    "work", variants.in_ci(["stages", "cached", "gkd"], "stages")
)
def test_killed_trainings(work, tmp_path, processes):
    """Whenever they are killed, they learn what they would have learned."""
    whole, choice = tmp_path / "whole", random.Random(work)
    whole.mkdir()
    begin = time.perf_counter()
    processes.start(work, whole)
    assert processes.ended() == 0
    taken = time.perf_counter() - begin
    kills, ends = 0, 0
    while kills < KILLS_OF_EACH_TRAINING or not ends:
        folder = tmp_path / str(ends)
        folder.mkdir(exist_ok=True)
        again = kills < KILLS_OF_EACH_TRAINING
        wait = choice.uniform(0, taken / 4) if again else 300
        if killed(processes, work, folder, wait):
            kills += 1
            continue
        ends += 1
        for one, other in zip(learned(folder), learned(whole), strict=True):
            np.testing.assert_array_equal(one, other)
