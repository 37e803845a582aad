"""Losses on relations: float64 NumPy references with loops, then laws."""

import functools
import itertools

import keras
import numpy as np
import pytest
import tiny
from helpers import compiled
from helpers import gradients
from helpers import twin
from keras import ops
from scipy.special import log_softmax
from scipy.special import softmax

from keras_distill import losses
from keras_distill import taps
from keras_distill._backend import set_mask
from keras_distill.matching import Match
from keras_distill.recording import record

RNG = np.random.default_rng(0)
MASK = np.array([[1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
KEPT = [0, 1, 3]


def states(*shape, widths=(6, 6)):
    return [RNG.normal(size=(*shape, n)).astype("float32") for n in widths]


def close(actual, wanted, rtol=1e-4, atol=3e-6):
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)


def dist(t, s, temperature=1.0, weights=None, beta=0.7, gamma=3.0):
    """Values by row; `weights` are integers: how often a row is there."""
    p, q = (softmax(np.float64(z) / temperature, -1) for z in (t, s))
    rows = (
        np.arange(len(p))
        if weights is None
        else np.repeat(np.arange(len(p)), weights)
    )
    inter = np.array([1 - np.corrcoef(a, b)[0, 1] for a, b in zip(p, q)])
    intra = [1 - np.corrcoef(a, b)[0, 1] for a, b in zip(p[rows].T, q[rows].T)]
    return temperature**2 * (beta * inter + gamma * np.mean(intra))


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_dist_equals_reference(temperature):
    t, s = states(5, widths=(4, 4))
    options = {"beta": 0.7, "gamma": 3.0, "temperature": temperature}
    wanted = dist(t, s, temperature)
    close(losses.DIST(**options, reduction=None)(t, s), wanted)
    close(losses.DIST(**options)(t, s), wanted.mean())
    plain = losses.DIST(**options, temperature_squared=False)
    close(plain(t, s), wanted.mean() / temperature**2)
    sequences = [z.reshape(5, 1, 4) for z in (t, s)]
    close(losses.DIST(**options)(*sequences), wanted.mean())
    per_row = {**options, "temperature": np.full(5, temperature, "float32")}
    close(losses.DIST(**per_row)(t, s), wanted.mean())


def test_weights_and_masks_of_dist():
    t, s = states(4, widths=(3, 3))
    loss = losses.DIST(0.7, 3.0, reduction="mean_with_sample_weight")
    weights = np.array([1, 2, 0, 2])
    wanted = np.average(dist(t, s, weights=weights), weights=weights)
    close(loss(t, s, weights), wanted)
    close(loss(t, s, weights[:, None]), wanted)
    repeated = np.repeat(np.arange(4), weights)
    close(loss(t[repeated], s[repeated]), wanted)
    close(loss(t, s, 0 * weights), 0)
    student = ops.convert_to_tensor(s)
    set_mask(student, ops.convert_to_tensor(weights > 0))
    wanted = losses.DIST(0.7, 3.0)(t[KEPT], s[[0, 1, 3]])
    t[2] = 50
    close(losses.DIST(0.7, 3.0)(t, student), wanted)
    t, s = states(2, 3, widths=(4, 4))  # Token weights.
    weights = np.array([[1, 1, 0], [1, 0, 0]])
    close(loss(t, s, weights), loss(t[weights > 0], s[weights > 0]))


def test_dist_is_0_for_equal_logits_and_ignores_constants():
    t, s = states(5, widths=(4, 4))
    loss = losses.DIST(temperature=2.0)
    close(loss(t, t + 3), 0)
    close(gradients(functools.partial(loss, t), t)[0], 0, atol=1e-5)
    close(loss(t + 3, s - 5), loss(t, s))
    assert float(loss(t, s)) > 0.1


def test_dist_without_variation():
    t, s = states(4, widths=(3, 3))
    t[1] = 5  # A row that says nothing.
    flat = losses.DIST(gamma=0, reduction=None)(t, s)
    close(flat[1], 0)
    single = losses.DIST(beta=0)
    same = states(1, widths=(20, 20))[0]  # Equal rows, up to rounding.
    close(single(np.repeat(same, 7, 0), states(7, widths=(20,))[0]), 0)
    close(single(t[:1], s[:1]), 0)  # Nothing to correlate over.
    t[:, 2] = -np.inf  # A class that says nothing.
    wanted = 1 - np.mean(
        [
            np.corrcoef(a, b)[0, 1]
            for a, b in zip(softmax(t, -1).T[:2], softmax(s, -1).T)
        ]
    )
    close(single(t, s), wanted)
    for loss in (losses.DIST(), single):
        close(loss(t, 0 * s), loss(t, 0 * s + 9))
        for student in (s, 0 * s, np.repeat(s[:1], 4, 0)):
            call = functools.partial(loss, t)
            assert np.all(np.isfinite(gradients(call, student)[0]))


def test_two_classes_of_dist():
    t, s = states(5, widths=(2, 2))
    inter = losses.DIST(gamma=0)
    with pytest.warns(UserWarning, match="`DIST` with two classes"):
        inter(t, s)
    signs = np.sign((t[:, 0] - t[:, 1]) * (s[:, 0] - s[:, 1]))
    close(inter(t, s), np.mean(1 - signs))
    close(gradients(functools.partial(inter, t), s)[0], 0)


def huber(x):
    return x**2 / 2 if abs(x) <= 1 else abs(x) - 0.5


def rkd_distance(t, s, rows):
    pairs = list(itertools.permutations(rows, 2))
    t, s = (
        np.array([np.linalg.norm(x[i] - x[j]) for i, j in pairs])
        for x in (np.float64(t), np.float64(s))
    )
    values = map(huber, s / s.mean() - t / t.mean())
    return np.mean(list(values))


def cosine(x, i, j, k):
    a, b = x[i] - x[j], x[k] - x[j]
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def rkd_angle(t, s, rows):
    t, s = np.float64(t), np.float64(s)
    triplets = itertools.permutations(rows, 3)
    return np.mean([huber(cosine(s, *x) - cosine(t, *x)) for x in triplets])


RKD = {
    "distance": (losses.RKDDistance, rkd_distance),
    "angle": (losses.RKDAngle, rkd_angle),
}
every_rkd = pytest.mark.parametrize(
    ("kind", "reference"), RKD.values(), ids=RKD
)


@every_rkd
def test_rkd_equals_reference(kind, reference):
    t, s = states(5, widths=(4, 7))
    s[0] *= 20  # Beyond the threshold of the Huber loss.
    close(kind()(t, s), reference(t, s, range(5)))
    t, s = states(4, 4, widths=(3, 5))
    close(kind()(t, s), reference(t.mean(1), s.mean(1), range(4)))
    first = kind("first")
    close(first(t, s[:, :2]), reference(t[:, 0], s[:, 0], range(4)))
    close(first(t, s, mask=MASK), reference(t[:, 0], s[:, 0], KEPT))
    weights = MASK[..., None] / np.maximum(MASK.sum(1), 1)[:, None, None]
    pooled = [(x * weights).sum(1) for x in (t, s)]
    s[MASK == 0] = np.nan
    close(kind()(t, s, mask=MASK), reference(*pooled, KEPT))


@every_rkd
def test_rkd_of_images_takes_the_mean_of_the_positions(kind, reference):
    t, s = states(4, 2, 3, widths=(3, 5))
    means = t.mean((1, 2)), s.mean((1, 2))
    close(kind()(t, s), reference(*means, range(4)))
    loss = kind(reduction="mean_with_sample_weight")
    weight = np.array([1, 1, 0, 1])
    close(loss(t, s, weight), reference(*means, KEPT))
    with pytest.raises(ValueError, match="feature map of images"):
        kind("first")(t, s)


@every_rkd
def test_weights_of_rkd(kind, reference):
    t, s = states(4, widths=(3, 3))
    loss = kind(reduction="mean_with_sample_weight")
    weight = np.array([1, 1, 0, 1])
    close(loss(t, s, weight), reference(t, s, KEPT))
    rows = kind(reduction=None)(t, s, weight)
    close(loss(t, s, 2 * weight), loss(t, s, weight))
    assert float(rows[2]) == 0
    once = np.array([3, 1, 0, 1])
    close(loss(t, s, once), (2 * rows[0] + sum(rows)) / 5)
    close(loss(t, s, 0 * weight), 0)
    t, s = states(4, 2, widths=(3, 3))
    close(loss(t, s, weight), reference(t.mean(1), s.mean(1), KEPT))


@every_rkd
def test_rkd_ignores_rotation_shift_and_scale(kind, reference):
    t, s = states(5, widths=(3, 3))
    rotation = np.linalg.qr(RNG.normal(size=(3, 3)))[0].astype("float32")
    moved = 2.5 * s @ rotation + 7
    loss = kind()
    close(loss(t, moved), loss(t, s), rtol=1e-3)
    close(loss(s, moved), 0, atol=1e-5)
    assert float(loss(t, s)) > 0.01


@every_rkd
def test_rkd_of_too_few_or_equal_rows(kind, reference):
    t, s = states(4, widths=(3, 3))
    few = 1 if kind is losses.RKDDistance else 2
    close(kind()(t[:few], s[:few]), 0)
    s[1] = s[0]
    t[3] = t[0]
    for student in (s, 0 * s):
        found = gradients(functools.partial(kind(), t), student)[0]
        assert np.all(np.isfinite(found))


def minilm(t, s, heads, mask):
    values = []
    for b in np.flatnonzero(mask.any(1)):
        keep = mask[b] > 0
        pieces = [
            np.split(np.float64(x[b, keep]), heads, axis=-1) for x in (t, s)
        ]
        for p, q in zip(*pieces):
            p, q = (
                log_softmax(v @ v.T / np.sqrt(v.shape[-1]), -1) for v in (p, q)
            )
            values += list((np.exp(p) * (p - q)).sum(-1))
    return np.mean(values)


@pytest.mark.parametrize("mask", [np.ones((4, 4)), MASK])
def test_minilm_equals_reference(mask):
    t, s = states(4, 4, widths=(12, 6))
    wanted = minilm(t, s, 3, mask)
    loss = losses.MiniLMRelation(3)
    hidden = np.where(mask[..., None] > 0, s, np.nan)
    close(loss(t, hidden, mask=mask), wanted)
    if mask.all():
        close(loss(t, s), wanted)
    per_head = t.reshape(4, 4, 2, 6), hidden.reshape(4, 4, 1, 6)
    close(loss(*per_head, mask=mask), wanted)
    close(loss(t, t, mask=mask), 0)
    found = gradients(lambda s: loss(t, s, mask=mask), hidden)[0]
    assert np.all(np.isfinite(found))
    assert found.any()
    assert not found[mask == 0].any()


def test_weights_of_minilm():
    t, s = states(4, 4, widths=(6, 6))
    loss = losses.MiniLMRelation(2, reduction="mean_with_sample_weight")
    weight = np.array([1, 2, 3, 0])
    close(
        loss(t, s, weight, mask=MASK),
        loss(t[:3], s[:3], weight[:3], mask=MASK[:3]),
    )
    close(loss(t, s, 0 * weight, mask=MASK), 0)


LOSSES = {
    "dist": losses.DIST(0.5, 2.0, 3.0, False, name="a", reduction="sum"),
    "distance": losses.RKDDistance("first", name="b", reduction=None),
    "angle": losses.RKDAngle("first", name="c", dtype="float16"),
    "minilm": losses.MiniLMRelation(3, name="d", reduction="sum"),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_laws_of_all(loss):
    t, s = states(4, *([] if loss.name == "a" else [3]))
    np.testing.assert_array_equal(twin(loss)(t, s), loss(t, s))
    assert twin(loss).get_config() == loss.get_config()
    half = [ops.cast(x, "float16") for x in (t, s)]
    exact = [ops.cast(x, "float32") for x in half]
    close(loss(*half), loss(*exact), rtol=1e-3)
    close(compiled(loss)(*exact), loss(*exact), rtol=2e-3)
    config = {**loss.get_config(), "reduction": "sum", "dtype": "float32"}
    total = type(loss).from_config(config)
    to_teacher, to_student = gradients(total, t, s)
    assert not to_teacher.any()
    step = 5e-3 * np.sign(to_student)
    change = float(total(t, s + step)) - float(total(t, s - step))
    assert change == pytest.approx(1e-2 * np.abs(to_student).sum(), rel=0.05)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: losses.DIST(beta=-1), "Received: beta=-1"),
        (lambda: losses.DIST(gamma=None), "Received: gamma=None"),
        (lambda: losses.DIST(temperature=0), "Received: temperature=0"),
        (
            lambda: losses.DIST(temperature_squared=3),
            "Received: temperature_squared=3",
        ),
        (
            lambda: losses.DIST()(MASK, MASK[:, :3]),
            r"student_logits.shape=\(4, 3\)",
        ),
        (lambda: losses.RKDAngle("last"), "Received: pooling='last'"),
        (
            lambda: losses.RKDDistance()(*np.ones((2, 2, 1, 1, 4, 4))),
            "must have the axes",
        ),
        (
            lambda: losses.MiniLMRelation(0),
            "at least 1. Received: relation_heads=0",
        ),
        (
            lambda: losses.MiniLMRelation(4)(*states(2, 3, widths=(8, 6))),
            "relation_heads=4, student width 6",
        ),
        (
            lambda: losses.MiniLMRelation(2)(states(2, 3)[0], states(2, 4)[0]),
            "the same length",
        ),
    ],
)
def test_message(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.large
def test_minilm_between_models_of_other_widths_and_heads():
    models = [tiny.bert(2, 12, dropout=0.0), tiny.bert(1, 8, dropout=0.0)]
    for model in models:  # The initial relations are almost uniform.
        large = [20 * w if w.ndim == 3 else w for w in model.get_weights()]
        model.set_weights(large)
    matches = [
        Match(
            *(taps.attention_vectors(model, of)[-1] for model in models),
            losses.MiniLMRelation(2),
            name=of,
        )
        for of in taps.VECTORS
    ]
    distiller = tiny.distiller(
        *models, matches, optimizer=keras.optimizers.SGD(0.0)
    )
    assert not distiller.projections
    inputs, labels = tiny.tokens()
    logs = distiller.train_on_batch(inputs, labels, return_dict=True)
    read, dense = [], []
    for model in models:
        below, top = taps.hidden_states(model)[-2:]
        with record([below]) as recording:
            model(inputs)
        read.append(recording.value(below))
        dense.append(top.layer._self_attention_layer)
    for of in taps.VECTORS:
        vectors = [
            getattr(layer, f"{of}_dense")(x) for layer, x in zip(dense, read)
        ]
        wanted = minilm(
            *(np.asarray(v).reshape(8, 6, -1) for v in vectors),
            2,
            inputs["padding_mask"],
        )
        assert float(logs[of]) == pytest.approx(wanted, rel=1e-3)
        assert wanted > 1e-3


def test_dist_and_rkd_in_the_distiller():
    x, y = tiny.data(8)
    weight = np.array([1, 1, 0, 1, 1, 1, 0, 1], "float32")
    distiller = tiny.distiller(
        tiny.mlp(8),
        tiny.mlp(4, seed=9),
        [Match("hidden", "hidden", losses.RKDDistance(), name="rows")],
        soft_loss=losses.DIST(),
        optimizer=keras.optimizers.SGD(0.0),
    )
    assert not distiller.projections
    teacher, student = distiller.teacher, distiller.student
    hidden = [m.get_layer("hidden")(x) for m in (teacher, student)]
    logs = distiller.train_on_batch(x, y, weight, return_dict=True)
    wanted = losses.DIST()(teacher(x), student(x), weight)
    assert float(logs["soft_loss"]) == pytest.approx(float(wanted), rel=1e-4)
    wanted = losses.RKDDistance()(*hidden, weight)
    assert float(logs["rows"]) == pytest.approx(float(wanted), rel=1e-4)
