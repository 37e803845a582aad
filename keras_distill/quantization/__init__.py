"""Students that learn under the rounding of the file that ships."""

from keras_distill.quantization.aware import (
    QuantizationAware as QuantizationAware,
)
