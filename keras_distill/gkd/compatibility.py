"""Whether teacher and student fit together, and what ends a text."""

import warnings

import keras_hub

from keras_distill._checks import check_between
from keras_distill._checks import check_integer
from keras_distill._layers import longest_sequence
from keras_distill.data.vocabulary import ids_of_tokens
from keras_distill.distiller.checks import check_models
from keras_distill.teachers import Teacher

END_TOKENS = ("end_token_id", "end_token2_id")


def tokenizer_of(model):
    """The tokenizer of a KerasHub task, or None."""
    return model.preprocessor and model.preprocessor.tokenizer


def special_token(tokenizer, name):
    """The id of a tokenizer's special token, or None where it has none."""
    # KerasHub sets an attribute for each one that a model uses, and only then.
    token = getattr(tokenizer, name, None)
    return None if token is None else int(token)


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


def _check_tokenizers(teacher, student):
    if teacher is None or student is None or teacher is student:
        return
    ours, theirs = ids_of_tokens(student), ids_of_tokens(teacher)
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
    found = [special_token(tokenizer, name) for name in END_TOKENS]
    return tuple(dict.fromkeys(token for token in found if token is not None))


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
        name: longest_sequence(model)
        for name, model in (("teacher", teacher), ("student", student))
    }
