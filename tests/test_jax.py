"""The Distiller's tests once more, on the JAX backend."""

import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent
FILES = [
    *sorted(HERE.glob("test_distiller_*.py")),
    *(HERE / f"test_{name}.py" for name in ("taps", "teachers", "matching")),
]


@pytest.mark.large
@pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="pip install jax"
)
def test_the_distiller_on_jax():
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            *FILES,
        ],
        env={**os.environ, "KERAS_BACKEND": "jax"},
        cwd=HERE.parent,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stdout[-5000:]
