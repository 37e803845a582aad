"""The divergence of two language models, summed over tokens."""

import math

from keras import ops

from keras_distill._backend import accelerators
from keras_distill._checks import check_integer
from keras_distill.gkd.chunked_loss import ChunkedDivergence
from keras_distill.gkd.chunked_loss import HeadOnRows

CHUNK_ELEMENTS = 10 * 2**20
LARGEST_CHUNK = 1024
# With fewer rows the matrix units of a GPU wait for the head's weights: an H200
# does some 200 operations in the time in which it reads a byte.
FEWEST_ON_ACCELERATORS = 256


def token_divergence(
    divergence,
    teacher_head,
    teacher_states,
    student_head,
    student_states,
    mask,
    vocabulary=None,
    chunk_tokens="auto",
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
        chunk_tokens: How many tokens have their logits in memory at a time:
            an integer, `None` for all of them, or `"auto"`: chunks of up to
            10 million logits, at most 1,024 tokens, and at least 256 on an
            accelerator. Then chunks are used where there are more tokens than
            in one chunk and than half the width of the student (a float32
            gradient of the head, which chunks need one more of, is as large as
            the logits of so many tokens and what is computed from them), or,
            while the number of tokens is not known, where 1,024 tokens make
            more than 10 million logits.

    Returns:
        Pair of float32 scalars: the sum, and the number of tokens in it. For
        the mean over tokens divide them; `ops.maximum(count, 1)` gives 0 when
        no token counts.

    Raises:
        ValueError: If `vocabulary` does not fit both models or `chunk_tokens`
            is not a positive integer.

    Reference:
        Agarwal et al., 2024, https://arxiv.org/abs/2306.13649, eq. 2.
    """
    vocabulary = _common_vocabulary(vocabulary, teacher_head, student_head)
    mask = ops.cast(ops.reshape(mask, (-1,)), "bool")
    heads = [(teacher_head, teacher_states), (student_head, student_states)]
    if chunk_tokens == "auto":
        chunk_tokens = _chunk_tokens(
            mask.shape[0], vocabulary, student_head.hidden_dim
        )
    count = ops.sum(ops.cast(mask, "int32"))
    if chunk_tokens is None:
        total = _plain(divergence, heads, mask, vocabulary)
    else:
        check_integer("chunk_tokens", chunk_tokens, minimum=1)
        rows = _rows(mask, chunk_tokens)
        total = ChunkedDivergence(
            divergence,
            *(HeadOnRows(*head, rows, vocabulary) for head in heads),
            count,
            chunk_tokens,
        ).total()
    return total, ops.cast(count, "float32")


def _chunk_tokens(tokens, vocabulary, width):
    """How many of `tokens` tokens to a chunk, `None` without chunks."""
    fewest = FEWEST_ON_ACCELERATORS if accelerators() else 1
    chunk = min(max(CHUNK_ELEMENTS // vocabulary, fewest), LARGEST_CHUNK)
    if tokens is None:
        return chunk if chunk < LARGEST_CHUNK else None
    if tokens <= max(chunk, width // 2):
        return None
    # Chunks of one size: the last one would be filled up with tokens that do
    # not count, which take as long.
    return math.ceil(tokens / math.ceil(tokens / chunk))


def _plain(divergence, heads, mask, vocabulary):
    """The sum, from the logits of all tokens at once."""
    teacher_logits, student_logits = (
        # Where nothing counts, nothing that is not a number gets through.
        head.logits(
            ops.where(
                mask[:, None], ops.reshape(states, (-1, head.hidden_dim)), 0
            )
        )[:, :vocabulary]
        for head, states in heads
    )
    values = divergence(ops.stop_gradient(teacher_logits), student_logits)
    return ops.sum(ops.where(mask, values, 0.0))


def _rows(mask, chunk_tokens):
    """Indices of the tokens that count, then others, in whole chunks."""
    rows = ops.cast(ops.argsort(ops.cast(mask, "int32") * -1), "int32")
    return ops.pad(rows, [[0, -ops.shape(mask)[0] % chunk_tokens]])


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
