"""What a GKDDistiller refuses or warns of, before a weight has changed."""

import functools
import re

import keras
import keras_hub
import numpy as np
import pytest
import tiny
import tiny_gkd
import tiny_lm

from keras_distill import losses
from keras_distill import schedules
from keras_distill.gkd import compatibility
from keras_distill.gkd import rows
from keras_distill.gkd.replay import ReplayBuffer
from keras_distill.gkd.sources import DatasetResponses
from keras_distill.gkd.sources import StudentSampler

BATCH = tiny_gkd.batch()


def tokenizer(tokens="abcdef", end="<|endoftext|>"):
    names = enumerate([*tokens, end, "".join(tokens[:2])])
    vocabulary = {token: index for index, token in names}
    return keras_hub.tokenizers.GPT2Tokenizer(
        vocabulary, [" ".join(tokens[:2])]
    )


def with_tokenizer(model, found):
    preprocessor = keras_hub.models.GPT2CausalLMPreprocessor(found)
    return keras_hub.models.GPT2CausalLM(model.backbone, preprocessor)


def pair(teachers=None, students=None):
    return (
        with_tokenizer(tiny_gkd.teacher(), teachers or tokenizer()),
        with_tokenizer(tiny_gkd.student(), students or tokenizer()),
    )


def same_model():
    model = tiny_gkd.teacher()
    return model, model


def sharing():
    teacher = tiny_gkd.teacher()
    return teacher, keras_hub.models.GPT2CausalLM(teacher.backbone)


@functools.cache
def untrained():
    """Two models, which nothing in this module trains."""
    return tiny_gkd.teacher(), tiny_gkd.student()


def make(models=None, **kwargs):
    return tiny_gkd.distiller(models or untrained(), **kwargs)


def compiled(**kwargs):
    optimizer = kwargs.pop("optimizer", "sgd")
    make().compile(optimizer, **kwargs)


def batch(**changes):
    return BATCH | changes


def trained(data, **kwargs):
    model = make(**kwargs)
    before = tiny.values(model.student)
    try:
        model.fit(data, batch_size=4, verbose=0)
    finally:
        assert tiny.equal(before, tiny.values(model.student))


def accumulating():
    return keras.optimizers.Adam(gradient_accumulation_steps=4)


MASK = BATCH["prompt_mask"]
WRONG = {
    "the student is the teacher": (
        lambda: make(same_model()),
        "are the same model",
    ),
    "they share the backbone": (lambda: make(sharing()), "share variables"),
    "the student is no language model": (
        lambda: make((tiny_gkd.teacher(), tiny.mlp())),
        "`student` must be a `keras_hub.models.CausalLM`",
    ),
    "the teacher is no model": (
        lambda: make(("gpt2", tiny_gkd.student())),
        "Received: teacher='gpt2'",
    ),
    "another vocabulary of the same size": (
        lambda: make(pair(tokenizer("abdcef"))),
        "2 tokens differ: 'c' is 3 for the teacher and 2 for the student",
    ),
    "unknown stop tokens": (
        lambda: make(stop_token_ids=None),
        "`stop_token_ids=()` for completions of `max_completion_length`",
    ),
    "a stop token outside the vocabulary": (
        lambda: make(stop_token_ids=(40,)),
        "`stop_token_ids` must be between 0 and 39",
    ),
    "completions too long for the models": (
        lambda: make(max_completion_length=24),
        "reads at most 24 tokens. Received: 25 tokens",
    ),
    "beta": (lambda: make(beta=1.5), "`beta` must be between 0 and 1"),
    "lmbda": (lambda: make(lmbda=-0.5), "`lmbda` must be a number between"),
    "lmbda, a word": (lambda: make(lmbda="half"), "Received: lmbda='half'"),
    "lmbda, a schedule": (
        lambda: make(lmbda=schedules.Linear(0.0, 2.0, 100)),
        "at step 64",
    ),
    "temperature": (
        lambda: make(temperature=-1.0),
        "`temperature` must be at least 0",
    ),
    "loss_temperature": (
        lambda: make(loss_temperature=0.0),
        "`loss_temperature` must be positive",
    ),
    "granularity": (
        lambda: make(granularity="token"),
        "`granularity` must be one of ['sample', 'batch']",
    ),
    "seed": (lambda: make(seed=-1), "`seed` must be an integer"),
    "micro_batch_size": (
        lambda: make(micro_batch_size=0),
        "`micro_batch_size` must be an integer of at least 1",
    ),
    "chunk_tokens": (
        lambda: make(chunk_tokens=0),
        "`chunk_tokens` must be an integer of at least 1",
    ),
    "a divergence by name": (
        lambda: make(divergence="kl"),
        "`kd.divergences.reverse_kl`. Received: divergence='kl'",
    ),
    "a divergence that has no beta": (
        lambda: make(divergence=losses.ReverseKL(), beta=0.1),
        "belong to the generalized Jensen-Shannon divergence",
    ),
    "responses that are never drawn": (
        lambda: make(lmbda=1.0, sft_weight=0.1),
        "which are never drawn",
    ),
    "responses that the teacher replaces": (
        lambda: make(seq_kd=True, sft_weight=0.1),
        "which are never drawn",
    ),
    "one source": (
        lambda: make(sources=StudentSampler()),
        "`sources` must be a pair of sources",
    ),
    "a source twice": (
        lambda: make(sources=(DatasetResponses(),) * 2),
        "`sources` must be a pair of two different sources",
    ),
    "sources and seq_kd": (
        lambda: make(seq_kd=True, sources=(ReplayBuffer(), DatasetResponses())),
        "Pass either `seq_kd` or `sources`",
    ),
    "gradient accumulation": (
        lambda: compiled(optimizer=accumulating()),
        "`GKDDistiller(micro_batch_size=...)`, which is exact",
    ),
    "a loss": (lambda: compiled(loss="mse"), "`compile` takes no `loss` here"),
    "metrics": (
        lambda: compiled(metrics=["accuracy"]),
        "`compile` takes no `metrics` here",
    ),
    "several steps an execution": (
        lambda: compiled(steps_per_execution=2),
        "`steps_per_execution` must be 1",
    ),
    "a missing mask": (
        lambda: trained({n: BATCH[n] for n in ("token_ids", "prompt_mask")}),
        "'completion_mask' (booleans), all of shape [rows, length]",
    ),
    "an array": (
        lambda: trained(BATCH["token_ids"]),
        "A batch must be a dict with 'token_ids'",
    ),
    "masks of another shape": (
        lambda: trained(batch(prompt_mask=MASK[:, :-1])),
        "Received shapes: {'token_ids': (4, 14), 'prompt_mask': (4, 13)",
    ),
    "token ids that are no integers": (
        lambda: trained(batch(token_ids=np.zeros(MASK.shape, "float32"))),
        "token_ids of dtype float32",
    ),
    "left padding": (
        lambda: trained(batch(prompt_mask=np.roll(MASK, 1, 1))),
        "the padding must be on the right",
    ),
    "a completion apart from its prompt": (
        lambda: trained(
            batch(completion_mask=np.roll(BATCH["completion_mask"], 1, 1))
        ),
        "the completion right behind it",
    ),
    "no prompt": (
        lambda: trained(
            tiny_gkd.batch([2, 0], [3, 2]),
        ),
        "without a prompt",
    ),
    "token ids of a larger vocabulary": (
        lambda: trained(batch(token_ids=BATCH["token_ids"] + 20)),
        "smaller vocabulary, 40",
    ),
    "no responses": (
        lambda: trained(tiny_gkd.batch([2, 3], [2, 4])),
        "1 of 2 rows have no response",
    ),
    "no room": (
        lambda: trained(tiny_gkd.batch(width=12), lmbda=1.0),
        "13 positions here",
    ),
    "rows too long for the models": (
        lambda: trained(tiny_gkd.batch(width=25)),
        "which reads at most 24 tokens",
    ),
    "labels": (
        lambda: make().train_on_batch(BATCH, np.zeros(4)),
        "`y` has no meaning here",
    ),
    "weights of rows": (
        lambda: make().train_on_batch(BATCH, sample_weight=np.ones(4)),
        "`sample_weight` has no meaning here",
    ),
    "evaluation without responses": (
        lambda: make(lmbda=1.0).evaluate(
            tiny_gkd.batch([2, 3], [2, 3]), verbose=0
        ),
        "`evaluate` compares the models on responses",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(name):
    build, message = WRONG[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


def test_vocabularies_that_are_only_padded():
    models = tiny_gkd.teacher(), tiny_lm.gpt2(44, 1, 8, seed=2)
    with pytest.warns(UserWarning, match="Only the first 40 are compared"):
        model = make(models)
    expected = [tiny_gkd.log_probabilities(m, BATCH)[..., :40] for m in models]
    log_s = expected[1] - np.log(np.exp(expected[1]).sum(-1, keepdims=True))
    values = tiny_gkd.jsd(expected[0], log_s, 0.5)
    found = model.evaluate(BATCH, verbose=0, return_dict=True)["loss"]
    assert found == pytest.approx(
        tiny_gkd.at_completions(values, BATCH).mean(), rel=1e-4
    )


def test_stop_tokens_come_from_the_tokenizers():
    models = pair()
    assert compatibility.stop_tokens(None, *models, 40) == (6,)
    assert compatibility.stop_tokens(
        None, models[0], tiny_gkd.student(), 40
    ) == (6,)
    assert compatibility.stop_tokens([1, 2], *models, 40) == (1, 2)


def test_stop_tokens_that_differ():
    models = pair()
    models[0].preprocessor.tokenizer.end_token_id = 5
    with pytest.warns(UserWarning, match="Completions will end with the stu"):
        assert compatibility.stop_tokens(None, *models, 40) == (6,)


def test_models_of_any_length():
    models = (tiny_lm.llama(seed=1), tiny_lm.llama(seed=2))
    assert compatibility.max_lengths(*models) == {
        "teacher": None,
        "student": None,
    }
    rows.check_fits("Rows", 10**6, compatibility.max_lengths(*models))
