"""Where the completions that a student learns from come from."""

import dataclasses

import numpy as np

from keras_distill.gkd.decoding import Generator

DATASET, STUDENT, TEACHER = "dataset", "student", "teacher"


@dataclasses.dataclass(frozen=True)
class Sampling:
    """What a `GKDDistiller` tells its sources.

    Args:
        teacher: The teacher, a `keras_hub.models.CausalLM`.
        student: The student, a `keras_hub.models.CausalLM`.
        sampler: As in `GKDDistiller`.
        temperature: Float, divides the logits before sampling.
        stop_token_ids: Tuple of integers. They end a completion.
        vocabulary_size: Integer, how many tokens both models know.
        max_completion_length: Integer, in tokens.
        max_lengths: Dict, `"teacher"` and `"student"` to the most tokens it
            can read, or None.
    """

    teacher: object
    student: object
    sampler: object
    temperature: float
    stop_token_ids: tuple
    vocabulary_size: int
    max_completion_length: int
    max_lengths: dict


class Source:
    """A source of completions, for `GKDDistiller(sources=...)`.

    A subclass implements `__call__`. What it returns depends on its
    arguments and on its `state()` alone: a training that is killed and
    resumed then goes on in the same way.

    Attributes:
        names: Tuple of strings, all `origins` its rows may have. Each becomes
            `<name>_fraction` in the logs.
        needs_responses: Boolean, whether it reads the data set's responses.
        generates: Boolean, whether it writes up to the limits it is given.
    """

    names = ()
    needs_responses = False
    generates = True

    def bind(self, sampling):
        """Is called once, by the Distiller.

        Args:
            sampling: `Sampling`, the models and how to sample from them.
        """

    def __call__(self, rows, limits, seed):
        """Gives prompts their completions.

        Args:
            rows: `Rows`, with the data set's responses if there are any.
            limits: int32 array of shape `[rows]`: how long prompt and
                completion may be together.
            seed: Integer, differs from step to step.

        Returns:
            `Rows`, as many and as wide as `rows`.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must implement `__call__`"
        )

    def state(self):
        """Dict of arrays that a checkpoint must hold."""
        return {}

    def restore(self, state):
        """Takes over what `state()` gave before.

        Args:
            state: Dict of arrays.
        """


class DatasetResponses(Source):
    """The responses of the data set as they are.

    Example:

    >>> DatasetResponses().names
    ('dataset',)
    """

    names = (DATASET,)
    needs_responses = True
    generates = False

    def __call__(self, rows, limits, seed):  # noqa: ARG002
        """The rows themselves."""
        return rows


class _ModelSampler(Source):
    """Completions that a model samples.

    A subclass implements `model_of(sampling)`.
    """

    def __init__(self):
        self._generator = None
        self._vocabulary_size = None

    def bind(self, sampling):
        """Takes over the model and how to sample from it."""
        self._vocabulary_size = sampling.vocabulary_size
        self._generator = Generator(
            self.model_of(sampling),
            sampler=sampling.sampler,
            temperature=sampling.temperature,
            stop_token_ids=sampling.stop_token_ids,
        )

    def __call__(self, rows, limits, seed):
        """Samples a completion for each prompt."""
        token_ids, lengths = self._generator(
            rows.token_ids, rows.prompt_lengths, limits, seed
        )
        return dataclasses.replace(
            rows,
            token_ids=token_ids,
            lengths=self._within_vocabulary(rows, token_ids, lengths),
            origins=np.full(len(rows), self.names[0], object),
        )

    def _within_vocabulary(self, rows, token_ids, lengths):
        """Ends completions before a token that only one model knows."""
        width = token_ids.shape[1]
        unknown = token_ids >= self._vocabulary_size
        unknown &= np.arange(width) >= rows.prompt_lengths[:, None]
        first = np.where(unknown.any(1), unknown.argmax(1), width)
        return np.minimum(lengths, first).astype("int32")


class StudentSampler(_ModelSampler):
    """Completions that the student samples: on-policy learning.

    Example:

    >>> StudentSampler().names
    ('student',)

    Reference:
        Agarwal et al., 2024, https://arxiv.org/abs/2306.13649, algorithm 1.
    """

    names = (STUDENT,)

    @staticmethod
    def model_of(sampling):
        return sampling.student


class TeacherSampler(_ModelSampler):
    """Completions that the teacher samples: sequence-level distillation.

    Example:

    >>> TeacherSampler().names
    ('teacher',)

    Reference:
        Kim and Rush, 2016, https://arxiv.org/abs/1606.07947.
    """

    names = (TEACHER,)

    @staticmethod
    def model_of(sampling):
        return sampling.teacher
