"""Students and teachers of other precisions, with adapters, frozen in parts."""

import keras
import numpy as np
import pytest
import tiny

import keras_distill as kd
from keras_distill import losses

X, Y = tiny.tokens(16)
TENSORFLOW = keras.backend.backend() == "tensorflow"
LOSSES = ("loss", "hard_loss", "soft_loss", "state")


def bert(layers, width, policy="float32"):
    keras.utils.set_random_seed(layers)
    keras.config.set_dtype_policy(policy)
    try:
        return tiny.bert(layers, width, dropout=0.0)
    finally:
        keras.config.set_dtype_policy("float32")


def trained(teacher, student):
    """The Distiller after four steps, and the losses of its last epoch."""
    match = kd.Match(2, 1, losses.HiddenMSE(), name="state")
    model = tiny.distiller(teacher, student, [match])
    logs = model.fit(
        X, Y, epochs=2, batch_size=8, shuffle=False, verbose=0
    ).history
    return model, {name: logs[name][-1] for name in LOSSES}


@pytest.fixture(scope="module")
def expected():
    return trained(bert(2, 8), bert(1, 4))[1]


POLICIES = ["float32", "mixed_bfloat16"]
HALF = pytest.param(
    "mixed_float16",
    marks=pytest.mark.skipif(
        not TENSORFLOW, reason="JAX multiplies no float16 on a CPU"
    ),
)


@pytest.mark.large
@pytest.mark.parametrize("student", POLICIES)
@pytest.mark.parametrize("teacher", [*POLICIES, HALF])
def test_precisions_may_differ(expected, teacher, student):
    model, found = trained(bert(2, 8, teacher), bert(1, 4, student))
    # Weights and losses are float32 whatever the layers compute in.
    assert all(v.dtype == "float32" for v in model.student.trainable_weights)
    for name in LOSSES:
        assert found[name] == pytest.approx(expected[name], rel=0.02, abs=5e-5)


@pytest.mark.large
@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
@pytest.mark.parametrize(("mode", "close"), [("int8", 0.01), ("int4", 0.1)])
def test_quantized_teachers(expected, mode, close):
    teacher = bert(2, 8)
    teacher.quantize(mode)
    before = tiny.values(teacher)
    found = trained(teacher, bert(1, 4))[1]
    assert tiny.equal(tiny.values(teacher), before)
    assert found["state"] != expected["state"]
    for name in LOSSES:
        assert found[name] == pytest.approx(expected[name], rel=close, abs=5e-5)


def test_adapters_alone_are_trained():
    student = bert(1, 8)
    student.backbone.enable_lora(2)
    frozen = {
        v.path: tiny.array(v)
        for v in student.weights
        if not any(v is held for held in student.trainable_weights)
    }
    adapters = [v for v in student.trainable_weights if "lora" in v.path]
    start = tiny.values(adapters)
    model, _ = trained(bert(2, 8), student)
    assert len(frozen) > len(adapters) > 0
    for variable in student.weights:
        if variable.path in frozen:
            assert np.array_equal(tiny.array(variable), frozen[variable.path])
    assert not tiny.equal(tiny.values(adapters), start)
    # An optimizer with two moments has them for what is trained alone.
    adam = keras.optimizers.Adam()
    adam.build(model.trainable_variables)
    sizes = sum(v.shape == a.shape for v in adam.variables for a in adapters)
    assert sizes
    assert len(adam.variables) == 2 + 2 * len(model.trainable_variables)


@pytest.mark.large
@pytest.mark.skipif(not TENSORFLOW, reason="exports need TensorFlow")
@pytest.mark.parametrize("form", ["litert", "saved_model"])
def test_files_hold_adapters_in_the_kernels(tmp_path, form):
    student = bert(1, 8)
    student.backbone.enable_lora(2)
    trained(bert(2, 8), student)
    path = tmp_path / {"litert": "student.tflite"}.get(form, "student")
    report = getattr(kd.export, form)(student, path, examples=X)
    assert report.max_difference < 1e-5


def test_a_frozen_table_stays():
    student = bert(1, 4)
    table = student.backbone.token_embedding
    table.trainable = False
    before = tiny.values(table)
    other = tiny.values(student.trainable_weights)
    trained(bert(2, 8), student)
    assert tiny.equal(tiny.values(table), before)
    assert not tiny.equal(tiny.values(student.trainable_weights), other)
