"""The options of a `GKDDistiller`: what is refused, what they stand for."""

import functools
import numbers

import keras

from keras_distill._checks import check_between
from keras_distill._checks import check_integer
from keras_distill._checks import check_positive
from keras_distill._checks import check_weight
from keras_distill.divergences import generalized_jsd
from keras_distill.gkd.sources import DATASET
from keras_distill.gkd.sources import DatasetResponses
from keras_distill.gkd.sources import Source
from keras_distill.gkd.sources import StudentSampler
from keras_distill.gkd.sources import TeacherSampler
from keras_distill.losses import LogitsLoss

SCHEDULE_STEPS = (0, *(2**power for power in range(31)))


def check_lmbda(lmbda, sft_weight, sources):
    """Raises `ValueError` unless `lmbda` is a probability, or gives some."""
    if callable(lmbda):
        for step in SCHEDULE_STEPS:
            check_probability(lmbda(step), f" at step {step} of {lmbda!r}")
        drawn = sources
    else:
        check_probability(lmbda)
        drawn = [s for s, p in zip(sources, (lmbda, 1 - lmbda)) if p > 0]
    if sft_weight and not any(DATASET in source.names for source in drawn):
        raise ValueError(
            "`sft_weight` weights the data set's responses, which are never "
            "drawn. Use `sft_weight=0.0`, or a smaller `lmbda` and "
            f"`seq_kd=False`. Received: sft_weight={sft_weight}, "
            f"lmbda={lmbda}"
        )


def check_probability(value, where=""):
    """Raises `ValueError` unless `value` is a number between 0 and 1."""
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1:
        raise ValueError(
            "`lmbda` must be a number between 0 and 1, or a schedule of "
            "`kd.schedules` with such values: the probability that the "
            f"student writes the completion. Received: lmbda={value!r}{where}"
        )


def check_numbers(micro_batch_size, chunk_tokens, seed, sft_weight):
    """Raises `ValueError` unless these are numbers in their ranges."""
    if micro_batch_size is not None:
        check_integer("micro_batch_size", micro_batch_size, minimum=1)
    if chunk_tokens not in ("auto", None):
        check_integer("chunk_tokens", chunk_tokens, minimum=1)
    if seed is not None:
        check_integer("seed", seed, minimum=0)
        check_between("seed", seed, 0, 2**31 - 1)
    check_weight("sft_weight", sft_weight)


def pair_of_sources(sources, seq_kd):
    """The two sources that the arguments stand for.

    Raises:
        ValueError: unless `sources` is None or a pair of sources.
    """
    if sources is None:
        other = TeacherSampler() if seq_kd else DatasetResponses()
        return StudentSampler(), other
    pair = isinstance(sources, (tuple, list)) and len(sources) == 2
    if not pair or not all(isinstance(s, Source) for s in sources):
        raise ValueError(
            "`sources` must be a pair of sources, the one drawn with "
            "probability `lmbda` and the one drawn otherwise, such as "
            "`(ReplayBuffer(), DatasetResponses())`. "
            f"Received: sources={sources!r}"
        )
    if seq_kd:
        raise ValueError(
            "`seq_kd=True` stands for `TeacherSampler()` as second source. "
            "Pass either `seq_kd` or `sources`. Received: both"
        )
    if sources[0] is sources[1]:
        raise ValueError(
            "`sources` must be a pair of two different sources. "
            f"Received: sources={sources!r}"
        )
    return tuple(sources)


def divergence_function(divergence, beta, loss_temperature, normalize):
    """The function of logits that the arguments stand for.

    Raises:
        ValueError: if an argument would be ignored or is no use.
    """
    if divergence is None:
        check_between("beta", beta, 0, 1)
        check_positive("loss_temperature", loss_temperature)
        return functools.partial(
            generalized_jsd,
            beta=beta,
            temperature=loss_temperature,
            normalize=normalize,
        )
    if not callable(divergence) or isinstance(divergence, type):
        raise ValueError(
            "`divergence` must be a loss such as `kd.losses.ReverseKL()`, or "
            "a function of teacher's and student's logits such as "
            "`kd.divergences.reverse_kl`. "
            f"Received: divergence={divergence!r}"
        )
    if (beta, loss_temperature, normalize) != (0.5, 1.0, False):
        raise ValueError(
            "`beta`, `loss_temperature` and `normalize` belong to the "
            "generalized Jensen-Shannon divergence. Set the parameters of "
            "another `divergence` on itself. Received: "
            f"divergence={divergence!r}, beta={beta}, "
            f"loss_temperature={loss_temperature}, normalize={normalize}"
        )
    if isinstance(divergence, LogitsLoss):
        _check_by_token(divergence)
    if isinstance(divergence, keras.losses.Loss):
        return divergence.call
    return divergence


def _check_by_token(loss):
    """Raises `ValueError` unless `loss` compares two tokens' logits alone."""
    reasons = {
        "the labels": loss.needs_labels,
        "the sparse targets of a cache": loss.reads_sparse,
        "all tokens of a batch together": loss.relates_rows,
        "labels that do not exclude each other": loss.over == "labels",
        "directions of vectors": loss.over == "vectors",
    }
    found = [reason for reason, holds in reasons.items() if holds]
    if found:
        raise ValueError(
            "`divergence` must compare next-token distributions, one token "
            f"at a time. Received: `kd.losses.{loss.title}`, which is about "
            f"{found[0]}. Use a loss such as `kd.losses.ReverseKL()`"
        )


def check_optimizer(optimizer):
    """Raises `ValueError` if the optimizer accumulates gradients."""
    inner = optimizer
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        inner = optimizer.inner_optimizer
    if inner.gradient_accumulation_steps:
        raise ValueError(
            "An optimizer that accumulates gradients weights batches alike, "
            "however many tokens were generated in them. Use a larger batch "
            "and `GKDDistiller(micro_batch_size=...)`, which is exact. "
            "Received: gradient_accumulation_steps="
            f"{inner.gradient_accumulation_steps}"
        )


def check_compile(options):
    """Raises `ValueError` for options that a GKD training has no use for."""
    hints = {
        "loss": "The loss is set with `GKDDistiller(divergence=...)`",
        "loss_weights": "There is one divergence; see `sft_weight`",
        "metrics": "Evaluate `distiller.student` for other metrics",
        "weighted_metrics": "Evaluate `distiller.student` for other metrics",
    }
    for name, hint in hints.items():
        if options.get(name) is not None:
            raise ValueError(
                f"`compile` takes no `{name}` here. {hint}. "
                f"Received: {name}={options[name]!r}"
            )
    if options.get("steps_per_execution", 1) != 1:
        raise ValueError(
            "`steps_per_execution` must be 1: the student writes between the "
            "steps. Received: steps_per_execution="
            f"{options['steps_per_execution']}"
        )
