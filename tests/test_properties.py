"""What holds for every loss and every reader, whatever is drawn for it."""

import functools
import pathlib
import tempfile

import keras
import numpy as np
import pytest
from helpers import cast
from helpers import gradients
from hypothesis import HealthCheck
from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from keras import ops
from test_damaged_inputs import KINDS
from test_damaged_inputs import case_of_bytes
from test_damaged_inputs import quoted

from keras_distill import losses

EXPORTED = {
    name: kind
    for name, kind in vars(losses).items()
    if isinstance(kind, type)
    and issubclass(kind, keras.losses.Loss)
    and kind not in (losses.LogitsLoss, losses.FeatureLoss)
}
# What the states drawn here ask for.
OPTIONS = {"MiniLMRelation": {"relation_heads": 2}}
ON_LOGITS = {k: v for k, v in EXPORTED.items() if hasattr(v, "over")}
ON_FEATURES = {k: v for k, v in EXPORTED.items() if k not in ON_LOGITS}
# Beside hidden states `[batch, length, width]`.
ATTENTION = {"AttentionMSE", "AttentionCE"}
MAPS = {"AttentionTransfer", "SimilarityPreserving"}

drawn = functools.partial(
    settings,
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    # A machine that is busy is no fault of what is drawn.
    suppress_health_check=[HealthCheck.too_slow],
)
seeds = st.integers(0, 2**32 - 1)
scales = st.sampled_from([1e-4, 1.0, 40.0, 3e3])
weights = st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=2)
dtypes = st.sampled_from(["float16", "bfloat16"])


def arrays(shape, seed, scale, spike=0.0):
    """A teacher's and a student's numbers, some of them far from the rest."""
    rng = np.random.default_rng(seed)
    found = scale * rng.normal(size=(2, *shape))
    found += spike * (rng.random(found.shape) < 0.2)
    return found.astype("float32")


def close(actual, wanted, rtol=2e-5):
    size = np.abs(wanted).max(initial=1e-6)
    # Values far below 1 are differences of numbers near 1.
    atol = max(rtol * size, 5e-7)
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)


# ---- Losses on logits ----


def on_logits(name, rows, classes, seed, reduction=None):
    """The loss as a function of logits and weights."""
    loss = EXPORTED[name](reduction=reduction)
    further = {}
    if loss.needs_labels:
        # -1 is no label.
        drawn = np.random.default_rng(seed).integers(-1, classes, rows)
        further["labels"] = drawn

    def value(teacher, student, weight=None, keep=slice(None)):
        given = {k: v[keep] for k, v in further.items()}
        return loss(teacher, student, sample_weight=weight, **given)

    return value


@pytest.mark.large
@pytest.mark.parametrize("name", ON_LOGITS)
@drawn()
@given(st.integers(2, 5), st.integers(3, 7), seeds, scales)
@example(2, 3, 0, 3e4)
def test_values_and_gradients_of_logits_are_numbers(
    name, rows, classes, seed, scale
):
    t, s = arrays((rows, classes), seed, scale, spike=-scale * 10)
    value = on_logits(name, rows, classes, seed)
    found = ops.convert_to_numpy(value(t, s))
    assert found.shape == (rows,)
    assert np.isfinite(found).all()
    # There, where both are the same, and where one says nothing at all.
    for teacher, student in [(t, s), (t, t), (t, 0 * s), (0 * t, s)]:
        (gradient,) = gradients(
            lambda x, t=teacher: ops.sum(value(t, x)), student
        )
        assert np.isfinite(gradient).all()


@pytest.mark.large
@pytest.mark.parametrize("name", ON_LOGITS)
@drawn()
@given(weights, st.integers(3, 7), seeds, scales)
def test_rows_of_logits_stand_alone(name, weights, classes, seed, scale):
    rows = len(weights)
    t, s = arrays((rows, classes), seed, scale)
    one_by_one = on_logits(name, rows, classes, seed)
    mean = on_logits(name, rows, classes, seed, "sum_over_batch_size")
    w = np.array(weights, "float32")
    other = np.where(w[:, None] == 0, s + 5.0, s).astype("float32")
    if EXPORTED[name].relates_rows:
        # The others of each row are all rows to `NeighbourKL`, as it says.
        if name != "NeighbourKL":
            close(mean(t, other, w), mean(t, s, w))
        return
    values = ops.convert_to_numpy(one_by_one(t, s))
    close(mean(t, other, w), (values * w).mean())
    order = np.random.default_rng(seed).permutation(rows)
    close(one_by_one(t[order], s[order], keep=order), values[order])


@pytest.mark.large
@pytest.mark.parametrize("name", ON_LOGITS)
@drawn()
@given(dtypes, seeds, scales)
def test_narrow_logits_are_compared_in_float32(name, dtype, seed, scale):
    t, s = narrow = cast(list(arrays((4, 5), seed, scale)), dtype)
    value = on_logits(name, 4, 5, seed)
    found = value(t, s)
    assert keras.backend.standardize_dtype(found.dtype) == "float32"
    close(found, value(*cast(narrow, "float32")))


# ---- Losses on features ----


def on_features(name, rows, length, seed, scale):
    """A loss, and a teacher's and a student's state for it."""
    shape = (rows, length, 4)
    shape = (rows, 2, length, length) if name in ATTENTION else shape
    shape = (rows, length, 3, 4) if name in MAPS else shape
    loss = EXPORTED[name](reduction=None, **OPTIONS.get(name, {}))
    t, s = arrays(shape, seed, scale)
    if EXPORTED[name].pairs:
        t, s = zip(*[(t, s), arrays(shape, seed + 1, scale)])
    if name == "AttentionCE":  # Its teacher's rows are distributions.
        t, s = (ops.convert_to_numpy(ops.softmax(x)) for x in (t, s))
    return loss, t, s


def with_padding(state, mask, value):
    """The state with another value where `mask` is false."""
    return keras.tree.map_structure(
        lambda x: np.where(mask[..., None], x, np.float32(value)), state
    )


def total(loss, t, s, **further):
    """Sum of the values as a function of the student's arrays, and these."""

    def value(*flat):
        own = keras.tree.pack_sequence_as(s, flat)
        return ops.sum(loss(t, own, **further))

    return value, keras.tree.flatten(s)


@pytest.mark.large
@pytest.mark.parametrize("name", ON_FEATURES)
@drawn()
@given(st.integers(2, 4), st.integers(3, 5), seeds, scales)
def test_values_and_gradients_of_features_are_numbers(
    name, rows, length, seed, scale
):
    loss, t, s = on_features(name, rows, length, seed, scale)
    assert np.isfinite(loss(t, s)).all()
    # There, where both are the same, and where the student's are all 0.
    zeros = keras.tree.map_structure(np.zeros_like, s)
    for student in (s, t, zeros):
        value, flat = total(loss, t, student)
        assert all(np.isfinite(g).all() for g in gradients(value, *flat))


@pytest.mark.large
@pytest.mark.parametrize("name", sorted(set(ON_FEATURES) - MAPS - ATTENTION))
@drawn()
@given(st.data(), seeds, scales)
def test_padding_of_features_counts_for_nothing(name, data, seed, scale):
    lengths = data.draw(st.lists(st.integers(0, 5), min_size=2, max_size=4))
    mask = np.arange(5) < np.array(lengths)[:, None]
    loss, t, s = on_features(name, len(lengths), 5, seed, scale)
    values = ops.convert_to_numpy(loss(t, s, mask=mask))
    assert np.isfinite(values).all()
    assert (values[~mask.any(1)] == 0).all()
    other = [with_padding(x, mask, 7 * scale) for x in (t, s)]
    close(loss(*other, mask=mask), values)
    value, flat = total(loss, t, s, mask=mask)
    for gradient in gradients(value, *flat):
        assert (gradient[~mask] == 0).all()


@pytest.mark.large
@pytest.mark.parametrize("name", ON_FEATURES)
@drawn()
@given(dtypes, seeds, st.sampled_from([1e-2, 1.0, 40.0]))
def test_narrow_features_are_compared_in_float32(name, dtype, seed, scale):
    loss, *states = on_features(name, 3, 4, seed, scale)
    narrow = cast(states, dtype)
    wide = cast(narrow, "float32")
    close(loss(*narrow), loss(*wide))


# ---- Readers ----

fields = st.text(
    st.one_of(
        st.sampled_from(list('",;\t\n\r\0 \\\x0b\x1c\x85\u2028\ufeffa1-')),
        st.characters(codec="utf-8"),
    ),
    max_size=6,
)


@pytest.mark.large
@pytest.mark.parametrize("kind", KINDS)
@drawn(max_examples=150)
@given(
    st.lists(st.lists(fields, min_size=1, max_size=3), max_size=4),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_files_of_any_fields(kind, rows, end, quotes):
    name, content = KINDS[kind][0]
    delimiter = "\t" if name.endswith("tsv") else ","
    rows = [map(quoted, row) if quotes else row for row in rows]
    lines = [content.split("\n")[0], *map(delimiter.join, rows)]
    with tempfile.TemporaryDirectory() as folder:
        case = case_of_bytes(kind, "drawn", end.join(lines).encode())
        case.check(pathlib.Path(folder))
