"""Images of two classes that where they are bright tells apart."""

import keras
import numpy as np
import tensorflow as tf

from keras_distill import data
from keras_distill import students
from keras_distill.experiments.teaching import Teacher
from keras_distill.tasks import ImageClassification

LABELS = ["left", "top"]
SIZES = {"train": 48, "dev": 16, "test": 12}
SHAPE = (8, 8, 3)
SMALL = students.ConvNet(width=4, epochs=1, batch_size=8)


def images(count, seed=0, shape=SHAPE):
    """Noise, in which the left or the upper half is brighter by turns."""
    rng = np.random.default_rng(seed)
    found = rng.integers(0, 90, (count, *shape), dtype="uint8")
    found[::2, :, : shape[1] // 2] += 90
    found[1::2, : shape[0] // 2] += 90
    return found


def part(count, seed=0, shape=SHAPE):
    return data.ImageDataset(images(count, seed, shape), np.arange(count) % 2)


def splits(shape=SHAPE):
    parts = {
        name: part(rows, i, shape)
        for i, (name, rows) in enumerate(SIZES.items())
    }
    return data.ImageSplits(**parts, label_names=LABELS)


def task(augmentation="shift", shape=SHAPE):
    return ImageClassification(splits(shape), augmentation, name="tiny")


def network(width=4, seed=3, shape=SHAPE):
    keras.utils.set_random_seed(seed)
    return students.conv_net(2, shape, width)


def teacher(task, model=None):
    """A `Teacher` of the task, of a network of the seed 3 by default."""
    return Teacher.of(task, task.adapted(model or network()))


def write_folder(folder, sizes=SIZES, shape=SHAPE):
    """A folder with the parts as folders of classes of PNG files."""
    for seed, (name, rows) in enumerate(sizes.items()):
        for i, image in enumerate(images(rows, seed, shape)):
            path = folder / name / LABELS[i % 2] / f"{i}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tf.io.encode_png(image).numpy())
    return folder


def write_arrays(path, sizes=SIZES, **changes):
    """An `.npz` file with the parts."""
    arrays = {}
    for seed, (name, rows) in enumerate(sizes.items()):
        arrays[f"x_{name}"] = images(rows, seed)
        arrays[f"y_{name}"] = np.arange(rows) % 2
    np.savez(path, **(arrays | changes))
    return path
