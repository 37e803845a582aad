"""Trains with every feature on some devices, and keeps what comes of it.

A process of its own, as devices and workers are chosen when one starts:

    python distribution_job.py KIND FILE [INDEX PORT]

KIND is one of `tiny_devices.KINDS`. The history and the weights of each feature
go to FILE. With `INDEX` and `PORT` it is one of two workers.
"""

# ruff: noqa: E402 - Devices are told before Keras starts.

import contextlib
import os
import sys
import tempfile

from tiny_devices import KINDS
from tiny_devices import join_workers

DEVICES = {"data parallel": 8, "model parallel": 8, "teacher divided": 8}
KIND, FILE, INDEX, PORT = [*sys.argv[1:], 0, 0][:4]
INDEX, PORT = int(INDEX), int(PORT)
(os.environ["KERAS_BACKEND"],) = (b for b in KINDS if KIND in KINDS[b])
os.environ["XLA_FLAGS"] = " ".join(
    (
        os.environ.get("XLA_FLAGS", ""),
        f"--xla_force_host_platform_device_count={DEVICES.get(KIND, 1)}",
    )
)
if KIND == "workers":
    join_workers(INDEX, PORT)
    import tensorflow as tf

    STRATEGY = tf.distribute.MultiWorkerMirroredStrategy()
elif KIND == "mirrored":
    import tensorflow as tf

    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * 2,
    )
    STRATEGY = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
else:
    STRATEGY = None

import keras
import numpy as np
import tiny
import tiny_gkd

import keras_distill as kd
from keras_distill import losses
from keras_distill._untuned import untuned

ROWS, BATCH, EPOCHS = 80, 8, 2
WEIGHTS = np.linspace(0, 2, ROWS).astype("float32")
MSE = keras.losses.MeanSquaredError()
HIDDEN = kd.Match("hidden", "hidden", MSE, name="hidden")


def teacher():
    return tiny.mlp(16)


def student():
    return tiny.mlp(8, kernel_regularizer=keras.regularizers.L2(0.1))


def pair(*makers):
    """Teacher and student, where `KIND` says that their weights are."""
    first = makers[0]()
    if KIND == "teacher divided":
        keras.distribution.set_distribution(model_parallel())
    models = first, makers[1]()
    expected = {
        "model parallel": (True, True),
        "teacher divided": (True, False),
    }
    if KIND in expected and isinstance(first, keras.Model):
        found = tuple(
            any(not v.value.sharding.is_fully_replicated for v in m.variables)
            for m in models
        )
        assert found == expected[KIND], found
    return models


def rows(*arrays):
    """The data set of `arrays`, of which each worker takes a share."""
    import tensorflow as tf

    arrays = arrays if len(arrays) > 1 else arrays[0]
    return of_workers(tf.data.Dataset.from_tensor_slices(arrays))


def of_workers(dataset):
    import tensorflow as tf

    options = tf.data.Options()
    policy = tf.data.experimental.AutoShardPolicy.DATA
    options.experimental_distribute.auto_shard_policy = policy
    dataset = dataset.batch(BATCH, drop_remainder=True).with_options(options)
    return untuned(dataset)


def trained(model, x, y=None, weight=None, callbacks=()):
    """What `fit` and `evaluate` tell, and the weights at the end."""
    if not hasattr(x, "element_spec"):
        x = rows(
            *(x, y, weight)[: 1 if y is None else 2 + (weight is not None)]
        )
    callbacks = list(callbacks)
    history = model.fit(
        x, epochs=EPOCHS, callbacks=callbacks, verbose=0
    ).history
    logs = model.evaluate(x, return_dict=True, verbose=0)
    history |= {f"evaluate {name}": logs[name] for name in logs}
    weights = [*model.student.variables]
    layers = getattr(model, "projections", ())
    weights += [v for layer in layers for v in layer.variables]
    return history, [np.asarray(v) for v in weights]


def logits():
    model = tiny.distiller(*pair(teacher, student), metrics=["accuracy"])
    return trained(model, *tiny.data(ROWS))


def matches():
    model = tiny.distiller(*pair(teacher, student), [HIDDEN])
    return trained(model, *tiny.data(ROWS))


def annealing():
    line = kd.schedules.Linear(4.0, 1.0, length=15)
    callbacks = [
        kd.callbacks.AnnealTemperature(line, per="step"),
        kd.callbacks.AnnealWeight("hidden", line, per="epoch"),
    ]
    model = tiny.distiller(*pair(teacher, student), [HIDDEN])
    return trained(model, *tiny.data(ROWS), callbacks=callbacks)


def stages():
    found = [
        kd.Stage(1, hard_weight=0.0, temperature=4.0, learning_rate=0.05),
        kd.Stage(1, freeze=["logits"], restore_best="loss", matches=[]),
    ]
    callbacks = [kd.callbacks.StageSwitch(found)]
    model = tiny.distiller(*pair(teacher, student), [HIDDEN])
    return trained(model, *tiny.data(ROWS), callbacks=callbacks)


def ensemble():
    def several():
        return kd.Ensemble([tiny.mlp(16), tiny.mlp(12, seed=5)])

    model = tiny.distiller(*pair(several, student))
    return trained(model, *tiny.data(ROWS))


def sample_weights():
    model = tiny.distiller(*pair(teacher, student), [HIDDEN])
    return trained(model, *tiny.data(ROWS), weight=WEIGHTS)


def masks():
    x, y = tiny.tokens(ROWS)
    x["padding_mask"] = x["padding_mask"].astype(bool)
    match = kd.Match(2, 1, losses.HiddenMSE(), name="state")
    models = pair(
        lambda: tiny.bert(2, 8, dropout=0.0),
        lambda: tiny.bert(1, 4, dropout=0.0),
    )
    return trained(tiny.distiller(*models, [match]), x, y)


def cached():
    import tensorflow as tf

    dataset = tf.data.Dataset.from_tensor_slices(tiny.data(ROWS))
    model, folder = teacher(), tempfile.mkdtemp()
    states = {"hidden": "hidden"}
    kd.cache.write(model, dataset, folder, states=states, dtype="float32")
    attached = kd.cache.attach(dataset, folder, teacher=model)
    model = tiny.distiller(None, student(), [HIDDEN])
    return trained(model, of_workers(attached))


def gkd():
    # Of one length, so that one loop is compiled.
    prompts, ends = [3] * 8, [8, 4, 9, 9, 12, 6, 5, 7]
    models = pair(tiny_gkd.teacher, tiny_gkd.student)
    model = tiny_gkd.distiller(
        models, compiled=True, lmbda=0.5, sft_weight=0.3,
        micro_batch_size=2, chunk_tokens=5,
    )  # fmt: skip
    return trained(model, tiny_gkd.batch(prompts * 10, ends * 10))


FEATURES = {
    f.__name__: f
    for f in (
        logits,
        matches,
        annealing,
        stages,
        ensemble,
        sample_weights,
        masks,
        cached,
        gkd,
    )
}


def distribution():
    """What tells Keras on JAX which devices there are."""
    if KIND == "processes":
        keras.distribution.initialize(f"localhost:{PORT}", 2, INDEX)
    if KIND in ("data parallel", "processes"):
        return keras.distribution.DataParallel()
    if KIND not in DEVICES:
        return None
    models = [tiny.mlp(16), tiny.bert(), tiny_gkd.teacher()]
    return model_parallel(*models)


def model_parallel(*models):
    """Divides `models` among two devices each, of eight."""
    mesh = keras.distribution.DeviceMesh((4, 2), ("batch", "model"))
    return keras.distribution.ModelParallel(
        layout_map=kd.layout_map(mesh, *models), batch_dim_name="batch"
    )


if __name__ == "__main__":
    devices, found = distribution(), {}
    for name, feature in FEATURES.items():
        keras.utils.clear_session(free_memory=False)
        keras.distribution.set_distribution(devices)
        keras.utils.set_random_seed(0)
        with STRATEGY.scope() if STRATEGY else contextlib.nullcontext():
            history, weights = feature()
        found |= {f"{name}/{key}": history[key] for key in history}
        found |= {f"{name}/weight {i}": w for i, w in enumerate(weights)}
    np.savez(FILE, **found)
