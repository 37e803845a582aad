"""The few lengths that batches are cut to."""

import itertools

import keras
import numpy as np
import pytest

from keras_distill import data
from keras_distill import losses
from keras_distill import students
from keras_distill.distiller import Distiller


def padded(lengths, buckets):
    """Tokens of all rows, each as long as the shortest bucket for it."""
    places = np.searchsorted(buckets, lengths)
    return int(np.asarray(buckets)[places].sum())


@pytest.mark.parametrize("count", [1, 2, 3, 10])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_no_other_choice_wastes_less(count, seed):
    lengths = np.random.default_rng(seed).geometric(0.1, 200).clip(0, 44)
    found = data.bucket_lengths(lengths, 44, count, multiple=8)
    possible = [8, 16, 24, 32, 40, 44]
    last = possible.index(found[-1])
    assert found[-1] >= lengths.max()
    fewest = min(
        padded(lengths, [*chosen, found[-1]])
        for size in range(count)
        for chosen in itertools.combinations(possible[:last], size)
    )
    assert len(found) <= count
    assert padded(lengths, found) == fewest


def test_lengths_that_no_row_needs_are_left_out():
    assert data.bucket_lengths([2, 3, 30], 64) == [8, 32]
    assert data.bucket_lengths([2, 3, 30], 31) == [8, 31]
    assert data.bucket_lengths([0, 0], 64) == [8]
    assert data.bucket_lengths([5], 6, multiple=1) == [5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], 8), "0 lengths, width=8"),
        (([9], 8), "1 lengths up to 9, width=8"),
        (([1], 0), "width=0"),
        (([1], 8, 0), "count=0"),
        (([1], 8, 1, 0), "multiple=0"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        data.bucket_lengths(*arguments)


def rows_of_many_lengths():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 31, 200).astype("int32")
    mask = (np.arange(64) < lengths[:, None]).astype("int32")
    ids = rng.integers(1, 20, (200, 64)).astype("int32") * mask
    return data.EncodedDataset(
        {"token_ids": ids, "padding_mask": mask}, lengths % 2, lengths
    )


def test_few_shapes_in_every_epoch():
    """XLA compiles each: the full batches of a length, and its last one."""
    rows = rows_of_many_lengths()
    lengths = data.bucket_lengths(rows.lengths, rows.width, count=3)
    batches = data.batches(rows, 16, shuffle=True, lengths=lengths)
    shapes = {tuple(x["token_ids"].shape) for x, _ in batches.repeat(3)}
    assert {length for _, length in shapes} == set(lengths)
    assert len(shapes) <= 2 * len(lengths)


@pytest.mark.large
@pytest.mark.parametrize("jit_compile", [False, True])
def test_padding_is_not_worth_a_digit(jit_compile):
    rows = rows_of_many_lengths()

    def losses_of(lengths):
        keras.utils.set_random_seed(0)
        teacher = students.text_cnn(2, (20, 8), filters=4, dropout=0.0)
        student = students.text_cnn(2, (20, 4), filters=4, dropout=0.0)
        distiller = Distiller(teacher=teacher, student=student)
        distiller.compile(
            keras.optimizers.SGD(0.0),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            soft_loss=losses.ForwardKL(),
            jit_compile=jit_compile,
        )
        batches = data.batches(rows, 16, shuffle=True, lengths=lengths)
        history = distiller.fit(batches, epochs=2, verbose=0, shuffle=False)
        return history.history["loss"]

    lengths = data.bucket_lengths(rows.lengths, rows.width, count=3)
    np.testing.assert_allclose(losses_of(lengths), losses_of(None), rtol=1e-5)
