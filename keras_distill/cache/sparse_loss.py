"""The soft loss for sparse targets from a cache."""

import keras

from keras_distill._checks import check_positive
from keras_distill.cache.sparse import sparse_forward_kl
from keras_distill.divergences._distributions import squared
from keras_distill.losses.logits_loss import LogitsLoss


@keras.saving.register_keras_serializable(package="keras_distill")
class SparseForwardKL(LogitsLoss):
    """`KL(teacher || student)` from the sparse targets of a cache.

    The soft loss of a `kd.Distiller` whose batches come from
    `kd.cache.attach`, of a cache with `kd.cache.TopK` or `kd.cache.Sampled`
    logits. See `kd.cache.sparse_forward_kl` for the formula and for what each
    form does to the gradient.

    Args:
        stored_temperature: `T > 0`, a number: the `temperature` of the
            `TopK` or `Sampled` that the cache was written with. The value is
            multiplied by T², so that its gradient keeps its size.
        **kwargs: `name`, `reduction`, `dtype` of `keras.losses.Loss`.

    Raises:
        ValueError: if `stored_temperature` is not positive.

    Example:

    >>> import numpy as np
    >>> stored = {"indices": [[2]], "log_probabilities": np.log([[0.5, 0.5]])}
    >>> student = np.log([[0.5, 0.25, 0.25]])
    >>> round(float(SparseForwardKL()(stored, student)), 4)
    0.1438

    Reference:
        Anshumann et al., 2025, https://arxiv.org/abs/2503.16870, section 3.
    """

    reads_sparse = True
    temperature = None  # What is stored cannot be tempered again.

    def __init__(self, stored_temperature=1.0, **kwargs):
        super().__init__(None, **{"name": "sparse_forward_kl", **kwargs})
        check_positive("stored_temperature", stored_temperature)
        self.stored_temperature = stored_temperature

    def call(self, y_true, y_pred):
        temperature = self.stored_temperature
        value = sparse_forward_kl(
            y_true["indices"],
            keras.ops.stop_gradient(y_true["log_probabilities"]),
            y_pred,
            temperature,
        )
        return squared(temperature, y_pred) * value

    def get_config(self):
        return {
            **super().get_config(),
            "stored_temperature": self.stored_temperature,
        }
