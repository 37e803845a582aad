"""What a `GKDDistiller` refuses or warns of before training starts."""

import warnings

import keras
import keras_hub

from keras_distill._checks import check_between
from keras_distill._checks import check_integer
from keras_distill.distiller.checks import check_models
from keras_distill.teachers import Teacher

END_TOKENS = ("end_token_id", "end_token2_id")


def tokenizer_of(model):
    """The tokenizer of a KerasHub task, or None."""
    return getattr(getattr(model, "preprocessor", None), "tokenizer", None)


def check_pair(teacher, student):
    """Raises `ValueError` unless the student can learn from the teacher."""
    for name, model in (("teacher", teacher), ("student", student)):
        if not isinstance(model, keras_hub.models.CausalLM):
            raise ValueError(
                f"`{name}` must be a `keras_hub.models.CausalLM`, which can "
                f"generate. Received: {name}={model!r}"
            )
    check_models(Teacher(teacher), student)
    _check_tokenizers(tokenizer_of(teacher), tokenizer_of(student))


def _vocabulary(tokenizer):
    """Dict from token to id."""
    vocabulary = getattr(tokenizer, "vocabulary", None)
    if isinstance(vocabulary, dict):
        return vocabulary
    tokens = tokenizer.get_vocabulary()
    return {token: index for index, token in enumerate(tokens)}


def _check_tokenizers(teacher, student):
    if teacher is None or student is None or teacher is student:
        return
    ours, theirs = _vocabulary(student), _vocabulary(teacher)
    differing = sorted(
        (
            token
            for token in ours.keys() | theirs.keys()
            if ours.get(token) != theirs.get(token)
        ),
        key=lambda token: str(token),
    )
    if differing:
        examples = ", ".join(
            f"{token!r} is {theirs.get(token)} for the teacher and "
            f"{ours.get(token)} for the student"
            for token in differing[:3]
        )
        raise ValueError(
            "`teacher` and `student` must have the same vocabulary, token by "
            "token: the loss compares their probabilities of each id. "
            f"Received: {len(differing)} tokens differ: {examples}. Build "
            "the student with the teacher's tokenizer"
        )


def warn_of_padded_vocabulary(teacher_size, student_size):
    """Warns if the two models have vocabularies of different sizes."""
    if teacher_size != student_size:
        common = min(teacher_size, student_size)
        warnings.warn(
            f"The teacher's vocabulary has {teacher_size} entries, the "
            f"student's {student_size}. Only the first {common} are compared, "
            "as if the others had no probability; a completion ends before "
            "the first token among the others. That is right if they only "
            "pad the vocabulary, as in Qwen",
            stacklevel=3,
        )


def _end_tokens(model):
    tokenizer = tokenizer_of(model)
    found = [getattr(tokenizer, name, None) for name in END_TOKENS]
    return tuple(dict.fromkeys(int(t) for t in found if t is not None))


def stop_tokens(stop_token_ids, teacher, student, vocabulary_size):
    """The token ids that end a completion.

    Args:
        stop_token_ids: Iterable of integers, or None for the tokenizers'.
        teacher: `keras_hub.models.CausalLM`.
        student: `keras_hub.models.CausalLM`.
        vocabulary_size: Integer.

    Returns:
        Tuple of integers.

    Raises:
        ValueError: if they are unknown, or no tokens.
    """
    if stop_token_ids is None:
        return _tokenizers_stop_tokens(teacher, student)
    if isinstance(stop_token_ids, int):
        stop_token_ids = (stop_token_ids,)
    for token in stop_token_ids:
        check_integer("stop_token_ids", token, minimum=0)
        check_between("stop_token_ids", token, 0, vocabulary_size - 1)
    return tuple(int(token) for token in stop_token_ids)


def _tokenizers_stop_tokens(teacher, student):
    theirs, ours = _end_tokens(teacher), _end_tokens(student)
    if not theirs and not ours:
        raise ValueError(
            "What ends a completion is unknown, as neither model has a "
            "preprocessor with an end token. Pass `stop_token_ids`, such as "
            "`stop_token_ids=(tokenizer.end_token_id,)`, or "
            "`stop_token_ids=()` for completions of `max_completion_length`. "
            "Received: stop_token_ids=None"
        )
    if theirs and ours and set(theirs) != set(ours):
        warnings.warn(
            f"The student stops at the tokens {list(ours)}, the teacher at "
            f"{list(theirs)}. Completions will end with the student's, and "
            "what the teacher expects behind one of its own is learned as "
            "well. Pass `stop_token_ids` to settle it",
            stacklevel=4,
        )
    return ours or theirs


def max_lengths(teacher, student):
    """Dict, `"teacher"` and `"student"` to the most tokens it can read.

    None where a model reads any number.
    """
    return {
        name: getattr(model.backbone, "max_sequence_length", None)
        for name, model in (("teacher", teacher), ("student", student))
    }


def check_fits(name, length, limits):
    """Raises `ValueError` if a model cannot read `length` tokens.

    Args:
        name: String, what is so long.
        length: Integer.
        limits: What `max_lengths` gave.
    """
    for model, limit in limits.items():
        if limit is not None and length > limit:
            raise ValueError(
                f"{name} must fit into the {model}, which reads at most "
                f"{limit} tokens. Received: {length} tokens. Use shorter "
                "prompts or a smaller `max_completion_length`"
            )


def only_inputs(data):
    """The batch in what Keras' `fit` passes on.

    Raises:
        ValueError: if there are labels or weights with it.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise ValueError(
                f"`{name}` has no meaning here: pass batches of inputs alone, "
                "whose 'completion_mask' says which tokens are responses and "
                f"count. Received: batches with `{name}`"
            )
    return x


def check_token_ids(rows, vocabulary_size):
    """Raises `ValueError` if a model has no such token."""
    prompts, completions = rows.masks()
    used = rows.token_ids[prompts | completions]
    if used.min() < 0 or used.max() >= vocabulary_size:
        raise ValueError(
            "Token ids must be at least 0 and below the size of the smaller "
            f"vocabulary, {vocabulary_size}. Received: ids from {used.min()} "
            f"to {used.max()}. Use the models' own tokenizer"
        )
