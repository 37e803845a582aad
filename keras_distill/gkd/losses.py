"""The loss of a GKD step, from the two models to a number."""

from keras import ops

from keras_distill.divergences import forward_kl
from keras_distill.gkd.language_model import LanguageModel
from keras_distill.gkd.token_loss import token_divergence

CERTAIN = 1e9


class _Labels:
    """A head whose "hidden states" are token ids and whose logits say so.

    The forward KL from it is the cross-entropy of the token ids, computed as
    sparingly as any other divergence.
    """

    hidden_dim = 1
    head_variables = ()

    def __init__(self, vocabulary_size):
        self.vocabulary_size = vocabulary_size

    def logits(self, states):
        """Logits that are certain of the token ids `states`."""
        token_ids = ops.cast(states[..., 0], "int32")
        return CERTAIN * ops.one_hot(token_ids, self.vocabulary_size)


class TokenLosses:
    """Compares the two models at the tokens that count.

    Not a Keras object, so that Keras neither tracks nor saves the teacher.

    Args:
        teacher: `keras_hub.models.CausalLM`.
        student: `keras_hub.models.CausalLM`.
        divergence: Callable of the teacher's and the student's logits of
            shape `[tokens, vocabulary]`, gives `[tokens]`.
        student_dropout: Boolean, whether the student is trained with dropout.
        chunk_tokens: As in `token_divergence`.
    """

    def __init__(
        self,
        teacher,
        student,
        divergence,
        student_dropout=False,
        chunk_tokens="auto",
    ):
        self.teacher = LanguageModel(teacher)
        self.student = LanguageModel(student)
        self.divergence = divergence
        self.student_dropout = student_dropout
        self.chunk_tokens = chunk_tokens

    @property
    def vocabulary_sizes(self):
        """Pair of integers, the teacher's and the student's."""
        return self.teacher.vocabulary_size, self.student.vocabulary_size

    def teacher_states(self, x):
        """The teacher's hidden states, without dropout or gradient."""
        states = self.teacher.hidden_states(x["token_ids"], x["padding_mask"])
        return ops.stop_gradient(states)

    def student_states(self, x, training):
        """The student's hidden states."""
        return self.student.hidden_states(
            x["token_ids"],
            x["padding_mask"],
            training=training and self.student_dropout,
        )

    def divergence_sum(self, x, teacher_states, student_states):
        """The divergence, summed over all completions' tokens.

        The state at a position predicts the next token.
        """
        return token_divergence(
            self.divergence,
            self.teacher,
            teacher_states[:, :-1],
            self.student,
            student_states[:, :-1],
            x["completion_mask"][:, 1:],
            chunk_tokens=self.chunk_tokens,
        )[0]

    def cross_entropy_sum(self, x, student_states):
        """The cross-entropy, summed over the data set's responses' tokens."""
        token_ids = ops.cast(x["token_ids"][:, 1:, None], "float32")
        return token_divergence(
            forward_kl,
            _Labels(self.student.vocabulary_size),
            token_ids,
            self.student,
            student_states[:, :-1],
            x["response_mask"][:, 1:],
            chunk_tokens=self.chunk_tokens,
        )[0]
