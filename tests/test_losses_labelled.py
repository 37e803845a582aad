"""Losses that need the hard label: float64 NumPy references, then laws."""

import functools

import keras
import numpy as np
import pytest
import tiny
from helpers import compiled
from helpers import gradients
from helpers import twin
from keras import ops
from scipy.special import log_softmax

from keras_distill import losses
from keras_distill import temperatures
from keras_distill._backend import set_mask

RNG = np.random.default_rng(0)
X, Y = tiny.data(8)


def kl(log_p, log_q):
    return (np.exp(log_p) * (log_p - log_q)).sum()


def others(logits, label):
    return log_softmax(np.delete(logits, label))


def plain(t, s, temperature):
    log_p, log_q = log_softmax(t / temperature), log_softmax(s / temperature)
    return temperature**2 * kl(log_p, log_q)


def dkd(t, s, label, temperature, alpha=0.7, beta=3.0):
    t, s = t / temperature, s / temperature
    p, q = np.exp(log_softmax(t))[label], np.exp(log_softmax(s))[label]
    tckd = p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))
    nckd = kl(others(t, label), others(s, label))
    return temperature**2 * (alpha * tckd + beta * nckd)


def nkd(t, s, label, temperature, gamma=2.0):
    p, log_q = np.exp(log_softmax(t))[label], log_softmax(s)[label]
    log_p = others(t / temperature, label)
    cross = -(np.exp(log_p) * others(s / temperature, label)).sum()
    return -p * log_q + gamma * temperature**2 * cross


def wsld(t, s, label, temperature):
    ratio = log_softmax(s)[label] / (log_softmax(t)[label] - 1e-7)
    return (1 - np.exp(-ratio)) * plain(t, s, temperature)


CASES = {
    "dkd": (losses.DKD, {"alpha": 0.7, "beta": 3.0}, dkd),
    "nkd": (losses.NKD, {"gamma": 2.0}, nkd),
    "wsld": (losses.WSLD, {}, wsld),
}
every_reference = pytest.mark.parametrize(
    ("kind", "options", "reference"), CASES.values(), ids=CASES
)
every = pytest.mark.parametrize(
    ("kind", "options"), [case[:2] for case in CASES.values()], ids=CASES
)


def pair(*shape):
    return 2 * RNG.normal(size=(2, *shape)).astype("float32")


def close(actual, wanted, rtol=5e-5, atol=1e-6):
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)


def by_row(reference, t, s, labels, temperature):
    flat = zip(
        np.float64(t).reshape(-1, t.shape[-1]),
        np.float64(s).reshape(-1, s.shape[-1]),
        np.ravel(labels),
        np.broadcast_to(temperature, labels.shape).ravel(),
    )
    values = [
        reference(t, s, label, tau) if label >= 0 else plain(t, s, tau)
        for t, s, label, tau in flat
    ]
    return np.reshape(values, labels.shape)


@every_reference
@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("shape", [(6, 4), (2, 3, 5)])
def test_equals_reference(kind, options, reference, temperature, shape):
    t, s = pair(*shape)
    labels = RNG.integers(-1, shape[-1], shape[:-1])
    wanted = by_row(reference, t, s, labels, temperature)
    loss = kind(temperature=temperature, reduction=None, **options)
    close(loss(t, s, labels=labels), wanted)
    loss = kind(temperature=temperature, **options)
    close(loss(t, s, labels=labels), wanted.mean())


@every_reference
def test_temperature_per_row_from_a_rule_and_assigned(kind, options, reference):
    t, s = pair(6, 4)
    labels = np.array([0, 1, 2, 3, -1, 0])
    tau = RNG.uniform(1, 3, 6).astype("float32")
    wanted = by_row(reference, t, s, labels, np.float64(tau))
    loss = kind(temperature=tau, reduction=None, **options)
    close(loss(t, s, labels=labels), wanted)
    rule = temperatures.FLSW(base_temperature=2.5, beta=0.5)
    tau = np.float64(ops.convert_to_numpy(rule(t, s)))
    loss.temperature = rule
    wanted = by_row(reference, t, s, labels, tau)
    close(loss(t, s, labels=labels), wanted)
    loss.temperature = keras.Variable(2.0, trainable=False)
    close(
        loss(t, s, labels=labels), by_row(reference, t, s, labels, np.array(2))
    )


@every
def test_labels_come_in_several_forms(kind, options):
    t, s = pair(5, 3)
    labels = np.array([0, 2, -1, 1, 1])
    loss = kind(reduction=None, **options)
    wanted = loss(t, s, labels=labels)
    one_hot = np.eye(3)[labels] * (labels >= 0)[:, None]
    for form in (
        labels[:, None],
        labels.astype("float32"),
        one_hot.astype("float32"),
        one_hot.astype("int64"),
        np.where(labels < 0, 9, labels),
    ):
        close(loss(t, s, labels=form), wanted)


@every
def test_rows_without_a_label(kind, options):
    t, s = pair(5, 4)
    none = np.full(5, -1)
    loss = kind(temperature=3.0, **options)
    close(loss(t, s, labels=none), losses.ForwardKL(3.0)(t, s))
    loss = kind(temperature=3.0, unlabelled="teacher", **options)
    close(
        loss(t, s, labels=none),
        kind(temperature=3.0, **options)(t, s, labels=t.argmax(-1)),
    )


def test_plain_kl_is_dkd_with_the_teachers_weight():
    t, s = pair(1, 5)
    labels = np.array([2])
    p = np.exp(log_softmax(t))[0, 2]
    loss = losses.DKD(alpha=1.0, beta=float(1 - p), temperature=1.0)
    close(loss(t, s, labels=labels), losses.ForwardKL(1.0)(t, s))


def test_dkd_and_wsld_are_0_when_equal_and_nkd_an_entropy():
    t, s = pair(5, 4)
    labels = np.array([0, 1, 2, 3, -1])
    for loss in (losses.DKD(), losses.WSLD()):
        close(loss(t, t, labels=labels), 0)
        assert float(loss(t, s, labels=labels)) > 0.01
        call = functools.partial(loss, t, labels=labels)
        close(gradients(call, t)[0], 0)
    t, labels = t[:4], labels[:4]
    targets, nkd = losses.NKD(gamma=0), losses.NKD(gamma=1)
    value = float(nkd(t, t, labels=labels) - targets(t, t, labels=labels))
    entropies = [
        -(np.exp(log_p) * log_p).sum()
        for log_p in (others(np.float64(row), k) for row, k in zip(t, labels))
    ]
    close(value, np.mean(entropies), rtol=1e-4)


@every
def test_ignores_a_constant_added_to_logits(kind, options):
    t, s = pair(5, 4)
    labels = np.array([0, 1, 2, 3, -1])
    loss = kind(**options)
    close(
        loss(t + 10, s - 5, labels=labels),
        loss(t, s, labels=labels),
        rtol=5e-4,
    )


@every
def test_weights_and_masks(kind, options):
    t, s = pair(4, 3)
    labels = np.array([0, 1, 2, -1])
    loss = kind(reduction="mean_with_sample_weight", **options)
    weight = np.array([1, 2, 0, 0])
    wanted = loss(t[:2], s[:2], weight[:2], labels=labels[:2])
    close(loss(t, s, weight, labels=labels), wanted)
    close(loss(t, s, 0 * weight, labels=labels), 0)
    student = ops.convert_to_tensor(s)
    set_mask(student, ops.convert_to_tensor(weight > 0))
    wanted = kind(**options)(t[:2], s[:2], labels=labels[:2])
    close(kind(**options)(t, student, labels=labels), wanted)


@every
def test_gradient_reaches_only_the_student_and_fits_the_value(kind, options):
    t, s = pair(5, 4)
    labels = np.array([0, 1, 2, 3, -1])
    loss = kind(temperature=2.0, reduction="sum", **options)
    to_teacher, to_student = gradients(
        lambda t, s: loss(t, s, labels=labels), t, s
    )
    assert not to_teacher.any()
    close(to_student.sum(-1), 0, atol=1e-4)
    if kind is losses.WSLD:  # Its weight is a constant for the gradient.
        scale = loss(t, s, labels=labels) / losses.ForwardKL(
            2.0, reduction="sum"
        )(t, s)
        assert 0 < float(scale) < 1
        return
    step = 1e-2 * np.sign(to_student)
    change = float(
        loss(t, s + step, labels=labels) - loss(t, s - step, labels=labels)
    )
    assert change == pytest.approx(2e-2 * np.abs(to_student).sum(), rel=0.02)


def test_the_weight_of_wsld_has_no_gradient():
    t, s = pair(1, 4)
    labels = np.array([1])
    wsld, kl = losses.WSLD(2.0), losses.ForwardKL(2.0)
    found = gradients(lambda s: wsld(t, s, labels=labels), s)[0]
    weight = float(wsld(t, s, labels=labels)) / float(kl(t, s))
    close(found, weight * gradients(lambda s: kl(t, s), s)[0], rtol=1e-4)


@every
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(kind, options, dtype):
    t, s = (ops.cast(x, dtype) for x in pair(4, 3))
    labels = np.array([0, 1, 2, -1])
    exact = [ops.cast(x, "float32") for x in (t, s)]
    loss = kind(**options)
    close(loss(t, s, labels=labels), loss(*exact, labels=labels))


@every
def test_a_class_that_the_teacher_rules_out(kind, options):
    t, s = pair(4, 4)
    t[:, 2] = -np.inf
    labels = np.array([0, 1, 3, -1])
    loss = kind(**options)
    assert np.isfinite(float(loss(t, s, labels=labels)))
    call = functools.partial(loss, t, labels=labels)
    found = gradients(call, s)[0]
    assert np.all(np.isfinite(found))
    assert found.any()
    s[:, 2] = -np.inf  # Both rule it out: as if the class were not there.
    close(
        loss(t, s, labels=labels),
        loss(
            np.delete(t, 2, -1),
            np.delete(s, 2, -1),
            labels=np.array([0, 1, 2, -1]),
        ),
    )
    assert np.all(np.isfinite(gradients(call, s)[0]))


@pytest.mark.parametrize(
    "loss", [losses.DKD(2.0, 5.0, 1.0), losses.NKD(9.0), losses.WSLD(1.0)]
)
def test_a_teacher_that_rules_out_all_other_classes(loss):
    t, s = np.array([[3.0, *[-np.inf] * 3]], "float32"), pair(1, 4)[0]
    ce = -float(log_softmax(np.float64(s))[0, 0])
    factor = 2 if isinstance(loss, losses.DKD) else 1
    call = functools.partial(loss, t, labels=np.array([0]))
    assert float(call(s)) == pytest.approx(factor * ce, rel=1e-4)
    q = np.exp(log_softmax(s))
    close(gradients(call, s)[0], factor * (q - np.eye(4)[:1]), atol=1e-4)


@every
def test_compiles(kind, options):
    t, s = pair(5, 4)
    labels = np.array([0, 1, 2, 3, -1])
    loss = kind(**options)
    run = compiled(lambda t, s, y: loss(t, s, labels=y))
    close(run(t, s, labels), loss(t, s, labels=labels))


NON_DEFAULT = [
    losses.DKD(0.5, 2.0, 3.0, "teacher", name="a", reduction="sum"),
    losses.NKD(0.5, 3.0, "teacher", name="b", reduction=None),
    losses.WSLD(3.0, "teacher", name="c", dtype="float16"),
]


@pytest.mark.parametrize("loss", NON_DEFAULT, ids=lambda loss: loss.name)
def test_round_trip_keeps_the_value(loss):
    t, s = pair(4, 3)
    labels = np.array([0, 1, 2, -1])
    np.testing.assert_array_equal(
        twin(loss)(t, s, labels=labels), loss(t, s, labels=labels)
    )
    assert twin(loss).get_config() == loss.get_config()


@pytest.mark.parametrize("kind", [losses.DKD, losses.NKD])
def test_two_classes_warn_once(kind):
    t, s = pair(4, 2)
    labels = np.array([0, 1, 1, -1])
    loss = kind(temperature=2.0)
    with pytest.warns(UserWarning, match="with two classes"):
        loss(t, s, labels=labels)
    value = loss(t, s, labels=labels)  # A second warning would be an error.
    if kind is losses.DKD:
        close(value, losses.ForwardKL(2.0)(t, s))


def test_defaults():
    dkd, nkd = losses.DKD().get_config(), losses.NKD().get_config()
    assert (dkd["alpha"], dkd["beta"], dkd["temperature"]) == (1, 8, 4)
    assert (nkd["gamma"], nkd["temperature"]) == (1.5, 1)
    assert losses.WSLD().temperature == 2
    assert {dkd["unlabelled"], nkd["unlabelled"]} == {"kl"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: losses.DKD(alpha=-1), "Received: alpha=-1"),
        (lambda: losses.DKD(beta="8"), "Received: beta='8'"),
        (lambda: losses.NKD(gamma=float("inf")), "Received: gamma=inf"),
        (lambda: losses.WSLD(0), "Received: temperature=0"),
        (lambda: losses.WSLD(unlabelled="no"), "Received: unlabelled='no'"),
        (lambda: losses.DKD()(X, X), "Received: labels=None"),
        (lambda: losses.DKD()(X, X[:, :3], labels=Y), "student_logits.shape="),
        (lambda: losses.DKD()(X, X, labels=Y[:5]), r"labels.shape=\(5,\)"),
        (lambda: losses.NKD()(X, X, labels=X[:, :3]), r"one-hot rows of 4"),
        (lambda: losses.NKD()(X[:, :1], X[:, :1], labels=Y), "at least 2"),
    ],
)
def test_message(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def build(soft_loss, **kwargs):
    options = {
        "soft_loss": soft_loss,
        "optimizer": keras.optimizers.SGD(0.0),
        "loss": keras.losses.SparseCategoricalCrossentropy(
            from_logits=True, ignore_class=-1
        ),
    }
    return tiny.distiller(tiny.mlp(8), tiny.mlp(4, seed=9), **options | kwargs)


@every
@pytest.mark.parametrize("weight", [None, np.arange(8) % 3 / 2.0])
def test_the_distiller_passes_the_labels(kind, options, weight):
    labels = np.where(np.arange(8) == 3, -1, Y)
    distiller = build(kind(temperature=2.0, **options))
    t, s = distiller.teacher(X), distiller.student(X)
    wanted = kind(temperature=2.0, **options)(t, s, weight, labels=labels)
    logs = distiller.train_on_batch(X, labels, weight, return_dict=True)
    assert float(logs["soft_loss"]) == pytest.approx(float(wanted), rel=1e-4)
    distiller.schedules.temperatures["soft"].assign(1.0)
    wanted = kind(temperature=1.0, **options)(t, s, weight, labels=labels)
    logs = distiller.train_on_batch(X, labels, weight, return_dict=True)
    assert float(logs["soft_loss"]) == pytest.approx(float(wanted), rel=1e-4)
    assert distiller.traces == 1


def test_labels_without_a_hard_loss_and_with_a_signal():
    signal = RNG.normal(size=(8, 3)).astype("float32")
    distiller = tiny.distiller(
        None, tiny.mlp(4), loss=None, soft_loss=losses.DKD()
    )
    wanted = losses.DKD()(signal, distiller.student(X), labels=Y)
    x = {"student": X, "teacher_signal": {"logits": signal}}
    logs = distiller.train_on_batch(x, Y, return_dict=True)
    assert float(logs["soft_loss"]) == pytest.approx(float(wanted), rel=1e-4)


def test_each_output_gets_its_own_labels():
    def heads(units):
        inputs = keras.Input((tiny.FEATURES,))
        hidden = keras.layers.Dense(units)(inputs)
        outputs = {
            name: keras.layers.Dense(3, name=name)(hidden) for name in "ab"
        }
        return keras.Model(inputs, outputs)

    soft = {"a": losses.DKD(), "b": losses.ForwardKL()}
    distiller = tiny.distiller(heads(8), heads(4), loss=None, soft_loss=soft)
    t, s = distiller.teacher(X), distiller.student(X)
    wanted = losses.DKD()(t["a"], s["a"], labels=Y)
    wanted += losses.ForwardKL()(t["b"], s["b"])
    logs = distiller.train_on_batch(X, {"a": Y, "b": 0 * Y}, return_dict=True)
    assert float(logs["soft_loss"]) == pytest.approx(float(wanted), rel=1e-4)


def test_without_labels_no_weight_changes():
    distiller = build(losses.DKD(), loss=None)
    before = tiny.values(distiller.student)
    with pytest.raises(ValueError, match="`DKD` needs labels, the data"):
        distiller.fit(X, verbose=0)
    if keras.backend.backend() == "tensorflow":  # JAX' step gives them away.
        assert tiny.equal(before, tiny.values(distiller.student))


def test_a_softmax_and_a_single_unit_are_refused():
    inputs = keras.Input((tiny.FEATURES,))
    softmax = keras.Model(inputs, keras.layers.Dense(3, "softmax")(inputs))
    with pytest.raises(ValueError, match="`DKD` needs logits"):
        tiny.distiller(softmax, tiny.mlp(), soft_loss=losses.DKD())
    single = [tiny.mlp(classes=1, seed=i) for i in (1, 2)]
    with pytest.raises(ValueError, match="output 'soft' has one unit"):
        tiny.distiller(*single, loss="mse", soft_loss=losses.NKD())
