"""Whatever Keras' own training does, the Distiller's does."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tiny

from keras_distill import losses
from keras_distill.matching import Match

X, Y = tiny.data()
TENSORFLOW = keras.backend.backend() == "tensorflow"

QUICK = ("sgd", "clipnorm", "weighted")
OPTIONS = {
    "sgd": (keras.optimizers.SGD, {"learning_rate": 0.1}, {}),
    "adamw": (keras.optimizers.AdamW, {"learning_rate": 0.1}, {}),
    "clipnorm": (keras.optimizers.Adam, {"clipnorm": 0.01}, {}),
    "clipvalue": (keras.optimizers.SGD, {"clipvalue": 0.01}, {}),
    "accumulation": (
        keras.optimizers.Adam,
        {"gradient_accumulation_steps": 2},
        {},
    ),
    "ema": (
        keras.optimizers.SGD,
        {"use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 2},
        {},
    ),
    "steps": (keras.optimizers.Adam, {}, {"steps_per_execution": 2}),
    "jit": (keras.optimizers.Adam, {}, {"jit_compile": True}),
    "eager": (keras.optimizers.Adam, {}, {"run_eagerly": True}),
    "loss_weights": (keras.optimizers.SGD, {}, {"loss_weights": [0.5]}),
    "weighted": (
        keras.optimizers.SGD,
        {},
        {"weighted_metrics": ["accuracy"], "metrics": ["accuracy"]},
    ),
}


def student(**kwargs):
    return tiny.mlp(
        8, dropout=0.3, kernel_regularizer=keras.regularizers.L2(0.1), **kwargs
    )


def train(model, **kwargs):
    keras.utils.set_random_seed(3)
    history = model.fit(
        X,
        Y,
        epochs=2,
        batch_size=4,
        sample_weight=np.linspace(0.5, 1.5, 16),
        validation_data=(X, Y),
        verbose=0,
        **kwargs,
    )
    return history.history


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if case in QUICK else pytest.mark.large)
        for case in OPTIONS
    ],
)
def test_without_a_teachers_part_it_is_plain_keras(case):
    kind, optimizer, options = OPTIONS[case]
    plain = student()
    plain.compile(kind(**optimizer), tiny.CROSS_ENTROPY, **options)
    mine = student()
    model = tiny.distiller(
        tiny.mlp(4),
        mine,
        optimizer=kind(**optimizer),
        hard_weight=1.0,
        **options,
    )
    model.set_active(soft=False)
    expected, got = train(plain), train(model)
    got.pop("hard_loss")
    if case == "jit":  # XLA fuses the two steps differently.
        for a, b in zip(tiny.values(plain), tiny.values(mine)):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    else:
        assert tiny.equal(tiny.values(plain), tiny.values(mine))
    assert sorted(got) == sorted(expected)
    for name, history in expected.items():
        assert got[name] == pytest.approx(history, rel=1e-5)


def test_a_soft_weight_of_zero_changes_nothing_either():
    plain, mine = student(), student()
    plain.compile(keras.optimizers.SGD(0.1), tiny.CROSS_ENTROPY)
    model = tiny.distiller(tiny.mlp(4), mine, hard_weight=1.0, soft_weight=0.0)
    train(plain), train(model)
    assert tiny.equal(tiny.values(plain), tiny.values(mine))


def test_the_soft_loss_alone_is_plain_keras_on_the_teachers_logits():
    teacher = tiny.mlp(4)
    plain, mine = tiny.mlp(8), tiny.mlp(8)
    plain.compile(keras.optimizers.Adam(), losses.ForwardKL(2.0))
    model = tiny.distiller(
        teacher,
        mine,
        optimizer=keras.optimizers.Adam(),
        loss=None,
        soft_weight=1.0,
    )
    plain.fit(X, tiny.array(teacher(X)), epochs=3, shuffle=False, verbose=0)
    model.fit(X, epochs=3, shuffle=False, verbose=0)
    for a, b in zip(tiny.values(plain), tiny.values(mine)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def mixed(units, **kwargs):
    return tiny.mlp(units, dtype="mixed_float16", **kwargs)


def test_loss_scaling_in_mixed_float16():
    match = Match("hidden", "hidden", losses_mse(), name="hidden")
    distiller = tiny.distiller(
        mixed(16),
        mixed(8),
        [match],
        optimizer=keras.optimizers.LossScaleOptimizer(
            keras.optimizers.SGD(0.1), initial_scale=1024.0
        ),
    )
    single = tiny.distiller(
        tiny.mlp(16), tiny.mlp(8), [Match("hidden", "hidden", losses_mse())]
    )
    for to, source in zip(
        distiller.trainable_variables, single.trainable_variables
    ):
        to.assign(tiny.array(source))
    logs, expected = (
        d.train_on_batch(X, Y, return_dict=True) for d in (distiller, single)
    )
    assert float(logs["loss"]) == pytest.approx(
        float(expected["loss"]), rel=1e-2
    )
    for a, b in zip(
        tiny.values(distiller.student), tiny.values(single.student)
    ):
        np.testing.assert_allclose(a, b, atol=2e-3)


def losses_mse():
    return keras.losses.MeanSquaredError()


def test_an_overflow_skips_the_step_and_lowers_the_scale():
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(0.1), initial_scale=3e38
    )
    distiller = tiny.distiller(mixed(16), mixed(8), optimizer=optimizer)
    before = tiny.values(distiller.student)
    distiller.train_on_batch(X, Y)
    assert tiny.equal(before, tiny.values(distiller.student))
    assert float(optimizer.dynamic_scale) < 3e38


def projected(multiplier, optimizer, **kwargs):
    keras.utils.set_random_seed(0)
    match = Match(
        "hidden",
        "hidden",
        losses_mse(),
        learning_rate_multiplier=multiplier,
        name="hidden",
        **kwargs,
    )
    distiller = tiny.distiller(
        tiny.mlp(16), tiny.mlp(8), [match], optimizer=optimizer
    )
    before = tiny.values(distiller.projections[0])
    distiller.train_on_batch(X, Y)
    after = tiny.values(distiller.projections[0])
    return [b - a for a, b in zip(before, after)], tiny.values(
        distiller.student
    )


@pytest.mark.parametrize("multiplier", [0.0, 0.5, 10.0])
def test_a_multiplier_scales_the_projections_step(multiplier):
    def sgd():
        return keras.optimizers.SGD(0.1)

    one, student_one = projected(1.0, sgd())
    other, student_other = projected(multiplier, sgd())
    for a, b in zip(one, other):
        np.testing.assert_allclose(multiplier * a, b, rtol=1e-3, atol=1e-7)
    assert tiny.equal(student_one, student_other)


def test_a_multiplier_of_zero_freezes_under_any_optimizer():
    adamw = keras.optimizers.AdamW(0.1, weight_decay=0.5)
    moved, _ = projected(0.0, adamw)
    assert not any(step.any() for step in moved)
    moved, _ = projected(
        0.0, keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1))
    )
    assert not any(step.any() for step in moved)


def test_optimizers_by_name_and_schedules_of_the_learning_rate():
    distiller = tiny.distiller(tiny.mlp(16), tiny.mlp(8), optimizer="adam")
    assert "loss" in distiller.fit(X, Y, verbose=0).history
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5)
    distiller = tiny.distiller(
        tiny.mlp(16), tiny.mlp(8), optimizer=keras.optimizers.SGD(schedule)
    )
    assert "loss" in distiller.fit(X, Y, verbose=0).history


def test_data_of_other_kinds():
    import tensorflow as tf

    matches = [Match("hidden", "hidden", losses_mse(), name="hidden")]
    teacher = tiny.mlp(16)
    for kind in ("dataset", "py_dataset", "generator"):
        student = tiny.subclassed(8)
        distiller = tiny.distiller(teacher, student, matches)
        data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
        if kind == "py_dataset":
            data = Batches()
        elif kind == "generator":
            batches = [(X[:4], Y[:4])] * 20
            data = (batch for batch in batches)
            with pytest.raises(ValueError, match="distiller.prepare"):
                distiller.fit(data, verbose=0)
            distiller.prepare(X[:2])
        history = distiller.fit(
            data, steps_per_epoch=3, shuffle=False, verbose=0
        ).history
        assert "hidden" in history
        assert len(distiller.projections) == 1


@pytest.mark.parametrize("kind", ["list", "array", "dict", "dataset"])
def test_strings_are_to_be_encoded_first(kind):
    distiller = tiny.distiller(tiny.bert(1, 8), tiny.bert(1, 4))
    texts, labels = ["a text", "another"], np.array([0, 1])
    x = {
        "list": texts,
        "array": np.array(texts),
        "dict": {"teacher": np.array(texts), "student": np.array(texts)},
    }.get(kind)
    if kind == "dataset":
        import tensorflow as tf

        x = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(2)
        labels = None
    with pytest.raises(ValueError, match="preprocessor=None.*Received: inp"):
        distiller.fit(x, labels, verbose=0)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        part = slice(4 * index, 4 * index + 4)
        return X[part], Y[part]


STRATEGY = """
import tensorflow as tf
cpus = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(
    cpus[0], [tf.config.LogicalDeviceConfiguration()] * 2)
import keras
import numpy as np
import tiny
from keras_distill import losses, schedules
from keras_distill.callbacks import AnnealTemperature, AnnealWeight, StageSwitch
from keras_distill.matching import Match
from keras_distill.stages import Stage

# The first replica gets short texts, the second long ones.
x, y = tiny.tokens(8, 6)
x["padding_mask"] = np.sort(x["padding_mask"], axis=0)
x["padding_mask"][0] = 0
MEAN = keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")
WEIGHT = np.array([1.0, 0.5, 0.0, 2.0, 1.0, 3.0, 0.5, 1.0])

def stages():
    return [StageSwitch([
        Stage(1, hard_weight=0.0, temperature=4.0, learning_rate=0.05),
        Stage(1, hard_weight=1.0, temperature=lambda e: 2.0 + e,
              freeze=["logits"], learning_rate=lambda step: 0.1,
              restore_best="loss", matches=["mean"])])]

def annealed():
    line = schedules.Linear(4.0, 1.0, length=2)
    return [AnnealTemperature(line, per="step"),
            AnnealWeight("state", line)]

def train(callbacks, weight):
    keras.utils.set_random_seed(0)
    match = [
        Match(2, 1, losses.HiddenMSE(), name="state"),
        Match(2, 1, losses.HiddenMSE(reduction="mean_with_sample_weight"),
              name="weighted"),
        Match(-1, -1, losses.HiddenCosine(reduction="sum"), name="cosine"),
        Match((0, 1), (0, 1), losses.NeuronSelectivity(), name="nst"),
        Match((0, 1), (0, 1), losses.FlowOfSolution(), name="fsp"),
        Match(1, 1, losses.PatientKD(), name="first"),
        Match(1, 0, keras.losses.MeanSquaredError(), name="keras"),
        Match(1, 0, MEAN, name="mean"),
    ]
    d = tiny.distiller(
        tiny.bert(2, 8, dropout=0.0), tiny.bert(1, 4, dropout=0.0), match)
    return d.fit(x, y, batch_size=8, epochs=2, shuffle=False, verbose=0,
                 sample_weight=weight, callbacks=callbacks()
                 ).history, tiny.values(d.student)

def run(scope):
    with scope:
        first, weights = train(stages, None)
        second, more = train(annealed, WEIGHT)
    second = {f"annealed {name}": v for name, v in second.items()}
    return first | second, weights + more

import contextlib
one, weights = run(contextlib.nullcontext())
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
assert strategy.num_replicas_in_sync == 2
two, mirrored = run(strategy.scope())
for name in one:
    np.testing.assert_allclose(
        one[name], two[name], rtol=1e-4, atol=1e-6, err_msg=name)
for a, b in zip(weights, mirrored):
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
"""


@pytest.mark.large
@pytest.mark.skipif(not TENSORFLOW, reason="tf.distribute needs TensorFlow")
def test_two_replicas_are_one(request):
    result = subprocess.run(
        [sys.executable, "-c", STRATEGY],
        capture_output=True,
        text=True,
        cwd=request.path.parent,
    )
    assert result.returncode == 0, result.stderr[-3000:]
