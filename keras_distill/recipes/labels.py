"""No teacher: the control of every comparison."""

from keras_distill.recipes.base import Recipe


def hard():
    """Cross-entropy with the labels, and nothing else.

    `hard().with_transfer()` takes the teacher's predictions for labels where
    there are none: what its probabilities add shows against that.

    Returns:
        `Recipe`.

    Example:

    >>> hard().is_control
    True
    """
    return Recipe("hard labels")
