"""The teacher's probabilities, and its states between the layers."""

import dataclasses

from keras_distill import losses
from keras_distill import matching
from keras_distill.recipes.logits import kd


def hidden(temperature=None, hard_weight=0.5, soft_weight=0.5):
    """`kd`, and hidden states matched by their squared error.

    Layers go together evenly, by `kd.uniform_layer_map`; a student with one
    place for states meets the teacher's last. Together they weigh 1. Of images
    the states are the feature maps that end the stages: the student's are
    widened by a 1x1 convolution, the teacher's resized where need be.

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
        Jiao et al., 2020, https://arxiv.org/abs/1909.10351, eq. 8; of feature
        maps Romero et al., 2014, https://arxiv.org/abs/1412.6550, eq. 3.
    """
    return dataclasses.replace(
        kd(temperature, hard_weight, soft_weight),
        name="KD and hidden states",
        matches=match_states,
        needs_states=True,
    )


def match_states(student, teacher, model, loss=None):
    """The matches of a student's hidden states with the teacher's.

    Args:
        student: `kd.students.Student`.
        teacher: `keras.Model`.
        model: What the student built.
        loss: Feature loss of `kd.losses`. Defaults to `HiddenMSE`, which
            resizes feature maps.

    Returns:
        List of `kd.Match`.

    Raises:
        ValueError: The student has no state for each token of a row.
    """
    ours, theirs = student.hidden_states(model), student.teacher_states(teacher)
    if not ours:
        raise ValueError(
            f"The student {student.title} reads the two texts of a pair one by "
            "one: it has no state per token of the row to compare with the "
            "teacher's. Use `--student shrink --pair-encoder cross`, or the "
            f"method kd. Received: model={model.name}"
        )
    # Of a student with more places the last ones.
    ours = ours[-len(theirs) :]
    pairs = [(theirs[-1], ours[-1])]
    if len(ours) > 1:
        layers = matching.uniform_layer_map(len(theirs) - 1, len(ours) - 1)
        pairs = [(theirs[t], ours[s]) for t, s in layers]
    loss = loss or losses.HiddenMSE(resize=True)
    return [
        matching.Match(t, s, loss, weight=1.0 / len(pairs)) for t, s in pairs
    ]
