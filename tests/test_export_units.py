"""Files of students whose normalisations read what kernels give."""

import keras
import numpy as np
import pytest
from keras import layers

import keras_distill as kd
from keras_distill.export.latency import LiteRTModel
from keras_distill.quantization import QuantizationAware
from keras_distill.quantization import aware as aware_module

ROWS = np.random.default_rng(0).normal(size=(256, 6, 8)).astype("float32")
LOUD = 100.0


KERNELS = {
    "dense": lambda: layers.Dense(8),
    "relu": lambda: layers.Dense(8, activation="relu"),
    "gelu": lambda: layers.Dense(8, activation="gelu"),
    "convolution": lambda: layers.Conv1D(8, 3, padding="same"),
    "depthwise": lambda: layers.DepthwiseConv1D(3, depth_multiplier=2),
}


def written(student, path):
    """What a file gives, and the student that it is of, both for `ROWS`."""
    aware = QuantizationAware(student, activations="int8")
    for _ in range(3):
        aware(ROWS, training=True)
    kd.export.litert(aware, path, examples={"rows": ROWS}, min_agreement=0.0)
    (found,) = LiteRTModel(path).predict({"rows": ROWS}).values()
    return found, aware.predict(ROWS, verbose=0)


@pytest.mark.parametrize(
    ("kernel", "is_added"),
    [*((name, False) for name in KERNELS), ("dense", True)],
)
def test_normalisations_are_floats_in_the_file(tmp_path, kernel, is_added):
    inputs = keras.Input((6, 8), name="rows")
    x = KERNELS[kernel]()(inputs)
    if is_added:
        x = layers.Add()([x, layers.Dense(8)(inputs)])
    x = layers.Dense(8)(layers.LayerNormalization()(x))
    student = keras.Model(inputs, layers.Rescaling(1.0)(x))
    found, expected = written(student, tmp_path / "aware.tflite")
    same = np.isclose(found, expected, rtol=0, atol=1e-4 * np.ptp(expected))
    assert same.mean() > 0.95


def test_quiet_units_are_kept_in_the_file(tmp_path, monkeypatch):
    loud = layers.Dense(8)
    variance = [LOUD**2, *np.ones(7)]
    quiet = layers.Normalization(mean=np.zeros(8), variance=variance)
    inputs = keras.Input((6, 8), name="rows")
    student = keras.Model(inputs, quiet(loud(inputs)))
    loud.kernel.assign(loud.kernel * np.sqrt(variance))
    whole = np.asarray(student(ROWS))
    found, _ = written(student, tmp_path / "units.tflite")
    error = np.abs(found - whole).mean()
    monkeypatch.setattr(aware_module, "for_readers", lambda model, found: found)
    found, _ = written(student, tmp_path / "plain.tflite")
    assert error < 0.1 * np.abs(found - whole).mean()
