"""The warning of losses that lose their point with two classes."""

import warnings


def warn_if_binary(loss, classes, consequence):
    """Warns, once for each loss object, where there are two classes.

    Args:
        loss: `keras.losses.Loss`, named in the warning.
        classes: Integer or None, the number of classes.
        consequence: String, what becomes of the loss.
    """
    if classes != 2 or vars(loss).get("_warned_binary", False):
        return
    loss._warned_binary = True
    warnings.warn(
        f"`{type(loss).__name__}` with two classes: {consequence}. "
        "`kd.losses.ForwardKL` uses all that two logits say",
        stacklevel=3,
    )
