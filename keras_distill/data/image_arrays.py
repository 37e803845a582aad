"""Images that are arrays already: `.npz` files, TFDS, scikit-learn's digits."""

import zipfile
import zlib

import numpy as np

from keras_distill._text_files import shown_path
from keras_distill._text_files import some
from keras_distill.data.splits import UNLABELLED
from keras_distill.data.tfds_source import builder_of
from keras_distill.data.tfds_source import split_names

# What the parts are called in `.npz` files.
ENDINGS = {"train": ("train",), "dev": ("dev", "val"), "test": ("test",)}
CHANNELS = (1, 3)
# What numpy raises for a file that is damaged, or of one array, `.npy`.
BROKEN = (
    *(ValueError, OSError, EOFError, TypeError),
    *(zipfile.BadZipFile, zlib.error),
)


def from_digits():
    """Handwritten digits of scikit-learn, 1,797 of 8x8 pixels in 16 greys."""
    from sklearn.datasets import load_digits

    held = load_digits()
    images = np.round(held.images * (255 / 16)).astype("uint8")[..., None]
    return {"train": list(zip(images, map(str, held.target.tolist())))}


def from_arrays(path):
    """The images of an `.npz` file.

    Args:
        path: Path of a file with `x_train`, `y_train` and so on.

    Returns:
        Dict from the parts to lists of an image and its class, None for -1.

    Raises:
        ValueError: The file holds no such arrays.
    """
    try:
        with open(path, "rb") as file, np.load(file) as held:
            arrays = dict(held)
    except BROKEN as error:
        raise ValueError(
            "Arrays of images must be an .npz file, as `numpy.savez` writes "
            f"it, without objects. Received: {shown_path(path)} ({error})"
        ) from error
    rows = {}
    for part, endings in ENDINGS.items():
        ending = next((e for e in endings if f"x_{e}" in arrays), None)
        if ending is not None:
            rows[part] = _rows(arrays, ending, path)
    if "train" not in rows:
        raise ValueError(
            "Arrays of images must be x_train and y_train, and perhaps x_dev, "
            f"y_dev, x_test and y_test. Received: {some(sorted(arrays))} in "
            f"{shown_path(path)}"
        )
    return rows


def _rows(arrays, ending, path):
    images, labels = arrays[f"x_{ending}"], arrays.get(f"y_{ending}")
    where = f"in {shown_path(path)}"
    if images.ndim == 3:
        images = images[..., None]
    if (
        images.dtype != np.uint8
        or images.ndim != 4
        or images.shape[-1] not in CHANNELS
        or not images.size
    ):
        raise ValueError(
            "Images must be uint8, [rows, height, width] or [rows, height, "
            "width, channels] with 1 or 3 channels; multiply floats between 0 "
            f"and 1 by 255. Received: x_{ending} of shape {images.shape}, "
            f"dtype {images.dtype}, {where}"
        )
    if labels is None or labels.size != len(images):
        told = "none" if labels is None else f"shape {labels.shape}"
        raise ValueError(
            f"y_{ending} must hold one label for each image. Received: "
            f"{len(images):,} images, y_{ending} {told}, {where}"
        )
    labels = labels.reshape(-1)
    lowest = UNLABELLED if ending == "train" else 0
    if labels.dtype.kind not in "iu" or labels.min() < lowest:
        row = 0
        if labels.dtype.kind in "iu":
            row = int(np.argmax(labels.astype("int64") < lowest))
        raise ValueError(
            "Labels must be integers from 0 on; only in train -1 is an image "
            f"without a label. Received: y_{ending}[{row}]={labels[row]!r}, "
            f"dtype {labels.dtype}, {where}"
        )
    known = (None if x == UNLABELLED else str(x) for x in labels.tolist())
    return list(zip(images, known))


def is_image_set(name):
    """Whether tensorflow-datasets knows a set of images of this name."""
    try:
        return bool(_features(builder_of(name, ready=False))[0])
    except (ValueError, ConnectionError):
        return False


def from_tfds(name, data_dir=None):
    """The images of a tensorflow-datasets set.

    Args:
        name: String, `"NAME"` or `"NAME/CONFIG"`.
        data_dir: Path where prepared sets are kept, or None.

    Returns:
        Triple: as `from_arrays`, the names of the classes, and notes.

    Raises:
        ValueError: There is no such set, or it is none of images of one class.
        ConnectionError: It is not here and cannot be downloaded.
    """
    import tensorflow_datasets as tfds

    builder = builder_of(name, data_dir)
    images, classes = _features(builder)
    if len(images) != 1 or len(classes) != 1:
        raise ValueError(
            f"tfds:{name} must have one feature with images and one with "
            f"their class. Received: {sorted(builder.info.features)}"
        )
    (image,), (label,) = images, classes
    names = builder.info.features[label].names
    rows = {}
    for part, split in split_names(builder).items():
        held = tfds.as_numpy(builder.as_dataset(split=split))
        rows[part] = [
            (
                example[image],
                None if example[label] < 0 else names[example[label]],
            )
            for example in held
        ]
    return rows, names, ()


def _features(builder):
    """The names of the features with images, and of those with classes."""
    import tensorflow_datasets as tfds

    features = builder.info.features.items()
    return tuple(
        [key for key, feature in features if isinstance(feature, kind)]
        for kind in (tfds.features.Image, tfds.features.ClassLabel)
    )
