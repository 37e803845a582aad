"""Images with a class each: folders of classes, `.npz` files, TFDS."""

import os
import pathlib

import numpy as np

from keras_distill._text_files import file_mode
from keras_distill._text_files import shown_path
from keras_distill._text_files import some
from keras_distill.data.assembly import PARTS
from keras_distill.data.assembly import assemble
from keras_distill.data.image_arrays import from_arrays
from keras_distill.data.image_arrays import from_digits
from keras_distill.data.image_arrays import from_tfds
from keras_distill.data.image_arrays import is_image_set
from keras_distill.data.image_folders import class_folders
from keras_distill.data.image_folders import from_folder
from keras_distill.data.labelled import ImageDataset
from keras_distill.data.sources import named
from keras_distill.data.sources import names_file
from keras_distill.data.splits import Splits
from keras_distill.data.tables import read_names

DIGITS, ARRAYS, TFDS = "digits", ".npz", "tfds:"


class ImageSplits(Splits):
    """The train, dev and test parts of one set of images, a class for each.

    Args:
        train: `ImageDataset` to learn from.
        dev: `ImageDataset` to choose by.
        test: `ImageDataset` to report.
        label_names: As in `Splits`.
        notes: As in `Splits`.

    Raises:
        ValueError: As `Splits`; or the parts differ in their images' shape.

    Example:

    >>> import numpy as np
    >>> images = np.zeros((2, 8, 8, 3), "uint8")
    >>> part = ImageDataset(images, [1, 0])
    >>> ImageSplits(part, part, part, ["cat", "dog"]).image_shape
    (8, 8, 3)
    """

    noun = "image"

    def __post_init__(self):
        super().__post_init__()
        shapes = {part: getattr(self, part).images.shape[1:] for part in PARTS}
        if len(set(shapes.values())) > 1:
            raise ValueError(
                "Images of all parts must have one shape. Name a size to "
                f"bring them to. Received: {shapes}"
            )

    @property
    def image_shape(self):
        """Tuple: height, width, channels."""
        return self.train.images.shape[1:]

    @staticmethod
    def is_at(source):
        """Whether a source holds images."""
        if source == DIGITS:
            return True
        if source.startswith(TFDS):
            return is_image_set(source.removeprefix(TFDS))
        path = pathlib.Path(source)
        # `Path.is_dir` is False for names that no system can look up.
        return path.suffix == ARRAYS or (
            os.path.isdir(path) and bool(class_folders(path))
        )

    @staticmethod
    def dataset(items, labels):
        """`ImageDataset`."""
        return ImageDataset(np.stack(items), labels)

    @staticmethod
    def identity(item):
        """The image itself."""
        return item

    @staticmethod
    def told(item):
        """The size of an image."""
        return f"an image of {item.shape[0]}x{item.shape[1]}"


def load_images(source=DIGITS, size=None, channels=None):
    """Loads a labelled set of images.

    All of it is held in memory, a byte for each value. A part that is missing
    is taken from train, 10 % by the hash of the image; `notes` of the result
    says so. A file `labels.txt` beside an `.npz` names its integer labels.

    Args:
        source: `"digits"`, handwritten digits of 8x8 pixels out of
            scikit-learn; the path of a folder with a folder of images for each
            class, or with `train` and perhaps `dev` (or `val`) and `test` of
            such folders; the path of an `.npz` file with `x_train` and
            `y_train`, and perhaps `x_dev` (or `x_val`) and `x_test`, as uint8;
            or `"tfds:NAME"`.
        size: Pair of integers, height and width that images are brought to.
            None: as they are, and all the same.
        channels: Integer, 1 or 3. None: as they are; 3 of a folder.

    Returns:
        `ImageSplits`.

    Raises:
        FileNotFoundError: There is no such file or folder.
        ValueError: The data is not a labelled set of images, with file and
            row in the message.

    Example:

    >>> load_images().image_shape
    (8, 8, 1)
    """
    source = str(source)
    names, notes = None, ()
    if source == DIGITS:
        rows = from_digits()
    elif source.startswith(TFDS):
        rows, names, notes = from_tfds(source.removeprefix(TFDS))
    else:
        path = pathlib.Path(source)
        if file_mode(path) is None:
            raise FileNotFoundError(
                "Images must be 'digits', 'tfds:NAME', an .npz file, or a "
                "folder with a folder of images for each class. Received: "
                f"source={shown_path(path)}, which does not exist"
            )
        if path.is_dir():
            rows, notes = from_folder(path, size)
        else:
            rows = from_arrays(path)
            file = names_file(path)
            if file is not None:
                names = read_names(file)
                rows = named(rows, names, file)
    rows = {part: _fitted(held, size, channels) for part, held in rows.items()}
    return assemble(rows, None, names, notes, ImageSplits)


def _fitted(rows, size, channels):
    """Rows whose images have the size and the channels that are asked for."""
    if not rows:
        return rows
    images, labels = zip(*rows)
    shapes = sorted({image.shape for image in images})
    if len(shapes) > 1:
        if size is None or len({shape[-1] for shape in shapes}) > 1:
            raise ValueError(
                "Images must be of one size, or a size be given that they are "
                "brought to: `--image-size 64`. Received: images of the shapes "
                f"{some(shapes)}"
            )
        images = [_resized(image[None], size)[0] for image in images]
    images = np.stack(images)
    if size is not None and images.shape[1:3] != tuple(size):
        images = _resized(images, size)
    if channels is not None and images.shape[-1] != channels:
        images = _with_channels(images, channels)
    return list(zip(images, labels))


def _resized(images, size):
    import tensorflow as tf

    parts = [
        tf.image.resize(images[i : i + 256], size, antialias=True)
        for i in range(0, len(images), 256)
    ]
    return np.clip(np.rint(np.concatenate(parts)), 0, 255).astype("uint8")


def _with_channels(images, channels):
    import tensorflow as tf

    if {images.shape[-1], channels} != {1, 3}:
        raise ValueError(
            f"Images must have {channels} channels, as the teacher takes. "
            f"Received: images of {some(images.shape[1:])}"
        )
    convert = (
        tf.image.grayscale_to_rgb
        if channels == 3
        else tf.image.rgb_to_grayscale
    )
    return convert(tf.constant(images)).numpy()
