"""Folders of class folders: which images are there, and what they hold."""

import itertools
import os
import re
import struct

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
PART = re.compile(
    f"({'|'.join(itertools.chain(*FOLDERS.values()))})"
    "([ _-]?(set|data|images|split))?"
)


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
        return any(map(_is_image, folder.iterdir()))
    except OSError:
        return False


def part_folders(path):
    """Dict from the parts to their folders; empty where train has none.

    Raises:
        ValueError: There are two folders for one part.
    """
    found = {}
    folders = _shown_folders(path)
    for part, names in FOLDERS.items():
        held = [p for p in folders if p.name.lower() in names]
        if len(held) > 1:
            raise ValueError(
                f"A folder of images must hold one folder for {part}. "
                f"Received: {[p.name for p in held]} in {shown_path(path)}"
            )
        if held:
            found[part] = held[0]
    return found if "train" in found else {}


def _shown_folders(path):
    return sorted(
        p for p in path.iterdir() if p.is_dir() and not p.name.startswith(".")
    )


def _check_names(path):
    """Raises `ValueError` for parts that are called otherwise."""
    parts = [p.name for p in _shown_folders(path) if _is_like_a_part(p)]
    if parts:
        raise ValueError(
            "Folders of the parts must be called train, and perhaps dev (val) "
            f"and test. Received: {some(parts)} in {shown_path(path)}. Rename "
            "them"
        )


def _is_like_a_part(folder):
    """Whether the name of a folder of folders is that of a part."""
    return PART.fullmatch(folder.name.lower()) and not _holds_images(folder)


def from_folder(path, size=None):
    """The images of a folder, as colours.

    Args:
        path: Path of a folder.
        size: Pair of integers, or None: all must be of one size.

    Returns:
        Pair of a dict from the parts to lists of an image and its class, and
        notes, sentences.

    Raises:
        ValueError: There are no images, one cannot be read, they differ in
            size, or a class is not in train.
    """
    parts = part_folders(path)
    if not parts:
        _check_names(path)
        parts = {"train": path}
    rows, left_out, loose, first, known = {}, [], [], None, None
    for part, folder in parts.items():
        files, labels = [], []
        loose += [p for p in folder.iterdir() if _is_image(p)]
        for held in _shown_folders(folder):
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
        images = list(_decoded(files, size))
        first = first or (files[0], images[0].shape)
        _check_sizes(files, images, first)
        rows[part] = list(zip(images, labels))
    notes = []
    if left_out:
        notes.append(
            f"{len(left_out):,} files were left out, which are no images: "
            f"{some(sorted({file.name for file in left_out}))}"
        )
    if loose:
        notes.append(
            f"{len(loose):,} images were left out, which are in no folder of "
            f"a class: {some(sorted({file.name for file in loose}))}"
        )
    return rows, notes


def _is_image(path):
    shown = not path.name.startswith(".")
    return path.suffix.lower() in SUFFIXES and shown and path.is_file()


def _files(folder):
    """The images below a folder and the other files that are not hidden."""
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.is_file()
        and not any(
            name.startswith(".") for name in file.relative_to(folder).parts
        )
    )
    images = [file for file in files if file.suffix.lower() in SUFFIXES]
    return images, [f for f in files if f.suffix.lower() not in SUFFIXES]


def _check_palette(file):
    """Raises `ValueError` for a BMP of colours of a palette.

    TensorFlow takes the numbers of the colours for shades of grey, which they
    are in a palette of greys alone.
    """
    with open(file, "rb") as held:
        head = held.read(54)
        if head[:2] != b"BM" or len(head) < 54:
            return
        (size,), (bits,) = struct.unpack("<I", head[14:18]), head[28:29]
        held.seek(14 + size)
        count = struct.unpack("<I", head[46:50])[0] or 2**bits
        colours = held.read(4 * count) if bits <= 8 else b""
    if any(
        {*colours[4 * i : 4 * i + 3]} != {i} for i in range(len(colours) // 4)
    ):
        raise ValueError(
            "A BMP file must hold its colours, no numbers of a palette. "
            f"Received: {shown_path(file)}. Save it as PNG"
        )


def _decoded(files, size):
    """Yields the images of files, uint8 arrays."""
    import tensorflow as tf

    def decode(path):
        image = tf.io.decode_image(
            tf.io.read_file(path), COLOURS, expand_animations=False
        )
        if size is None:
            return image
        image = tf.image.resize(image, size, antialias=True)
        return tf.saturate_cast(tf.round(image), "uint8")

    for file in files:
        if file.suffix.lower() == ".bmp":
            _check_palette(file)
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
