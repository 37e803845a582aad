"""Losses on hidden states: TextBrewer's formulas in float64, then laws."""

import keras
import numpy as np
import pytest
from helpers import cast
from helpers import compiled
from helpers import gradients
from helpers import twin
from keras import ops

from keras_distill import losses
from keras_distill.distiller import Distiller
from keras_distill.matching import Match

RNG = np.random.default_rng(0)
MASK = np.array([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
SOME_EMPTY = MASK * np.array([[1], [0], [1]])


def hidden_mse(t, s, mask):
    squares = (s - t) ** 2
    if mask is None:
        return squares.mean()
    return (squares * mask[..., None]).sum() / (mask.sum() * t.shape[-1])


def hidden_cosine(t, s, mask):
    keep = np.ones(t.shape[:2], bool) if mask is None else mask > 0
    t, s = t[keep], s[keep]
    norms = np.linalg.norm(t, axis=-1) * np.linalg.norm(s, axis=-1)
    return (1 - (t * s).sum(-1) / norms).mean()


def patient_kd(t, s, mask):
    keep = slice(None) if mask is None else mask.any(-1)
    t, s = t[keep, 0], s[keep, 0]
    t = t / np.linalg.norm(t, axis=-1, keepdims=True)
    s = s / np.linalg.norm(s, axis=-1, keepdims=True)
    return ((t - s) ** 2).sum(-1).mean()


def flow_of_solution(t, s, mask):
    if mask is None:
        mask = np.ones(t[0].shape[:2])
    mask = mask[mask.any(-1), :, None]
    keep = slice(None) if len(mask) == len(t[0]) else [0, 2]
    grams = [
        np.einsum("blh,blk->bhk", x[0][keep] * mask, x[1][keep] * mask)
        / mask.sum(1, keepdims=True)
        for x in (t, s)
    ]
    return ((grams[0] - grams[1]) ** 2).mean()


def neuron_selectivity(t, s, mask):
    grams = [
        np.einsum("blh,bmh->blm", x[0], x[1]) / x[0].shape[-1] for x in (t, s)
    ]
    squares = (grams[0] - grams[1]) ** 2
    if mask is None:
        return squares.mean()
    squares = squares * mask[:, :, None] * mask[:, None, :]
    return squares.sum() / (mask.sum(1) ** 2).sum()


CASES = {
    "hidden_mse": (losses.HiddenMSE, hidden_mse),
    "hidden_cosine": (losses.HiddenCosine, hidden_cosine),
    "patient_kd": (losses.PatientKD, patient_kd),
    "flow_of_solution": (losses.FlowOfSolution, flow_of_solution),
    "neuron_selectivity": (losses.NeuronSelectivity, neuron_selectivity),
}
PAIRS = (losses.FlowOfSolution, losses.NeuronSelectivity)
every_reference = pytest.mark.parametrize(
    ("kind", "reference"), CASES.values(), ids=CASES
)
every = pytest.mark.parametrize("kind", [c[0] for c in CASES.values()])


def states(kind, shape=(3, 5, 4)):
    """A teacher's and a student's state, or pairs of them."""
    t0, t1, s0, s1 = RNG.normal(size=(4, *shape)).astype("float32")
    return ((t0, t1), (s0, s1)) if kind in PAIRS else (t0, s0)


def rows(state, keep):
    return keras.tree.map_structure(lambda x: x[keep], state)


def with_padding(state, value):
    return keras.tree.map_structure(
        lambda x: np.where(MASK[..., None], x, value), state
    )


def close(actual, wanted, rtol=1e-5, atol=1e-6):
    np.testing.assert_allclose(actual, wanted, rtol=rtol, atol=atol)


def student_gradients(loss, t, s, **options):
    flat = keras.tree.flatten(s)

    def value(*flat):
        return loss(t, keras.tree.pack_sequence_as(s, flat), **options)

    return gradients(value, *flat)


@every_reference
@pytest.mark.parametrize("mask", [None, MASK, SOME_EMPTY])
def test_equals_textbrewer(kind, reference, mask):
    t, s = states(kind)
    exact = [
        keras.tree.map_structure(lambda x: x.astype("float64"), x)
        for x in (t, s)
    ]
    wanted = reference(*exact, mask)
    close(kind()(t, s, mask=mask), wanted)
    if mask is not None:
        close(kind()(t, s, mask=mask > 0), wanted)
        close(kind()(t, s, mask=mask.astype("float32")), wanted)


@every
def test_one_value_per_example(kind):
    t, s = states(kind)
    values = ops.convert_to_numpy(kind().call(t, s))
    assert values.shape == (3,)
    for i in range(3):
        one = rows(t, slice(i, i + 1)), rows(s, slice(i, i + 1))
        close(values[i], kind()(*one))
    close(kind(reduction=None)(t, s), values)
    close(kind(reduction="sum")(t, s), values.sum())
    masked = ops.convert_to_numpy(kind().call(t, s, SOME_EMPTY))
    assert masked[1] == 0
    close(masked[[0, 2]].mean(), kind()(t, s, mask=SOME_EMPTY))


@every
def test_full_mask_changes_nothing(kind):
    t, s = states(kind)
    weight = np.array([1.0, 0.0, 3.0])
    for reduction in ("sum_over_batch_size", "mean_with_sample_weight", "sum"):
        loss = kind(reduction=reduction)
        mask = np.ones((3, 5))
        close(loss(t, s, mask=mask), loss(t, s))
        close(loss(t, s, weight, mask), loss(t, s, weight))


@every
def test_padding_does_not_matter(kind):
    t, s = states(kind)
    value = kind()(t, s, mask=MASK)
    for noise in (100.0, np.nan):
        noisy = [with_padding(x, np.float32(noise)) for x in (t, s)]
        close(kind()(*noisy, mask=MASK), value)
        for found in student_gradients(kind(), *noisy, mask=MASK):
            assert np.all(np.isfinite(found))
            assert not np.any(found[MASK == 0])


@every
def test_zero_when_equal(kind):
    t, s = states(kind)
    close(kind()(t, t), 0)
    close(kind()(t, t, mask=MASK), 0)
    assert float(kind()(t, s)) > 0.1
    for found in student_gradients(kind(), t, t):
        close(found, 0)


@every
@pytest.mark.parametrize("mask", [None, MASK, SOME_EMPTY])
def test_weight_zero_equals_leaving_the_row_out(kind, mask):
    t, s = states(kind)
    loss = kind(reduction="mean_with_sample_weight")
    keep = [0, 1]
    value = loss(t, s, sample_weight=np.array([2.0, 1.0, 0.0]), mask=mask)
    wanted = loss(
        rows(t, keep),
        rows(s, keep),
        sample_weight=np.array([2.0, 1.0]),
        mask=None if mask is None else mask[keep],
    )
    close(value, wanted)
    column = loss(t, s, np.array([[2.0], [1.0], [0.0]]), mask)
    close(column, wanted)


@every
@pytest.mark.parametrize("weight", [None, np.array([1.0, 0.0, 2.0])])
@pytest.mark.parametrize(
    "reduction", ["sum_over_batch_size", "mean_with_sample_weight", "sum"]
)
def test_nothing_valid_gives_zero(kind, weight, reduction):
    t, s = states(kind)
    loss = kind(reduction=reduction)
    empty = {"sample_weight": weight, "mask": 0 * MASK}
    assert float(loss(t, s, **empty)) == 0
    for found in student_gradients(loss, t, s, **empty):
        np.testing.assert_array_equal(found, 0)
    nobody = {"sample_weight": np.zeros(3), "mask": MASK}
    assert float(loss(t, s, **nobody)) == 0
    for found in student_gradients(loss, t, s, **nobody):
        np.testing.assert_array_equal(found, 0)


@every
def test_gradient_reaches_the_student_alone(kind):
    t, s = states(kind)
    parts = len(keras.tree.flatten(t))

    def value(*flat):
        sides = flat[:parts], flat[parts:]
        return kind()(*(x if kind in PAIRS else x[0] for x in sides))

    found = gradients(value, *keras.tree.flatten((t, s)))
    for to_teacher, to_student in zip(found[:parts], found[parts:]):
        np.testing.assert_array_equal(to_teacher, 0)
        assert np.any(to_student)


@every
def test_zero_states_are_finite(kind):
    t, s = states(kind)
    s = keras.tree.map_structure(np.zeros_like, s)
    assert np.isfinite(float(kind()(t, s)))
    for found in student_gradients(kind(), t, s):
        assert np.all(np.isfinite(found))


@every
def test_compiles(kind):
    t, s = states(kind)
    weight = np.array([1.0, 0.0, 2.0], "float32")
    for mask in (None, SOME_EMPTY):

        def value(t, s, mask=mask):
            return kind()(t, s, weight, mask)

        close(compiled(value)(t, s), value(t, s))


@every
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_computed_in_float32(kind, dtype):
    t, s = (cast(x, dtype) for x in states(kind))
    exact = cast(t, "float32"), cast(s, "float32")
    close(kind()(t, s, mask=MASK), kind()(*exact, mask=MASK))
    close(kind()(exact[0], s), kind()(*exact))


@every
def test_round_trip_keeps_the_value(kind):
    t, s = states(kind)
    loss = kind(name="mine", reduction="sum", dtype="float16")
    again = twin(loss)
    np.testing.assert_array_equal(again(t, s), loss(t, s))
    assert again(t, s).dtype == loss(t, s).dtype
    assert again.name == "mine"
    assert twin(kind()).get_config() == kind().get_config()


def test_selectivity_works_across_widths():
    t, s = states(losses.NeuronSelectivity)
    wide = tuple(np.concatenate([x, x], -1) for x in t)
    loss = losses.NeuronSelectivity()
    close(loss(wide, s, mask=MASK), loss(t, s, mask=MASK))
    assert loss.across_widths


def test_patient_kd_takes_the_first_token():
    t, s = states(losses.PatientKD)
    loss = losses.PatientKD()
    close(loss(t, s[:, :2]), loss(t[:, 0], s[:, 0]))
    close(loss(3 * t, s / 5), loss(t, s))
    assert loss.across_lengths


def test_patient_kd_of_a_zero_state_is_one():
    t, s = states(losses.PatientKD)
    close(losses.PatientKD()(t, 0 * s), 1)


ON_MAPS = {name: case for name, case in CASES.items() if name != "patient_kd"}


@pytest.mark.parametrize(
    ("kind", "reference"), ON_MAPS.values(), ids=list(ON_MAPS)
)
def test_positions_of_images_are_tokens(kind, reference):
    t, s = states(kind, (3, 2, 4, 5))
    flat = [
        keras.tree.map_structure(
            lambda x: np.float64(x).reshape((3, 8, 5)), side
        )
        for side in (t, s)
    ]
    close(kind()(t, s), reference(*flat, None))
    weight = np.array([1.0, 0.0, 1.0])
    rest = [rows(side, [0, 2]) for side in flat]
    loss = kind(reduction="mean_with_sample_weight")
    close(loss(t, s, weight), reference(*rest, None))


def test_a_projection_matches_images_of_other_channels():
    def model(channels):
        inputs = keras.Input((None, None, 3))
        x = keras.layers.Conv2D(channels, 2, name="map")(inputs)
        x = keras.layers.GlobalAveragePooling2D()(x)
        return keras.Model(inputs, keras.layers.Dense(2)(x))

    match = Match("map", "map", losses.HiddenMSE(), name="map")
    distiller = Distiller(model(4), model(3), [match])
    distiller.compile("sgd")
    images = RNG.normal(size=(2, 5, 4, 3)).astype("float32")
    distiller.prepare(images)
    t, s = (
        np.float64(m.get_layer("map")(images))
        for m in (distiller.teacher, distiller.student)
    )
    kernel, bias = map(np.asarray, distiller.projections[0].variables)
    expected = np.square(s @ kernel + bias - t).mean()
    logs = distiller.train_on_batch(images, return_dict=True)
    close(logs["map"], expected)


X = np.ones((2, 5, 4))
MAP, TALL = np.ones((2, 2, 6, 4)), np.ones((2, 3, 4, 4))
WIDE, LONG, FLAT = np.ones((2, 5, 6)), np.ones((2, 7, 4)), np.ones((2, 4))


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (losses.HiddenMSE, (X, WIDE), r"projection.*\(2, 5, 4\).*\(2, 5, 6\)"),
        (losses.HiddenCosine, (X, WIDE), "same width; use a projection"),
        (losses.PatientKD, (X, WIDE), "same width; use a projection"),
        (losses.FlowOfSolution, ((X, X), (X, WIDE)), "use a projection"),
        (losses.HiddenMSE, (X, LONG), r"same length.*\(2, 7, 4\)"),
        (losses.NeuronSelectivity, ((X, X), (LONG, X)), "same length"),
        (losses.NeuronSelectivity, ((X, X), (X, WIDE)), "within a pair"),
        (losses.HiddenMSE, (FLAT, FLAT), r"length, hidden\].*\(2, 4\)"),
        (losses.PatientKD, (X[0, 0], X[0, 0]), r"Received: shape=\(4,\)"),
        (losses.FlowOfSolution, (X, (X, X)), "`teacher_state` must be a pair"),
        (losses.FlowOfSolution, ((X, X), X), "`student_state` must be a pair"),
        (losses.NeuronSelectivity, ((X, X), [X] * 3), r"Received: 3 state"),
        (losses.HiddenMSE, (X, X, None, np.ones((2, 4))), r"shape=\(2, 4\)"),
        (losses.HiddenMSE, (X, X, None, np.ones(2)), r"mask.shape=\(2,\)"),
        (losses.HiddenMSE, (X, X, np.ones((2, 5))), "use `mask` for tokens"),
        (losses.HiddenMSE, (MAP, TALL), r"same height.*\(2, 3, 4, 4\)"),
        (losses.HiddenMSE, (MAP, X), "same length"),
        (losses.PatientKD, (MAP, MAP), "feature map of images.*HiddenMSE"),
        (losses.AttentionMSE, (MAP, MAP), "feature map of images.*HiddenMSE"),
        (losses.AttentionCE, (MAP, MAP), "feature map of images.*HiddenMSE"),
    ],
)
def test_message(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind()(*arguments)
