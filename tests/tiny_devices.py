"""Trainings in processes of their own, on one or more devices each."""

import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np

FOLDER = pathlib.Path(__file__).parent
# Of each backend the first is one device, which the others must agree with.
KINDS = {
    "tensorflow": ("one", "mirrored", "workers"),
    "jax": (
        "alone",
        "data parallel",
        "model parallel",
        "teacher divided",
        "processes",
    ),
}
IN_PAIRS = ("workers", "processes")


def free_port():
    """The first of two ports that nobody listens at."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("localhost", 0))
            port = first.getsockname()[1]
            try:
                second.bind(("localhost", port + 1))
            except OSError:
                continue
            return port


def join_workers(index, port):
    """Tells TensorFlow that this process is one of two workers."""
    addresses = [f"localhost:{port + i}" for i in (0, 1)]
    task = {"type": "worker", "index": index}
    os.environ["TF_CONFIG"] = json.dumps(
        {"cluster": {"worker": addresses}, "task": task}
    )


def processes(script, *arguments):
    """Starts one process for each list of arguments."""
    return [
        subprocess.Popen(
            [sys.executable, FOLDER / script, *map(str, more)],
            cwd=FOLDER,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for more in arguments
    ]


def outputs(started):
    """What processes said, once all went well."""
    said = [process.communicate()[0] for process in started]
    for process, text in zip(started, said):
        assert process.returncode == 0, text[-3000:]
    return said


def trained(kind, folder):
    """Dict from feature and number to a value, of one or two workers."""
    files = [folder / f"{kind}.{i}.npz" for i in range(1 + (kind in IN_PAIRS))]
    more = [()]
    if kind in IN_PAIRS:
        port = free_port()
        more = [(0, port), (1, port)]
    started = processes(
        "distribution_job.py",
        *((kind, file, *rest) for file, rest in zip(files, more)),
    )
    outputs(started)
    found = [dict(np.load(file)) for file in files]
    for other in found[1:]:
        assert all(
            np.array_equal(found[0][name], other[name]) for name in other
        )
    return found[0]


def differences(backend, folder):
    """How far every kind of `backend` is from one device.

    Returns:
        Dict from kind and feature to a list of two numbers, the largest
        differences of losses and of weights.
    """
    alone, *others = KINDS[backend]
    expected, worst = trained(alone, folder), {}
    for kind in others:
        found = trained(kind, folder)
        assert set(expected) == set(found)
        for name, value in expected.items():
            feature, number = name.split("/")
            pair = worst.setdefault((kind, feature), [0.0, 0.0])
            is_weight = number.startswith("weight")
            off = float(np.abs(value - found[name]).max())
            pair[is_weight] = max(pair[is_weight], off)
    return worst
