"""The divergence of two language models, summed over tokens."""

from keras import ops

from keras_distill._checks import check_integer


def token_divergence(
    divergence,
    teacher_head,
    teacher_states,
    student_head,
    student_states,
    mask,
    vocabulary=None,
):
    """Sum of a divergence over the tokens that count, and their number.

    No gradient reaches the teacher. Both softmaxes are taken in float32.

    Args:
        divergence: Callable: teacher's and student's logits of shape
            `[tokens, vocabulary]` to values of shape `[tokens]`, such as
            `keras_distill.divergences.reverse_kl`.
        teacher_head: `LanguageModel` of the teacher.
        teacher_states: The teacher's hidden states, a tensor of shape
            `[batch, length, teacher width]`.
        student_head: `LanguageModel` of the student.
        student_states: The student's hidden states, a tensor of shape
            `[batch, length, student width]`.
        mask: Boolean or integer tensor of shape `[batch, length]`: which
            positions count. Any number may, also none.
        vocabulary: Number of leading entries that the vocabularies have in
            common. Logits of further entries are left out before the softmax.
            By default the smaller of the two vocabularies.

    Returns:
        Pair of float32 scalars: the sum, and the number of tokens in it. For
        the mean over tokens divide them; `ops.maximum(count, 1)` gives 0 when
        no token counts.

    Raises:
        ValueError: If `vocabulary` does not fit both models.
    """
    vocabulary = _common_vocabulary(vocabulary, teacher_head, student_head)
    mask = ops.cast(ops.reshape(mask, (-1,)), "bool")

    def logits(head, states):
        states = ops.reshape(states, (-1, head.hidden_dim))
        # Where nothing counts, nothing that is not a number gets through.
        states = ops.where(mask[:, None], states, 0)
        return head.logits(states)[:, :vocabulary]

    values = divergence(
        ops.stop_gradient(logits(teacher_head, teacher_states)),
        logits(student_head, student_states),
    )
    count = ops.sum(ops.cast(mask, "float32"))
    return ops.sum(ops.where(mask, values, 0.0)), count


def _common_vocabulary(vocabulary, teacher_head, student_head):
    """Returns how many leading entries of the logits to compare."""
    sizes = teacher_head.vocabulary_size, student_head.vocabulary_size
    if vocabulary is None:
        return min(sizes)
    check_integer("vocabulary", vocabulary, minimum=1)
    if vocabulary > min(sizes):
        raise ValueError(
            "`vocabulary` must be at most the size of both vocabularies, "
            f"{sizes[0]} (teacher) and {sizes[1]} (student). "
            f"Received: vocabulary={vocabulary}"
        )
    return vocabulary
