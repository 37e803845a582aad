"""The schedules of Continuation-KD, as callbacks."""

from keras_distill import schedules
from keras_distill._checks import check_integer
from keras_distill.callbacks.annealing import AnnealTemperature
from keras_distill.callbacks.annealing import AnnealWeight


def continuation_kd(epochs, max_temperature=7, hard_share=None):
    """The callbacks of Continuation-KD, for a fit of `epochs` epochs.

    The loss of epoch `i`, counted from 0, is `psi(i) hard +
    (1 - psi(i)) soft`, each times its compiled weight. The temperature steps
    down from `max_temperature` to 1, each value for `epochs //
    max_temperature` epochs, while `psi` rises: no stages, and no decision when
    to switch. Compile with both weights at 1 and
    `kd.losses.ContinuationMSE(max_temperature, margin)`. With `margin=0` and a
    `psi` that jumps from 0 to 1 it is Annealing-KD without the choice of the
    best student in between.

    The paper keeps the student of the best epoch on the dev set: add
    `keras.callbacks.ModelCheckpoint(..., save_best_only=True,
    save_weights_only=True)`.

    Args:
        epochs: Integer, at least `max_temperature`; as in `fit(epochs=...)`.
        max_temperature: Integer, at least 1. Defaults to `7`.
        hard_share: `psi`: a schedule of `kd.schedules`, or a function, from
            the epoch to a number between 0 and 1. Defaults to a line from 0
            at the first epoch to 1 after three quarters of them, as the
            paper's for images.

    Returns:
        List of three callbacks.

    Raises:
        ValueError: if an argument is not as described.

    Example:

    >>> temperature, hard, soft = continuation_kd(8, max_temperature=2)
    >>> [temperature.schedule(epoch) for epoch in range(8)]
    [2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0]
    >>> hard.schedule(3), soft.schedule(3)
    (0.5, 0.5)

    Reference:
        Jafari et al., 2022, https://arxiv.org/abs/2212.05998, algorithm 1.
    """
    check_integer("max_temperature", max_temperature, minimum=1)
    check_integer("epochs", epochs, minimum=max_temperature)
    if hard_share is None:
        hard_share = schedules.Linear(0.0, 1.0, length=max(1, epochs * 3 // 4))
    if not callable(hard_share):
        raise ValueError(
            "`hard_share` must be a schedule or a function from the epoch to "
            f"a number. Received: hard_share={hard_share!r}"
        )
    for epoch in range(epochs):
        if not 0 <= hard_share(epoch) <= 1:
            raise ValueError(
                "`hard_share` must be between 0 and 1. "
                f"Received: {hard_share(epoch)} at epoch {epoch}"
            )
    hold = epochs // max_temperature
    return [
        AnnealTemperature(schedules.StepDown(max_temperature, hold=hold)),
        AnnealWeight("hard", hard_share),
        AnnealWeight("soft", lambda epoch: 1 - hard_share(epoch)),
    ]
