"""Students and teachers of other precisions, with adapters, frozen in parts."""

import keras
import numpy as np
import pytest
import tiny

import keras_distill as kd
from keras_distill import losses
from keras_distill._backend.adapters import adapters
from keras_distill._backend.adapters import frozen_weights
from keras_distill.callbacks.best_student import BestStudent

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


def with_adapters(seed=0):
    """A Distiller whose student has adapters that learn fast."""
    student = bert(1, 8)
    student.backbone.enable_lora(2)
    rng = np.random.default_rng(seed)
    for variable in adapters(student):
        variable.assign(0.2 * rng.normal(size=variable.shape))
    adam = keras.optimizers.Adam(0.02)
    return tiny.distiller(bert(2, 8), student, optimizer=adam)


def fit(model, epochs, **options):
    model.fit(
        X, Y, batch_size=8, epochs=epochs, shuffle=False, verbose=0, **options
    )
    return model


def test_a_training_of_adapters_goes_on_where_it_was(tmp_path):
    whole = fit(with_adapters(), 4)
    start = tiny.values(adapters(whole.student))
    backup = kd.callbacks.Backup(tmp_path)
    fit(with_adapters(), 2, callbacks=[backup])
    resumed = with_adapters(seed=1)
    assert backup.restore(resumed) == 2
    assert not tiny.equal(tiny.values(adapters(resumed.student)), start)
    fit(resumed, 4, initial_epoch=2)
    for one, other in [
        (whole.student, resumed.student),
        (whole.optimizer, resumed.optimizer),
    ]:
        assert tiny.equal(tiny.values(one), tiny.values(other))


def test_checkpoints_hold_adapters_and_not_what_is_frozen(tmp_path):
    h5py = pytest.importorskip("h5py")
    model, path = with_adapters(), str(tmp_path / "model.weights.h5")
    fit(model, 1)
    model.save_weights(path)
    held = []
    with h5py.File(path) as file:
        file.visititems(lambda _, x: held.append(getattr(x, "shape", None)))
    frozen = {tuple(v.shape) for v in frozen_weights(model.student)}
    learned = {tuple(v.shape) for v in model.student.trainable_variables}
    assert frozen - learned
    assert not (frozen - learned) & set(held)
    assert learned <= set(held)
    other = with_adapters()
    table = other.student.backbone.token_embedding.embeddings
    table.assign(table + 1.0)
    with pytest.raises(ValueError, match="belongs to other frozen weights"):
        other.load_weights(path)
    bare = tiny.distiller(bert(2, 8), bert(1, 8))
    with pytest.raises(ValueError, match="`enable_lora` as before"):
        bare.load_weights(path)


def test_the_best_adapters_come_back_as_they_were(tmp_path):
    student = with_adapters().student
    before = tiny.values(student)
    best = BestStudent(tmp_path)
    best.update(0, 0, 0.5, "max", student)
    for variable in student.trainable_weights:
        variable.assign(variable + 1.0)
    best.restore(0, student)
    assert tiny.equal(tiny.values(student), before)
    # And a file of Keras' holds them in the kernels.
    outputs = tiny.array(student(X))
    student.save_weights(str(tmp_path / "student.weights.h5"))
    plain = bert(1, 8)
    plain.load_weights(str(tmp_path / "student.weights.h5"))
    np.testing.assert_allclose(tiny.array(plain(X)), outputs, atol=1e-5)


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
