"""Two devices that share every batch train as one device does."""

import os
import subprocess
import sys
import types

import keras
import numpy as np
import pytest

from keras_distill._replicas import replicas

SCRIPT = """
import contextlib
import sys

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
options = {"lmbda": 0.5} | eval(sys.argv[1])
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
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
@pytest.mark.parametrize(
    "options", [{"sft_weight": 0.3}, {"micro_batch_size": 2, "chunk_tokens": 5}]
)
def test_two_devices_are_one(request, backend, options):
    pytest.importorskip(backend)
    devices = "--xla_force_host_platform_device_count=2"
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, repr(options)],
        capture_output=True,
        text=True,
        cwd=request.path.parent,
        env=os.environ | {"KERAS_BACKEND": backend, "XLA_FLAGS": devices},
    )
    assert result.returncode == 0, result.stderr[-3000:]


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="tf.distribute"
)
def test_devices_of_other_machines_are_refused():
    strategy = types.SimpleNamespace(num_replicas_in_sync=np.int64(2))
    model = types.SimpleNamespace(distribute_strategy=strategy)
    with pytest.raises(
        ValueError, match="devices of one machine.* Received: S"
    ):
        replicas(model)
