"""Folders of class folders: which images are there, and what they hold."""

import os

from keras_distill._text_files import shown_path
from keras_distill._text_files import some

# What the parts of a set may be called.
FOLDERS = {
    "train": ("train", "training"),
    "dev": ("dev", "val", "valid", "validation"),
    "test": ("test", "testing"),
}
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif")
COLOURS = 3


def class_folders(path):
    """The folders of classes that a folder holds for train, sorted.

    Args:
        path: Path of a folder.

    Returns:
        List of paths; empty where no folder holds images.
    """
    train = part_folders(path).get("train", path)
    return [p for p in sorted(train.iterdir()) if _holds_images(p)]


def _holds_images(folder):
    """Whether there is an image right in a folder that can be looked into."""
    try:
        return any(
            p.suffix.lower() in SUFFIXES and not p.name.startswith(".")
            for p in folder.iterdir()
        )
    except OSError:
        return False


def part_folders(path):
    """Dict from the parts to their folders; empty where train has none.

    Raises:
        ValueError: There are two folders for one part.
    """
    found = {}
    for part, names in FOLDERS.items():
        held = [path / name for name in names if (path / name).is_dir()]
        if len(held) > 1:
            raise ValueError(
                f"A folder of images must hold one folder for {part}. "
                f"Received: {[p.name for p in held]} in {shown_path(path)}"
            )
        if held:
            found[part] = held[0]
    return found if "train" in found else {}


def from_folder(path, size=None, channels=None):
    """The images of a folder.

    Args:
        path: Path of a folder.
        size: Pair of integers, or None: all must be of one size.
        channels: Integer, or None: colours.

    Returns:
        Pair of a dict from the parts to lists of an image and its class, and
        notes, sentences.

    Raises:
        ValueError: There are no images, one cannot be read, they differ in
            size, or a class is not in train.
    """
    parts = part_folders(path) or {"train": path}
    rows, left_out, first, known = {}, [], None, None
    for part, folder in parts.items():
        classes = sorted(p for p in folder.iterdir() if p.is_dir())
        files, labels = [], []
        for held in classes:
            found, others = _files(held)
            left_out += others
            files += found
            labels += [held.name] * len(found)
        if not files:
            raise ValueError(
                "A folder of images must hold a folder for each class, with "
                f"images ({', '.join(SUFFIXES)}). Received: "
                f"{shown_path(folder)} with {some(sorted(os.listdir(folder)))}"
            )
        known = known or set(labels)
        unknown = sorted(set(labels) - known)
        if unknown:
            raise ValueError(
                f"Classes of {part} must occur in train: "
                f"{some(sorted(known))}. Received: {some(unknown)} in "
                f"{shown_path(folder)}. Rename the folder, or move images of "
                "that class into train"
            )
        images = list(_decoded(files, size, channels or COLOURS))
        first = first or (files[0], images[0].shape)
        _check_sizes(files, images, first)
        rows[part] = list(zip(images, labels))
    notes = []
    if left_out:
        notes.append(
            f"{len(left_out):,} files were left out, which are no images: "
            f"{some(sorted({file.name for file in left_out}))}"
        )
    return rows, notes


def _files(folder):
    """The images below a folder and the other files that are not hidden."""
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.is_file() and not file.name.startswith(".")
    )
    images = [file for file in files if file.suffix.lower() in SUFFIXES]
    return images, [f for f in files if f.suffix.lower() not in SUFFIXES]


def _decoded(files, size, channels):
    """Yields the images of files, uint8 arrays."""
    import tensorflow as tf

    def decode(path):
        image = tf.io.decode_image(
            tf.io.read_file(path), channels, expand_animations=False
        )
        if size is None:
            return image
        image = tf.image.resize(image, size, antialias=True)
        return tf.saturate_cast(tf.round(image), "uint8")

    paths = tf.data.Dataset.from_tensor_slices([str(file) for file in files])
    images = paths.map(decode, tf.data.AUTOTUNE).as_numpy_iterator()
    for file in files:
        try:
            image = next(images)
        except tf.errors.OpError as error:
            raise ValueError(
                "An image must be a PNG, JPEG, BMP or GIF file that is whole. "
                f"Received: {shown_path(file)}, {file.stat().st_size:,} bytes, "
                "which cannot be decoded. Remove the file, or put it there "
                "anew"
            ) from error
        yield image


def _check_sizes(files, images, first):
    path, shape = first
    for file, image in zip(files, images):
        if image.shape != shape:
            raise ValueError(
                "Images must be of one size, or a size be given that they are "
                "brought to: `--image-size 64`. Received: "
                f"{shown_path(path)} of {shape[0]}x{shape[1]} and "
                f"{shown_path(file)} of {image.shape[0]}x{image.shape[1]}"
            )
