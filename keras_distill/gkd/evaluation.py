"""How close a student writes to its teacher, on held-out prompts."""

import dataclasses

import numpy as np
from keras import ops

from keras_distill._checks import check_choice
from keras_distill._compiled import compile_reading
from keras_distill.divergences import forward_kl
from keras_distill.divergences import generalized_jsd
from keras_distill.divergences import reverse_kl
from keras_distill.gkd import compatibility
from keras_distill.gkd.losses import TokenLosses
from keras_distill.gkd.rollout import COUNTS
from keras_distill.gkd.rollout import STATISTICS
from keras_distill.gkd.rollout import Rollout
from keras_distill.gkd.rows import only_inputs
from keras_distill.gkd.sources import DATASET
from keras_distill.gkd.sources import STUDENT
from keras_distill.gkd.sources import TEACHER
from keras_distill.gkd.sources import DatasetResponses
from keras_distill.gkd.sources import Sampling
from keras_distill.gkd.sources import StudentSampler
from keras_distill.gkd.sources import TeacherSampler

WRITERS = {
    STUDENT: StudentSampler,
    TEACHER: TeacherSampler,
    DATASET: DatasetResponses,
}
DIVERGENCES = {
    "forward_kl": forward_kl,
    "reverse_kl": reverse_kl,
    "jsd": generalized_jsd,
}


@dataclasses.dataclass(frozen=True)
class WritingScores:
    """Two models compared at the tokens of the same completions.

    Args:
        forward_kl: `KL(teacher || student)`, mean over tokens, nats.
        reverse_kl: `KL(student || teacher)`, mean over tokens, nats.
        jsd: Their Jensen-Shannon divergence, mean over tokens, nats.
        teacher_nll: The teacher's negative log-likelihood of the tokens,
            mean, nats: how fluent the teacher finds them.
        student_nll: The student's.
        tokens: Number of tokens compared.
        rows: Number of completions.
        completion_length: Mean tokens of a completion.
        truncated_fraction: Share of the completions without a stop token.
    """

    forward_kl: float
    reverse_kl: float
    jsd: float
    teacher_nll: float
    student_nll: float
    tokens: int
    rows: int
    completion_length: float
    truncated_fraction: float

    @classmethod
    def pooled(cls, parts):
        """The scores of all completions, from those of parts of them.

        Args:
            parts: List of `WritingScores`, at least one.

        Returns:
            `WritingScores`.

        Example:

        >>> part = WritingScores(1.0, 0.5, 0.1, 2.0, 2.0, 30, 2, 15.0, 0.0)
        >>> other = WritingScores(2.0, 0.5, 0.1, 2.0, 2.0, 10, 1, 10.0, 1.0)
        >>> WritingScores.pooled([part, other]).forward_kl
        1.25
        """
        found = {}
        for field in dataclasses.fields(cls):
            name = field.name
            values = [getattr(part, name) for part in parts]
            if field.type is int:
                found[name] = sum(values)
                continue
            per_row = name in ("completion_length", "truncated_fraction")
            counts = [part.rows if per_row else part.tokens for part in parts]
            weights = counts if sum(counts) else None
            found[name] = float(np.average(values, weights=weights))
        return cls(**found)


class WritingScorer:
    """Compares two models at every token of completions.

    On the student's own completions this is what on-policy distillation
    minimises and what counts in use: there the student must go on from its
    own mistakes. Both models are read at each call, so that one scorer serves
    a whole training.

    Args:
        teacher: `keras_hub.models.CausalLM`.
        student: `keras_hub.models.CausalLM` with the same vocabulary.
        max_completion_length: Integer, in tokens.
        temperature: Positive float, of the sampling; 0 is greedy. The
            comparison is at temperature 1.
        stop_token_ids: As in `GKDDistiller`.

    Raises:
        ValueError: If the models do not fit together.

    Example:

    >>> import keras_hub
    >>> def gpt2(width):
    ...     return keras_hub.models.GPT2CausalLM(keras_hub.models.GPT2Backbone(
    ...         vocabulary_size=30, num_layers=1, num_heads=2,
    ...         hidden_dim=width, intermediate_dim=8, max_sequence_length=8))
    >>> prompts = np.array([[5, 6, 0, 0, 0, 0], [7, 0, 0, 0, 0, 0]])
    >>> batch = {"token_ids": prompts, "prompt_mask": prompts > 0,
    ...     "completion_mask": np.zeros((2, 6), bool)}
    >>> scorer = WritingScorer(gpt2(8), gpt2(4), max_completion_length=4,
    ...     stop_token_ids=())
    >>> scores = scorer([batch])
    >>> scores.tokens, scores.truncated_fraction
    (8, 1.0)

    Reference:
        Agarwal et al., 2024, https://arxiv.org/abs/2306.13649, section 3.
    """

    def __init__(
        self,
        teacher,
        student,
        max_completion_length=512,
        temperature=1.0,
        stop_token_ids=None,
    ):
        compatibility.check_pair(teacher, student)
        pairs = [
            TokenLosses(teacher, student, divergence, False)
            for divergence in DIVERGENCES.values()
        ]
        vocabulary_size = min(pairs[0].vocabulary_sizes)
        stops = compatibility.stop_tokens(
            stop_token_ids, teacher, student, vocabulary_size
        )
        sampling = Sampling(
            teacher,
            student,
            None,
            temperature,
            stops,
            vocabulary_size,
            max_completion_length,
            compatibility.max_lengths(teacher, student),
        )
        self._rollouts = {
            writer: Rollout((source(), source()), sampling, "batch")
            for writer, source in WRITERS.items()
        }
        self._compare = _comparison(pairs, teacher, student)

    def __call__(self, batches, writer=STUDENT, seed=0):
        """Lets `writer` complete the prompts, and compares the models there.

        Args:
            batches: Iterable of batches, as `GKDPreprocessor.batches` makes
                them.
            writer: `"student"`, `"teacher"` or `"dataset"`, whose completions
                are in the batches.
            seed: Integer. The same seed gives the same completions.

        Returns:
            `WritingScores`.

        Raises:
            ValueError: If there are no batches, or they do not fit.
        """
        parts = self.by_batch(batches, writer, seed)
        if not parts:
            raise ValueError("`batches` must hold at least one. Received: none")
        return WritingScores.pooled(parts)

    def by_batch(self, batches, writer=STUDENT, seed=0):
        """The scores of each batch, of which intervals can be made.

        Args:
            batches: As in a call.
            writer: As in a call.
            seed: As in a call.

        Returns:
            List of `WritingScores`; `WritingScores.pooled` of it is what a call
            returns.

        Raises:
            ValueError: If the batches do not fit.
        """
        check_choice("writer", writer, WRITERS)
        return [
            self._scores(only_inputs(batch), writer, seed, step)
            for step, batch in enumerate(batches)
        ]

    def _scores(self, batch, writer, seed, step):
        filled = self._rollouts[writer].fill(batch, 1.0, seed, step)
        lengths = filled.pop(STATISTICS)[-2:]
        *sums, tokens = np.asarray(self._compare(filled), "float64")
        return WritingScores(
            *(float(value / max(tokens, 1.0)) for value in sums),
            int(tokens),
            len(filled["token_ids"]),
            *map(float, lengths),
        )


def _comparison(pairs, teacher, student):
    """A compiled function of a batch: sums over its tokens, and their number.

    In the order of the fields of `WritingScores`.
    """
    judges = [
        TokenLosses(other, judge, forward_kl, False)
        for judge, other in ((teacher, student), (student, teacher))
    ]

    def compare(x):
        x = x | {"response_mask": x["completion_mask"]}
        teacher_states = pairs[0].teacher_states(x)
        student_states = pairs[0].student_states(x, training=False)
        sums = [
            losses.divergence_sum(x, teacher_states, student_states)
            for losses in pairs
        ]
        for judge, states in zip(judges, (teacher_states, student_states)):
            sums.append(judge.cross_entropy_sum(x, states))
        return ops.stack([*sums, x[COUNTS][0]])

    return compile_reading(compare, [*teacher.variables, *student.variables])
