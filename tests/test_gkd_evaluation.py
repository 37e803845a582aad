"""Scores of what the models write."""

import keras
import numpy as np
import pytest
import tiny_lm

from keras_distill import divergences
from keras_distill.gkd.evaluation import WritingScorer
from keras_distill.gkd.evaluation import WritingScores

LENGTH, COMPLETION = 12, 6


def batch(rows=4, completions=False):
    rng = np.random.default_rng(1)
    positions = np.arange(LENGTH)
    prompts = rng.integers(2, LENGTH - COMPLETION + 1, (rows, 1))
    ends = prompts + (rng.integers(1, COMPLETION + 1, (rows, 1)))
    return {
        "token_ids": rng.integers(1, 40, (rows, LENGTH)).astype("int32"),
        "prompt_mask": positions < prompts,
        "completion_mask": (positions >= prompts)
        & (positions < (ends if completions else prompts)),
    }


def scorer(teacher, student, **kwargs):
    kwargs = {"stop_token_ids": (), **kwargs}
    return WritingScorer(teacher, student, COMPLETION, **kwargs)


def by_hand(teacher, student, x):
    """The scores of the data set's completions, token after token."""
    mask = x["prompt_mask"] | x["completion_mask"]
    inputs = {"token_ids": x["token_ids"], "padding_mask": mask.astype("int32")}
    logits = [
        keras.ops.convert_to_numpy(m(inputs))[:, :-1].astype("float64")
        for m in (teacher, student)
    ]
    counts = x["completion_mask"][:, 1:]
    values = [
        divergences.forward_kl(*logits),
        divergences.reverse_kl(*logits),
        divergences.generalized_jsd(*logits),
    ]
    for one in logits:
        log_p = one - np.log(np.exp(one).sum(-1, keepdims=True))
        target = x["token_ids"][:, 1:, None]
        values.append(-np.take_along_axis(log_p, target, -1)[..., 0])
    values = [keras.ops.convert_to_numpy(v)[counts].mean() for v in values]
    return values, counts.sum()


def test_scores_are_means_over_the_completions_tokens():
    teacher, student = tiny_lm.gpt2(), tiny_lm.gpt2(layers=1, width=8, seed=1)
    x = batch(completions=True)
    scores = scorer(teacher, student)([x], writer="dataset")
    values, tokens = by_hand(teacher, student, x)
    found = [
        scores.forward_kl,
        scores.reverse_kl,
        scores.jsd,
        scores.teacher_nll,
        scores.student_nll,
    ]
    np.testing.assert_allclose(found, values, rtol=1e-4)
    assert scores.tokens == tokens
    assert scores.completion_length == pytest.approx(tokens / 4)


def test_batches_are_scored_alone_and_together():
    teacher, student = tiny_lm.gpt2(), tiny_lm.gpt2(layers=1, width=8, seed=1)
    batches = [batch(rows=4, completions=True), batch(rows=2, completions=True)]
    score = scorer(teacher, student)
    parts = score.by_batch(batches, writer="dataset")
    assert [part.rows for part in parts] == [4, 2]
    assert parts[1] == score([batches[1]], writer="dataset")
    together = score(batches, writer="dataset")
    assert together == WritingScores.pooled(parts)
    tokens = np.array([part.tokens for part in parts])
    by_token = [part.jsd for part in parts] @ tokens / tokens.sum()
    np.testing.assert_allclose(together.jsd, by_token, rtol=1e-12)
    assert together.completion_length == pytest.approx(tokens.sum() / 6)


@pytest.mark.parametrize(
    "writer", ["student", pytest.param("teacher", marks=pytest.mark.large)]
)
def test_a_writer_is_judged_on_its_own_text(writer):
    teacher, student = tiny_lm.gpt2(), tiny_lm.gpt2(seed=1)
    score = scorer(teacher, student, temperature=0.0)
    scores = score([batch()], writer)
    own, other = scores.student_nll, scores.teacher_nll
    if writer == "teacher":
        own, other = other, own
    assert own < other
    assert scores.tokens == 4 * COMPLETION
    assert scores == score([batch()], writer)


@pytest.mark.large
def test_equal_models_do_not_differ_and_new_weights_are_seen():
    teacher, student = tiny_lm.gpt2(), tiny_lm.gpt2()
    score = scorer(teacher, student)
    scores = score([batch(), batch()])
    assert scores.forward_kl == pytest.approx(0, abs=1e-6)
    assert scores.tokens == 2 * 4 * COMPLETION
    student.set_weights(tiny_lm.gpt2(seed=3).get_weights())
    assert score([batch()]).forward_kl > 0.01


def test_what_does_not_fit_is_refused():
    model = tiny_lm.gpt2()
    with pytest.raises(ValueError, match="same model"):
        scorer(model, model)
    score = scorer(model, tiny_lm.gpt2(seed=1))
    with pytest.raises(ValueError, match="at least one"):
        score([])
    with pytest.raises(ValueError, match="writer"):
        score([batch()], writer="nobody")
    with pytest.raises(ValueError, match="no response"):
        score([batch()], writer="dataset")
