"""Where completions come from: the models, the data set, a buffer."""

import numpy as np
import pytest
import tiny_gkd

from keras_distill.gkd.replay import ReplayBuffer
from keras_distill.gkd.rows import from_batch
from keras_distill.gkd.sources import DatasetResponses
from keras_distill.gkd.sources import Sampling
from keras_distill.gkd.sources import Source
from keras_distill.gkd.sources import StudentSampler
from keras_distill.gkd.sources import TeacherSampler

ROWS = from_batch(tiny_gkd.batch(), "dataset")
LIMITS = ROWS.prompt_lengths + tiny_gkd.ROOM


def sampling(vocabulary_size=tiny_gkd.VOCABULARY, **kwargs):
    options = {
        "teacher": tiny_gkd.teacher(),
        "student": tiny_gkd.student(),
        "sampler": None,
        "temperature": 0.9,
        "stop_token_ids": (tiny_gkd.STOP,),
        "vocabulary_size": vocabulary_size,
        "max_completion_length": tiny_gkd.ROOM,
        "max_lengths": {},
    }
    return Sampling(**(options | kwargs))


def bound(source, **kwargs):
    source.bind(sampling(**kwargs))
    return source


def test_rows_survive_the_way_through_masks():
    batch = tiny_gkd.batch()
    for name, array in ROWS.batch().items():
        assert np.array_equal(array, batch[name])
    wide = ROWS.resized(20).resized(tiny_gkd.WIDTH)
    assert wide.lengths.tolist() == ROWS.lengths.tolist()
    assert not ROWS.with_empty(2).batch()["prompt_mask"][-2:].any()


def test_the_data_sets_responses_are_untouched():
    assert DatasetResponses()(ROWS, LIMITS, 0) is ROWS


@pytest.mark.parametrize(
    "kind",
    [StudentSampler, pytest.param(TeacherSampler, marks=pytest.mark.large)],
)
def test_models_complete_prompts(kind):
    source = bound(kind(), vocabulary_size=35)
    found = source(ROWS, LIMITS, 5)
    assert found.token_ids.shape == ROWS.token_ids.shape
    assert found.prompt_lengths.tolist() == ROWS.prompt_lengths.tolist()
    assert (found.lengths >= found.prompt_lengths).all()
    assert (found.lengths <= LIMITS).all()
    assert set(found.origins) == set(source.names)
    prompts, completions = found.masks()
    assert np.array_equal(found.token_ids[prompts], ROWS.token_ids[prompts])
    assert found.token_ids[completions].max() < 35
    again, other = (source(ROWS, LIMITS, seed) for seed in (5, 6))
    assert again.token_ids.tolist() == found.token_ids.tolist()
    assert other.token_ids.tolist() != found.token_ids.tolist()


def test_a_completion_ends_before_a_token_that_one_model_lacks():
    class Unknown:
        def __call__(self, token_ids, prompt_lengths, limits, seed):
            token_ids = token_ids.copy()
            token_ids[0, prompt_lengths[0] + 1] = 39
            token_ids[1, prompt_lengths[1]] = 39
            return token_ids, limits

    source = bound(StudentSampler(), vocabulary_size=39)
    source._generator = Unknown()
    found = source(ROWS, LIMITS, 0)
    completions = found.lengths - found.prompt_lengths
    assert completions.tolist() == [1, 0, tiny_gkd.ROOM, tiny_gkd.ROOM]


def buffer(capacity=100, probability=0.5):
    return bound(ReplayBuffer(capacity, probability, tiny_gkd.Writer()))


def contents(rows):
    return {
        tuple(ids[:length].tolist())
        for ids, length in zip(rows.token_ids, rows.lengths)
    }


def test_a_buffer_replays_what_was_written():
    source, written = buffer(), set()
    replayed = 0
    for seed in range(20):
        found = source(ROWS, LIMITS, seed)
        old = found.origins == "replay"
        assert contents(found.take(old)) <= written
        written |= contents(found.take(~old))
        replayed += old.sum()
    assert 25 < replayed < 55
    assert source.names == ("writer", "replay")


def test_a_buffer_forgets_the_oldest():
    source = buffer(capacity=4, probability=0.0)
    rounds = [contents(source(ROWS, LIMITS, seed)) for seed in range(3)]
    state = source.state()
    assert len(state["lengths"]) == 4
    kept = np.split(state["token_ids"], np.cumsum(state["lengths"])[:-1])
    assert {tuple(row.tolist()) for row in kept} == rounds[-1]


def test_a_buffer_goes_on_from_its_state():
    one, other = buffer(), buffer()
    for seed in range(4):
        one(ROWS, LIMITS, seed)
    other.restore(one.state())
    for seed in range(4, 8):
        first, second = (b(ROWS, LIMITS, seed) for b in (one, other))
        assert first.token_ids.tolist() == second.token_ids.tolist()
        assert first.origins.tolist() == second.origins.tolist()
    other.restore(ReplayBuffer().state())
    assert other.state() == {}


def test_a_buffer_replays_only_what_fits():
    source = buffer(probability=0.9)
    for seed in range(6):
        source(ROWS, LIMITS, seed)
    narrow = from_batch(tiny_gkd.batch([1], [2], width=5), "dataset")
    for seed in range(6):
        found = source(narrow, np.array([5], "int32"), seed)
        assert found.width == 5
        assert found.lengths[0] <= 5


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: ReplayBuffer(0), "`capacity` must be an integer"),
        (lambda: ReplayBuffer(probability=1), "must be less than 1"),
        (lambda: ReplayBuffer(probability=-0.1), "between 0 and 1"),
        (lambda: ReplayBuffer(source="student"), "source='student'"),
        (
            lambda: ReplayBuffer(source=DatasetResponses()),
            "a source that generates",
        ),
    ],
)
def test_buffers_that_are_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_a_source_must_implement_its_call():
    with pytest.raises(NotImplementedError, match="`__call__`"):
        Source()(ROWS, LIMITS, 0)
