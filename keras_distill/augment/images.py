"""Images moved and mirrored: other ones of the same class."""

import dataclasses

import tensorflow as tf

# 4 of 32 pixels, as He et al. (2016, section 4.2) pad CIFAR's images.
SHARE = 8


@dataclasses.dataclass(frozen=True)
class ShiftAndFlip:
    """Moves each image of a batch by some pixels, and mirrors half of them.

    What moves in at an edge is black, 0, as with padded crops.

    Args:
        shift: Integer, the most pixels up, down, left or right.
        flip: Boolean. Whether left and right change places.

    Example:

    >>> import numpy as np
    >>> images = np.arange(4, dtype="uint8").reshape(1, 1, 4, 1)
    >>> moved = ShiftAndFlip(shift=0, flip=True)({"images": images}, (0, 0))
    >>> moved["images"][0, 0, :, 0].numpy().tolist() in ([0, 1, 2, 3],
    ...     [3, 2, 1, 0])
    True

    Reference:
        He et al., 2016, https://arxiv.org/abs/1512.03385, section 4.2.
    """

    shift: int
    flip: bool

    def __call__(self, inputs, seed):
        """The inputs with other images.

        Args:
            inputs: Dict with `images`, `[batch, height, width, channels]`.
            seed: int64 tensor `[2]`: the same one moves alike.

        Returns:
            Dict of tensors of the same shapes and dtypes.
        """
        images = tf.convert_to_tensor(inputs["images"])
        shape, seed = images.shape, tf.convert_to_tensor(seed, "int64")
        rows, height, width = tf.unstack(tf.shape(images)[:3])
        draws = tf.random.stateless_uniform(
            (3, rows), seed, maxval=2 * self.shift + 1, dtype=tf.int32
        )
        edge = (self.shift, self.shift)
        images = tf.pad(images, [(0, 0), edge, edge, (0, 0)])
        down = draws[0][:, None] + tf.range(height)
        right = draws[1][:, None] + tf.range(width)
        if self.flip:
            mirrored = tf.random.stateless_uniform((rows, 1), seed + 1) < 0.5
            right = tf.where(mirrored, right[:, ::-1], right)
        images = tf.gather(images, down, axis=1, batch_dims=1)
        images = tf.gather(images, right, axis=2, batch_dims=1)
        return {**inputs, "images": tf.ensure_shape(images, shape)}


def of_name(name, image_shape):
    """What a name means for images of a shape.

    Args:
        name: String, one of `_kinds.AUGMENTATIONS`.
        image_shape: Tuple: height, width, channels.

    Returns:
        `ShiftAndFlip`, or None for `"none"`.
    """
    if name == "none":
        return None
    shift = max(1, min(image_shape[:2]) // SHARE)
    return ShiftAndFlip(shift, flip=name.startswith("flip"))
