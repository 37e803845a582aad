"""Which layer of the teacher a layer of the student goes with."""

import numbers


def uniform_layer_map(teacher_layers, student_layers):
    """Pairs of states, evenly spaced: `[(teacher, student), ...]`.

    An encoder of `n` layers has states `0..n`: state 0 are the embeddings,
    state `k` is what layer `k` produces. Student state `k` goes with teacher
    state `round(k * teacher_layers / student_layers)`, halves up, so that
    both ends meet and no state of the teacher is used twice.

    Args:
        teacher_layers: Integer, the number of the teacher's layers.
        student_layers: Integer, from 1 to `teacher_layers`.

    Returns:
        List of `student_layers + 1` tuples `(teacher_state, student_state)`.

    Raises:
        ValueError: If a number is not a positive integer, or if the student
            has more layers than the teacher.

    Example:

    >>> uniform_layer_map(12, 4)
    [(0, 0), (3, 1), (6, 2), (9, 3), (12, 4)]
    >>> uniform_layer_map(6, 4)
    [(0, 0), (2, 1), (3, 2), (5, 3), (6, 4)]
    """
    for name, value in (
        ("teacher_layers", teacher_layers),
        ("student_layers", student_layers),
    ):
        if not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(
                f"`{name}` must be a positive integer. "
                f"Received: {name}={value!r}"
            )
    if student_layers > teacher_layers:
        raise ValueError(
            "`student_layers` must be at most `teacher_layers`: each layer of "
            "the student needs one of the teacher. Received: "
            f"teacher_layers={teacher_layers}, student_layers={student_layers}"
        )
    return [
        (_round_half_up(k * teacher_layers, student_layers), k)
        for k in range(student_layers + 1)
    ]


def first_layer_map(teacher_layers, student_layers):
    """Pairs of states, those next to the input.

    Args:
        teacher_layers: Integer, the number of the teacher's layers.
        student_layers: Integer, from 1 to `teacher_layers`.

    Returns:
        List of `student_layers + 1` tuples `(teacher_state, student_state)`.

    Example:

    >>> first_layer_map(12, 4)
    [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]

    Reference:
        Sajjad et al., 2023, https://arxiv.org/abs/2004.03844, section 3.1
        (the top layers are dropped).
    """
    del teacher_layers
    return [(k, k) for k in range(student_layers + 1)]


# Ways to choose the layers of a teacher that are copied, by their names.
LAYER_MAPS = {"even": uniform_layer_map, "first": first_layer_map}


def _round_half_up(numerator, denominator):
    return (2 * numerator + denominator) // (2 * denominator)
