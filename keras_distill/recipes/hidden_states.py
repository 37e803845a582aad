"""The teacher's probabilities, and its states between the layers."""

import dataclasses

from keras_distill import losses
from keras_distill import matching
from keras_distill import taps
from keras_distill.recipes.logits import kd


def hidden(temperature=4.0, hard_weight=0.5, soft_weight=0.5):
    """`kd`, and hidden states matched by their squared error.

    Layers go together evenly, by `kd.uniform_layer_map`; a student with one
    place for states meets the teacher's last. Together they weigh 1.

    Args:
        temperature: As in `kd`.
        hard_weight: As in `kd`.
        soft_weight: As in `kd`.

    Returns:
        `Recipe`.

    Example:

    >>> hidden().needs_states
    True

    Reference:
        Jiao et al., 2020, https://arxiv.org/abs/1909.10351, eq. 8.
    """
    return dataclasses.replace(
        kd(temperature, hard_weight, soft_weight),
        name="KD and hidden states",
        matches=match_states,
        needs_states=True,
    )


def match_states(student, teacher, model):
    """The matches of a student's hidden states with the teacher's.

    Args:
        student: `kd.students.Student`.
        teacher: `keras.Model`.
        model: What the student built.

    Returns:
        List of `kd.Match`.

    Raises:
        ValueError: The student has no state for each token of a row.
    """
    theirs, ours = taps.hidden_states(teacher), student.hidden_states(model)
    if not ours:
        raise ValueError(
            f"The student {student.title} reads the two texts of a pair one by "
            "one: it has no state per token of the row to compare with the "
            "teacher's. Use `--student shrink`, or the method kd. Received: "
            f"model={model.name}"
        )
    pairs = [(theirs[-1], ours[-1])]
    if len(ours) > 1:
        layers = matching.uniform_layer_map(len(theirs) - 1, len(ours) - 1)
        pairs = [(theirs[t], ours[s]) for t, s in layers]
    return [
        matching.Match(t, s, losses.HiddenMSE(), weight=1.0 / len(pairs))
        for t, s in pairs
    ]
