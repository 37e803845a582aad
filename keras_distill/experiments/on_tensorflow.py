"""Phases that are TensorFlow's, for a run on another backend."""

import os
import pathlib
import pickle
import subprocess
import sys
import tempfile

from keras_distill.experiments.records import Records

# What `pickle` and Keras raise for what they cannot take.
UNFIT = (
    pickle.PicklingError,
    AttributeError,
    NotImplementedError,
    TypeError,
    ValueError,
)
CODE = f"from {__name__} import main; main()"
# Files are made and timed on processors, and the run keeps its accelerator.
SETTINGS = {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}


def execute(phases, folder):
    """Runs phases in a process of their own, whose backend is TensorFlow.

    Their records are left in the folder, as if they had run here.

    Args:
        phases: List of `Phase` whose `run` can be pickled; Keras' models are,
            as files that any backend reads.
        folder: Path of the run's folder.

    Returns:
        String, why they did not run; None if they did.
    """
    path = [entry for entry in sys.path if entry]
    environment = SETTINGS | {"PYTHONPATH": os.pathsep.join(path)}
    with tempfile.TemporaryDirectory() as place:
        file = pathlib.Path(place, "phases.pickle")
        try:
            file.write_bytes(pickle.dumps((phases, pathlib.Path(folder))))
        except UNFIT as error:
            return str(error)
        done = subprocess.run(
            [sys.executable, "-c", CODE, file],
            capture_output=True,
            text=True,
            env=os.environ | environment,
        )
    if done.returncode == 0:
        return None
    *_, last = ["", *done.stderr.strip().splitlines()]
    return f"its process ended with {done.returncode}, {last}"


def main():
    """Runs the phases of a file, in the process that `execute` starts."""
    phases, folder = pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())
    Records(folder).execute(phases)
