"""Distributions that are stored for a few classes, against all of them."""

import math

import helpers
import keras
import numpy as np
import pytest
import tensorflow as tf
import tiny

from keras_distill import cache
from keras_distill import divergences
from keras_distill import losses
from keras_distill.cache.sparse import log_rest
from keras_distill.distiller import Distiller

large = pytest.mark.large
CLASSES, ROWS = 40, 64
K = 8


def softmax(logits):
    p = np.exp(logits - logits.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def fixture(rows=ROWS, classes=CLASSES):
    """Logits of a teacher and a student that has learnt something of it."""
    rng = np.random.default_rng(5)
    teacher = rng.normal(0, 2, (rows, classes))
    student = 0.5 * teacher + rng.normal(0, 1, (rows, classes))
    return teacher.astype("float32"), student.astype("float32")


def gradient(stored, student, temperature=1.0):
    """Gradient of the sum over rows, in the student's logits."""

    def total(logits):
        return keras.ops.sum(
            cache.sparse_forward_kl(
                stored["indices"],
                stored["log_probabilities"],
                logits,
                temperature,
            )
        )

    return helpers.gradients(total, student)[0]


def stored_by(form, teacher):
    """What a cache gives back for one example of all these rows."""
    feature = cache.records.SampledFeature("a", form, (None, CLASSES))
    parts = feature.encode(form(teacher), len(teacher), example=0)
    flat = {
        name: tf.io.decode_raw(parts[name], dtype)
        for name, dtype in feature.parts.items()
    }
    return feature.decode(flat, len(teacher), len(teacher))


def bias(target_gradient, teacher, student):
    """Mean length of the error of a gradient, in units of the right one."""
    right = softmax(student) - softmax(teacher)
    error = np.linalg.norm(target_gradient - right, axis=-1).mean()
    return error / np.linalg.norm(right, axis=-1).mean()


def test_gradient_bias_of_each_form():
    """The tail is nearly right, without it the top is too high."""
    teacher, student = fixture()
    tail = bias(gradient(cache.TopK(K)(teacher), student), teacher, student)
    top = cache.TopK(K, tail=False)(teacher)
    renormalised = bias(gradient(top, student), teacher, student)
    assert tail < 0.15
    assert renormalised > 2 * tail


def test_random_sampling_has_no_bias():
    """The mean over seeds is right within its standard error; top-k is not."""
    teacher, student = fixture(rows=8)
    right = softmax(student) - softmax(teacher)
    found = np.stack(
        [
            gradient(stored_by(cache.Sampled(12, seed), teacher), student)
            for seed in range(60)
        ]
    )
    error = found.mean(axis=0) - right
    p = softmax(teacher)
    standard_error = np.sqrt(p * (1 - p) / (12 * 60))
    often = p * 12 * 60 > 5  # Rare classes are not distributed normally.
    error, standard_error = error[often], standard_error[often]
    assert len(error) > 60
    assert np.all(np.abs(error) <= 4.5 * standard_error)
    assert 0.5 < np.mean(np.abs(error) < standard_error) < 0.85
    renormalised = gradient(cache.TopK(3, tail=False)(teacher), student)
    biased = np.abs(renormalised - right)[often] > 4.5 * standard_error
    assert biased.mean() > 0.2


def test_counts_are_right_and_seeded():
    teacher, _ = fixture(rows=3)
    form = cache.Sampled(1000, seed=1)
    classes, counts, sizes = form.draw(teacher, 0)
    assert sizes.sum() == len(classes) == len(counts)
    starts = np.cumsum(sizes) - sizes
    assert np.add.reduceat(counts, starts).tolist() == [1000.0] * 3
    share = np.zeros((3, CLASSES))
    share[np.repeat(np.arange(3), sizes), classes.astype(int)] = counts / 1000
    np.testing.assert_allclose(share, softmax(teacher), atol=0.06)
    again = form.draw(teacher, 0)
    for one, other in zip((classes, counts, sizes), again):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(form.draw(teacher, 1)[0], classes)
    assert not np.array_equal(
        cache.Sampled(1000, seed=2).draw(teacher, 0)[0], classes
    )


def test_equal_examples_get_draws_of_their_own(tmp_path):
    rows = np.ones((20, tiny.FEATURES), "float32")
    rows = tf.data.Dataset.from_tensor_slices(rows)
    form, layout = cache.Sampled(30), cache.Layout(4, 8)
    cache.write(tiny.mlp(classes=50), rows, tmp_path, form, layout=layout)
    batch = next(iter(cache.attach(rows, tmp_path).batch(20)))
    shares = batch["teacher_signal"]["logits"]["log_probabilities"].numpy()
    assert len({share.tobytes() for share in shares}) == 20


def test_impossible_classes_are_never_drawn():
    logits = np.full((2, 5), -np.inf, "float32")
    logits[0, 0] = logits[1, 4] = 3.0
    classes, counts, sizes = cache.Sampled(50).draw(logits, 0)
    assert classes.tolist() == [0, 4]
    assert counts.tolist() == [50, 50]
    assert sizes.tolist() == [1, 1]


def by_hand(indices, p, q):
    """KL over the stored classes and, if `p` has one more, the rest."""
    total = 0.0
    for index, share in zip(indices, p):
        total += share * math.log(share / q[index])
    if len(p) > len(indices):
        rest = 1 - sum(q[index] for index in indices)
        total += p[-1] * math.log(p[-1] / rest)
    return total


@pytest.mark.parametrize("temperature", [1.0, 2.0])
@pytest.mark.parametrize("tail", [True, False])
def test_values_by_hand(tail, temperature):
    teacher, student = fixture(rows=4)
    stored = cache.TopK(K, tail, temperature)(teacher)
    found = cache.sparse_forward_kl(**stored, student_logits=student,
                                    temperature=temperature)  # fmt: skip
    p, q = softmax(teacher / temperature), softmax(student / temperature)
    for row in range(4):
        indices = np.argsort(-p[row])[:K]
        top = p[row][indices]
        top = [*top, 1 - top.sum()] if tail else top / top.sum()
        expected = by_hand(indices, top, q[row])
        np.testing.assert_allclose(found[row], expected, rtol=1e-4)


def test_the_tail_has_digits_where_the_top_has_nearly_all():
    """1 - sum would be 0, or have no correct digit."""
    logits = np.array([[30.0, 0.0, 1.0]], "float32")
    log_p = keras.ops.log_softmax(logits)
    rest = log_rest(log_p, np.array([[0]]))
    expected = math.log(1 + math.e) - 30
    np.testing.assert_allclose(rest, [[expected]], rtol=1e-6)
    slope = helpers.gradients(
        lambda x: keras.ops.sum(log_rest(x, np.array([[0]]))), logits
    )[0]
    share = math.e / (1 + math.e)
    np.testing.assert_allclose(slope, [[0, 1 - share, share]], rtol=1e-5)


def test_equal_distributions_give_zero():
    teacher, _ = fixture()
    stored = cache.TopK(K)(teacher)
    found = cache.sparse_forward_kl(**stored, student_logits=teacher + 3)
    np.testing.assert_allclose(found, 0, atol=1e-5)
    np.testing.assert_allclose(gradient(stored, teacher), 0, atol=1e-6)


def test_dense_logits_give_the_same_divergence():
    teacher, student = fixture()
    for stored in (
        cache.TopK(K, tail=False)(teacher),
        stored_by(cache.Sampled(20), teacher),
    ):
        dense = cache.dense_logits(**stored, classes=CLASSES)
        assert np.all(np.isinf(dense).sum(-1) >= CLASSES - 20)
        np.testing.assert_allclose(
            divergences.forward_kl(dense, student),
            cache.sparse_forward_kl(**stored, student_logits=student),
            rtol=1e-4,
        )
    stored = cache.TopK(K)(teacher)
    dense = np.exp(cache.dense_logits(**stored, classes=CLASSES))
    np.testing.assert_allclose(dense.sum(-1), 1, rtol=1e-5)
    top = np.sort(softmax(teacher))[:, -K:]
    np.testing.assert_allclose(np.sort(dense)[:, -K:], top, rtol=1e-4)
    assert np.all(np.ptp(np.sort(dense)[:, :-K], axis=-1) < 1e-6)


def test_columns_that_do_not_fit():
    _, student = fixture(rows=2)
    indices, three = np.zeros((2, 3), "int32"), np.zeros((2, 5))
    for call in (
        lambda: cache.sparse_forward_kl(indices, three, student),
        lambda: cache.dense_logits(indices, three, CLASSES),
    ):
        with pytest.raises(ValueError, match="or one more for the tail"):
            call()
    with pytest.raises(ValueError, match="`temperature` must be positive"):
        cache.sparse_forward_kl(indices, three[:, :3], student, 0)


def language_model():
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("token_ids", "padding_mask")
    }
    x = keras.layers.Embedding(tiny.VOCABULARY, 8)(inputs["token_ids"])
    return keras.Model(inputs, keras.layers.Dense(300)(x))


FORMS = {
    "top-k": (cache.TopK(K), 2 * K + 2 * (K + 1)),
    "renormalised": (cache.TopK(K, tail=False), 2 * K + 2 * K),
    "sampled": (cache.Sampled(30), None),
    "full": ("full", 2 * 300),
}


@pytest.mark.parametrize(
    "name",
    [
        *("top-k", "sampled"),
        *(pytest.param(n, marks=large) for n in ("renormalised", "full")),
    ],
)
def test_language_model_targets(tmp_path, name):
    form, bytes_per_token = FORMS[name]
    inputs, _ = tiny.tokens(10, length=8)
    inputs = {
        k: inputs[k].astype("int32") for k in ("token_ids", "padding_mask")
    }
    rows = tf.data.Dataset.from_tensor_slices(inputs)
    teacher = language_model()
    layout = cache.Layout(4, 8, lengths=(4, 8))
    manifest = cache.write(teacher, rows, tmp_path, form, layout=layout)
    assert manifest.tokens == inputs["padding_mask"].sum()
    if bytes_per_token is None:  # At most 2 + 1 bytes a draw, one a token.
        assert 10 < manifest.bytes_per_token < 30 * 3 + 1
    else:
        assert manifest.bytes_per_token == bytes_per_token
    batch = next(iter(cache.attach(rows, tmp_path).batch(10)))
    stored = batch["teacher_signal"]["logits"]
    if name == "full":
        stored = cache.TopK(K)(stored)
    values = cache.sparse_forward_kl(**stored, student_logits=teacher(inputs))
    real = inputs["padding_mask"].astype(bool)
    assert np.all(np.isfinite(values))
    if name in ("top-k", "full"):
        np.testing.assert_allclose(np.asarray(values)[real], 0, atol=1e-4)
    share = np.exp(cache.dense_logits(**stored, classes=300))
    np.testing.assert_allclose(share.sum(-1)[real], 1, rtol=1e-4)


def sparse_student(path, form, loss, **kwargs):
    """A cache of 10 texts, and a Distiller that learns from it."""
    inputs, _ = tiny.tokens(10, length=8)
    inputs = {
        k: inputs[k].astype("int32") for k in ("token_ids", "padding_mask")
    }
    rows = tf.data.Dataset.from_tensor_slices(inputs)
    teacher, student = language_model(), language_model()
    # Two models of new weights hardly differ, by what float32 rounds away.
    teacher.layers[-1].kernel.assign(10 * teacher.layers[-1].kernel)
    cache.write(teacher, rows, path, form)
    batches = cache.attach(rows, path).batch(10)
    distiller = Distiller(None, student)
    optimizer = keras.optimizers.SGD(200.0)
    distiller.compile(optimizer, None, loss, soft_weight=1.0, **kwargs)
    return teacher, student, distiller, batches


@pytest.mark.parametrize("temperature", [1.0, pytest.param(2.0, marks=large)])
def test_a_distiller_learns_from_sparse_targets(tmp_path, temperature):
    """The loss is the mean over real tokens; a step goes down its gradient."""
    teacher, student, distiller, batches = sparse_student(
        tmp_path,
        cache.TopK(K, temperature=temperature),
        cache.SparseForwardKL(temperature),
    )
    inputs = next(iter(batches))["student"]
    stored = cache.TopK(K, temperature=temperature)(teacher(inputs))
    value = cache.sparse_forward_kl(
        **stored, student_logits=student(inputs), temperature=temperature
    )
    real = np.asarray(inputs["padding_mask"], bool)
    expected = temperature**2 * np.asarray(value)[real].mean()
    history = distiller.fit(batches, epochs=2, verbose=0).history
    np.testing.assert_allclose(history["soft_loss"][0], expected, rtol=0.01)
    assert history["soft_loss"][1] < 0.95 * history["soft_loss"][0]


@pytest.mark.parametrize(
    ("form", "loss", "message"),
    [
        (cache.TopK(K), losses.ForwardKL(), "targets are sparse, `ForwardKL`"),
        ("full", cache.SparseForwardKL(), "targets are full"),
    ],
)
def test_losses_for_other_targets(tmp_path, form, loss, message):
    _, _, distiller, batches = sparse_student(tmp_path, form, loss)
    with pytest.raises(ValueError, match=message):
        distiller.fit(batches, verbose=0)


def test_the_loss_is_serialised():
    loss = helpers.twin(cache.SparseForwardKL(2.0, name="a"))
    assert (loss.stored_temperature, loss.name) == (2.0, "a")
    with pytest.raises(ValueError, match="`stored_temperature` must be"):
        cache.SparseForwardKL(0)
