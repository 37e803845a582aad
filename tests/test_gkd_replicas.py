"""Two devices that share every batch train as one device does."""

import os
import subprocess
import sys

import pytest
import variants

SCRIPT = """
import contextlib

import keras
import numpy as np
import tiny_gkd

TENSORFLOW = keras.backend.backend() == "tensorflow"
PROMPTS, ENDS = [2, 3, 5, 1, 4, 2], [8, 4, 9, 9, 12, 6]
# Keras' own iterator on JAX wants rows for every device.
ROWS = 3 if TENSORFLOW else 2


@contextlib.contextmanager
def two_devices():
    if TENSORFLOW:
        import tensorflow as tf
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        assert strategy.num_replicas_in_sync == 2
        with strategy.scope():
            yield
    else:
        distribution = keras.distribution.DataParallel()
        assert distribution.device_mesh.shape == (2,)
        keras.distribution.set_distribution(distribution)
        yield


def run(scope, **options):
    with scope:
        pair = tiny_gkd.teacher(), tiny_gkd.student()
        model = tiny_gkd.distiller(
            pair, keras.optimizers.Adam(0.01), compiled=True, **options)
        batch = tiny_gkd.batch(PROMPTS, ENDS)
        logs = model.fit(
            batch, batch_size=ROWS, epochs=2, shuffle=False, verbose=0).history
        for name, call in (("evaluate", model.evaluate),
                           ("test", model.test_on_batch),
                           ("train", model.train_on_batch)):
            more = {"verbose": 0, "batch_size": ROWS}
            more = more if name == "evaluate" else {}
            found = call(batch, return_dict=True, **more)
            logs |= {f"{name} {key}": found[key] for key in found}
        return logs, [np.asarray(v) for v in model.student.variables]


if TENSORFLOW:
    import tensorflow as tf
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2)
options = {"lmbda": 0.5, "sft_weight": 0.3}
logs, weights = run(contextlib.nullcontext(), **options)
shared_logs, shared_weights = run(two_devices(), **options)
assert set(logs) == set(shared_logs), (logs, shared_logs)
for name in logs:
    np.testing.assert_allclose(
        logs[name], shared_logs[name], rtol=1e-4, err_msg=name)
for a, b in zip(weights, shared_weights):
    np.testing.assert_allclose(a, b, rtol=1e-3, atol=2e-4)
"""


@pytest.mark.large
@pytest.mark.parametrize(
    "backend", variants.in_ci(["tensorflow", "jax"], "jax")
)
def test_two_devices_are_one(request, backend):
    pytest.importorskip(backend)
    devices = "--xla_force_host_platform_device_count=2"
    flags = f"{os.environ['XLA_FLAGS']} {devices}"
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        cwd=request.path.parent,
        env=os.environ | {"KERAS_BACKEND": backend, "XLA_FLAGS": flags},
    )
    assert result.returncode == 0, result.stderr[-3000:]
