"""Batches and Distillers of tiny language models, and the loss in NumPy."""

import contextlib

import keras
import numpy as np
import tiny_lm
from scipy.special import log_softmax

from keras_distill.gkd.model import GKDDistiller
from keras_distill.gkd.sources import Source

VOCABULARY = 40
WIDTH, ROOM, STOP = 14, 8, 3
PROMPTS = np.array([2, 3, 5, 1])
ENDS = np.array([8, 4, 9, 9])


def batch(prompts=PROMPTS, ends=ENDS, width=WIDTH, seed=0):
    """Rows whose padding is full of tokens, which must not matter."""
    rng = np.random.default_rng(seed)
    positions = np.arange(width)
    prompts, ends = np.asarray(prompts)[:, None], np.asarray(ends)[:, None]
    token_ids = rng.integers(4, VOCABULARY, (len(prompts), width))
    return {
        "token_ids": token_ids.astype("int32"),
        "prompt_mask": positions < prompts,
        "completion_mask": (positions >= prompts) & (positions < ends),
    }


def teacher(width=12, seed=1, **kwargs):
    return tiny_lm.gpt2(VOCABULARY, 1, width, seed=seed, **kwargs)


def student(width=8, seed=2, **kwargs):
    return tiny_lm.gpt2(VOCABULARY, 1, width, seed=seed, **kwargs)


class Writer(Source):
    """Writes random tokens of random number, ended by a stop token."""

    names = ("writer",)

    def __call__(self, rows, limits, seed):
        rng = np.random.default_rng(seed)
        token_ids, lengths = rows.token_ids.copy(), rows.lengths.copy()
        for row in range(len(rows)):
            start = rows.prompt_lengths[row]
            end = rng.integers(start + 1, limits[row] + 1)
            token_ids[row, start:end] = rng.integers(4, VOCABULARY, end - start)
            if rng.random() < 0.5:
                token_ids[row, end - 1] = STOP
            lengths[row] = end
        origins = np.full(len(rows), "writer", object)
        return type(rows)(token_ids, rows.prompt_lengths, lengths, origins)


class Traced(GKDDistiller):
    traces = 0

    def train_step(self, *args):
        self.traces += 1
        return super().train_step(*args)


def distiller(models=None, optimizer=None, compiled=False, **kwargs):
    """Eager unless `compiled`, as tracing costs more than such models do."""
    models = models or (teacher(), student())
    options = {
        "max_completion_length": ROOM,
        "stop_token_ids": (STOP,),
        "seed": 7,
    }
    found = Traced(*models, **(options | kwargs))
    optimizer = optimizer or keras.optimizers.SGD(0.1)
    found.compile(optimizer, run_eagerly=not compiled)
    return found


@contextlib.contextmanager
def completed(model):
    """A list that gets the batches which `model` learns from."""
    seen, fill = [], model.rollout.fill

    def recorded(*args):
        seen.append(fill(*args))
        return seen[-1]

    model.rollout.fill = recorded
    try:
        yield seen
    finally:
        del model.rollout.fill


def as_batch(filled):
    """What `values` takes, from a batch that was filled."""
    completion = filled["completion_mask"]
    return {
        "token_ids": filled["token_ids"],
        "prompt_mask": filled["padding_mask"] & ~completion,
        "completion_mask": completion,
    }


def log_probabilities(model, data, temperature=1.0):
    """Float64 array `[rows, width, vocabulary]`."""
    mask = data["prompt_mask"] | data["completion_mask"]
    logits = model(
        {"token_ids": data["token_ids"], "padding_mask": mask.astype("int32")}
    )
    logits = keras.ops.convert_to_numpy(logits).astype("float64")
    return log_softmax(logits / temperature, axis=-1)


def kl(log_p, log_q):
    return (np.exp(log_p) * (log_p - log_q)).sum(-1)


def jsd(log_t, log_s, beta):
    if beta in (0, 1):
        return kl(log_t, log_s) if beta == 0 else kl(log_s, log_t)
    log_m = np.log(beta * np.exp(log_t) + (1 - beta) * np.exp(log_s))
    return beta * kl(log_t, log_m) + (1 - beta) * kl(log_s, log_m)


def at_completions(values, data):
    """Those of `values` `[rows, width, ...]` that predict a counted token."""
    found = [
        values[row, position - 1]
        for row, position in zip(*np.nonzero(data["completion_mask"]))
    ]
    return np.array(found)


def divergence(models, data, beta=0.5, temperature=1.0):
    """The mean over all completions' tokens."""
    logs = [log_probabilities(m, data, temperature) for m in models]
    return at_completions(jsd(*logs, beta), data).mean()


def cross_entropy(model, data):
    log_q = log_probabilities(model, data)
    following = np.roll(data["token_ids"], -1, axis=1)
    values = np.take_along_axis(log_q, following[..., None], -1)[..., 0]
    return -at_completions(values, data).mean()
