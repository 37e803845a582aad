"""A small residual network of images, as He et al. draw it for CIFAR."""

import dataclasses
import types

import keras
from keras import ops

from keras_distill import image_taps
from keras_distill._checks import check_integer
from keras_distill.students._inputs import check_dropout
from keras_distill.students._inputs import head
from keras_distill.students.base import WIDEST
from keras_distill.students.base import Student

# The stages before the states are averaged; each halves the image.
STAGES = 3
# Larger images are halved before, until they are no wider.
WIDEST_IMAGE = 64
STAGE = "stage{}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvNet(Student):
    """`conv_net` for any task on images.

    Args:
        width: Integer, channels of the first stage.
        depth: Integer, `6 n + 2` layers, with `n` blocks in each stage.

    Example:

    >>> ConvNet(width=32, depth=14).epochs
    30
    """

    width: int = 16
    depth: int = 8
    epochs: int = 30
    batch_size: int = 64
    learning_rate: float = 3e-3
    fewest_steps, most_epochs = 3000, 60

    title = "ConvNet"

    def __post_init__(self):
        super().__post_init__()
        check_integer("width", self.width, 1, WIDEST)
        _blocks(self.depth)

    def of_image(self, task, teacher):
        del teacher
        return conv_net(
            task.num_outputs, task.image_shape, self.width, self.depth
        )

    def hidden_states(self, model):
        return image_taps.feature_maps(model)

    def teacher_states(self, teacher):
        return image_taps.feature_maps(teacher)


def conv_net(
    num_classes,
    image_shape,
    width=16,
    depth=8,
    dropout=0.0,
    name="conv_net",
    dtype=None,
):
    """A residual network: three stages of blocks of two 3x3 convolutions.

    A functional `keras.Model` of stock layers: its `.keras` file loads without
    this package. It reads `images`, uint8 `[batch, height, width, channels]`
    from 0 to 255, and brings them to -1 to 1 itself. The stages have `width`,
    `2 width` and `4 width` channels, each half the size of the one before;
    images wider than 64 pixels are halved before the first.

    Args:
        num_classes: Integer, the number of logits.
        image_shape: Tuple of integers: height, width, channels.
        width: Integer, channels of the first stage.
        depth: Integer, `6 n + 2`: 8 has one block in each stage, 20 three.
        dropout: Float in `[0, 1)`, applied to the averaged features.
        name: String, the model's name.
        dtype: Dtype policy. Defaults to the global one.

    Returns:
        A `keras.Model` from images to logits `[batch, num_classes]`.

    Raises:
        ValueError: If a number is out of its range.

    Example:

    >>> student = conv_net(10, image_shape=(32, 32, 3))
    >>> student.count_params(), student.output_shape
    (78714, (None, 10))

    Reference:
        He et al., 2016, https://arxiv.org/abs/1512.03385, section 4.2, with
        1x1 convolutions where the shape changes (option B).
    """
    check_integer("num_classes", num_classes, minimum=1)
    check_integer("width", width, minimum=1)
    check_dropout(dropout)
    blocks = _blocks(depth)
    options = types.MappingProxyType({"dtype": dtype})
    images = keras.Input(image_shape, dtype="uint8", name="images")
    # The backends' images are wider or smaller integers elsewhere.
    x = keras.layers.Rescaling(1 / 127.5, -1.0, dtype=dtype, name="to_unit")(
        ops.cast(images, keras.config.floatx())
    )
    size, strides = max(image_shape[:2]), 1
    while size > WIDEST_IMAGE:
        size, strides = size / 2, 2 * strides
    x = _convolution(x, width, strides, "stem", options)
    x = keras.layers.ReLU(name="stem_relu", **options)(x)
    for stage in range(STAGES):
        for block in range(blocks):
            x = _block(
                x,
                width * 2**stage,
                2 if stage and not block else 1,
                f"{STAGE.format(stage + 1)}_block{block + 1}",
                options,
            )
    x = keras.layers.GlobalAveragePooling2D(name="pool", **options)(x)
    logits = head(x, num_classes, dropout, dtype)
    return keras.Model(images, logits, name=name)


def _blocks(depth):
    check_integer("depth", depth, 6 + 2, 6 * 200 + 2)
    if (depth - 2) % (2 * STAGES):
        raise ValueError(
            "`depth` must be 6 n + 2, such as 8, 14 or 20: three stages of n "
            f"blocks of two layers, and two layers more. Received: "
            f"depth={depth}"
        )
    return (depth - 2) // (2 * STAGES)


def _convolution(x, channels, strides, name, options, kernel=3):
    """A convolution and the normalisation of its batch, without a bias."""
    x = keras.layers.Conv2D(
        channels,
        kernel,
        strides,
        "same",
        use_bias=False,
        # Of rectified units, whose variance it keeps through the layers.
        kernel_initializer="he_normal",
        name=f"{name}_conv",
        **options,
    )(x)
    # Keras' own momentum of 0.99 would judge an epoch of few steps by the
    # statistics of its first ones.
    return keras.layers.BatchNormalization(
        momentum=0.9, name=f"{name}_norm", **options
    )(x)


def _block(x, channels, strides, name, options):
    shortcut = x
    if strides > 1:
        # The pixels that a strided convolution of one pixel reads, the gradient
        # of which writes past its memory in TensorFlow 2.21 where it has fewer
        # than 16 channels (oneDNN, processors with AVX-512).
        shortcut = keras.layers.AveragePooling2D(
            1, strides, padding="same", name=f"{name}_pixels", **options
        )(shortcut)
    if x.shape[-1] != channels:
        shortcut = _convolution(
            shortcut, channels, 1, f"{name}_shortcut", options, kernel=1
        )
    x = _convolution(x, channels, strides, f"{name}_1", options)
    x = keras.layers.ReLU(name=f"{name}_relu_1", **options)(x)
    x = _convolution(x, channels, 1, f"{name}_2", options)
    x = keras.layers.Add(name=f"{name}_add", **options)([x, shortcut])
    return keras.layers.ReLU(name=f"{name}_relu_2", **options)(x)
