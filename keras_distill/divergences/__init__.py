"""Divergences between a teacher's and a student's categorical distributions.

Each function maps logits of shape `[..., classes]` to values of shape `[...]`,
computed in float32 from log-softmax, in nats. None of them reduces, masks or
weighs: `keras.losses.Loss` does that.

`temperature` is a positive number, a scalar tensor or variable, or a tensor
whose axes are the leading axes of the logits: `[batch]` or `[batch, length]`
for logits of shape `[batch, length, classes]`.
"""

from keras_distill.divergences._distributions import (
    align_temperature as align_temperature,
)
from keras_distill.divergences.adaptive import adaptive_kl as adaptive_kl
from keras_distill.divergences.kullback_leibler import binary_kl as binary_kl
from keras_distill.divergences.kullback_leibler import forward_kl as forward_kl
from keras_distill.divergences.kullback_leibler import (
    generalized_jsd as generalized_jsd,
)
from keras_distill.divergences.kullback_leibler import reverse_kl as reverse_kl
from keras_distill.divergences.kullback_leibler import (
    soft_cross_entropy as soft_cross_entropy,
)
from keras_distill.divergences.powers import alpha_beta as alpha_beta
from keras_distill.divergences.powers import total_variation as total_variation
from keras_distill.divergences.skewed import skew_kl as skew_kl
from keras_distill.divergences.skewed import skew_reverse_kl as skew_reverse_kl
