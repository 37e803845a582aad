"""Images: what is read and refused, augmentation, students, runs, files."""

import dataclasses
import json
import struct

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
import tiny_images
import variants

import keras_distill as kd
from keras_distill import data
from keras_distill import recipes
from keras_distill import students
from keras_distill._compiled import compile_reading
from keras_distill._errors import UsageError
from keras_distill.augment import images as augmenting
from keras_distill.cli import main
from keras_distill.data import image_arrays
from keras_distill.experiments import Preparation
from keras_distill.experiments import TeacherSource
from keras_distill.experiments import distilling
from keras_distill.experiments import engine
from keras_distill.experiments import signals
from keras_distill.experiments import training
from keras_distill.experiments.bench import Bench
from keras_distill.export.latency import LiteRTModel
from keras_distill.students import ConvNet
from keras_distill.tasks import ImageClassification
from keras_distill.tasks import image_models
from keras_distill.tasks import kept_texts
from keras_distill.tasks import linear_images

ONE = {"train": 30, "dev": 10, "test": 10}


@pytest.fixture(scope="module")
def task():
    return tiny_images.task()


@pytest.fixture(scope="module")
def teacher(task):
    return tiny_images.teacher(task)


# Reading.


def test_a_folder_of_class_folders(tmp_path):
    folder = tiny_images.write_folder(tmp_path / "set")
    found = data.load_images(folder)
    assert found.label_names == ["left", "top"]
    for seed, (part, rows) in enumerate(tiny_images.SIZES.items()):
        held = getattr(found, part)
        expected = tiny_images.part(rows, seed)
        # Files come class by class, by their names.
        order = np.lexsort((list(map(str, range(rows))), expected.labels))
        by_name = sorted(range(rows), key=lambda i: (i % 2, str(i)))
        assert len(order) == len(held) == rows
        np.testing.assert_array_equal(held.images, expected.images[by_name])
        np.testing.assert_array_equal(held.labels, expected.labels[by_name])


def test_classes_alone_are_split_by_the_images(tmp_path):
    folder = tiny_images.write_folder(tmp_path / "set", {"train": 60})
    first = data.load_images(folder / "train")
    assert {n.split(" part")[0] for n in first.notes} == {"No test", "No dev"}
    assert sum(map(len, (first.train, first.dev, first.test))) == 60
    again = data.load_images(folder)
    np.testing.assert_array_equal(first.test.images, again.test.images)


def test_hidden_folders_are_passed_over_and_loose_images_told(tmp_path):
    folder = tiny_images.write_folder(tmp_path / "set")
    expected = data.load_images(folder)
    train = folder / "train"
    image = next((train / "left").glob("*.png")).read_bytes()
    for place in (".thumbnails", "left/.ipynb_checkpoints", "."):
        (train / place).mkdir(exist_ok=True)
        (train / place / "further.png").write_bytes(image)
    found = data.load_images(folder)
    assert found.label_names == ["left", "top"]
    np.testing.assert_array_equal(found.train.images, expected.train.images)
    assert found.notes[0].startswith("1 images were left out")
    assert "further.png" in found.notes[0]


@pytest.mark.parametrize("called", ["training_set", "Test-Data", "val"])
def test_parts_of_other_names_are_no_classes(tmp_path, called):
    folder = tiny_images.write_folder(tmp_path / "set")
    (folder / "dev").rename(folder / "other")
    (folder / "test").rename(folder / "more")
    (folder / "train").rename(folder / called)
    with pytest.raises(ValueError, match=f"must be called.*{called}"):
        data.load_images(folder)


def test_parts_may_begin_with_a_capital(tmp_path):
    folder = tiny_images.write_folder(tmp_path / "set")
    expected = data.load_images(folder)
    for part in folder.iterdir():
        part.rename(folder / part.name.capitalize())
    found = data.load_images(folder)
    assert found.label_names == ["left", "top"]
    np.testing.assert_array_equal(found.test.images, expected.test.images)


def bitmap(palette, number=1):
    """A BMP of 8x8 pixels that are numbers of a colour."""
    colours = b"".join(bytes([*colour, 0]) for colour in palette)
    header = struct.pack(
        "<IiiHHIIiiII", 40, 8, 8, 1, 8, 0, 64, 0, 0, len(palette), 0
    )
    start = 14 + len(header) + len(colours)
    head = b"BM" + struct.pack("<IHHI", start + 64, 0, 0, start)
    return head + header + colours + bytes([number]) * 64


def test_bitmaps_of_a_palette_are_refused(tmp_path):
    """TensorFlow takes the numbers of their colours for greys."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for i in range(60):
            held = bitmap([(j, j, j) for j in range(256 - i)], i)
            (tmp_path / name / f"{i}.bmp").write_bytes(held)
    for channels in (None, 1, 3):
        held = data.load_images(tmp_path, channels=channels)
        parts = held.train, held.dev, held.test
        found = np.concatenate([part.images for part in parts])
        assert found.shape == (120, 8, 8, channels or 3)
        assert sorted(found[:, 0, 0, 0]) == sorted([*range(60)] * 2)
        assert (found == found[:, :1, :1, :1]).all()
    (tmp_path / "b" / "0.bmp").write_bytes(bitmap([(0, 0, 0), (0, 0, 255)]))
    with pytest.raises(ValueError, match="numbers of a palette.*0.bmp"):
        data.load_images(tmp_path)


def test_other_files_are_counted_not_read(tmp_path):
    folder = tiny_images.write_folder(tmp_path / "set")
    (folder / "train" / "left" / "Thumbs.db").write_bytes(b"x")
    (folder / "train" / "left" / ".DS_Store").write_bytes(b"x")
    (folder / "train" / "empty").mkdir()
    found = data.load_images(folder)
    assert len(found.train) == tiny_images.SIZES["train"]
    (note,) = found.notes
    assert note.startswith("1 files were left out")
    assert "Thumbs.db" in note


def test_grey_images_of_other_sizes_are_brought_together(tmp_path):
    folder = tiny_images.write_folder(tmp_path / "set")
    grey = tiny_images.images(1, shape=(20, 12, 1))[0]
    file = folder / "train" / "left" / "grey.png"
    file.write_bytes(tf.io.encode_png(grey).numpy())
    with pytest.raises(ValueError, match="--image-size 64.*8x8.*20x12"):
        data.load_images(folder)
    found = data.load_images(folder, size=(8, 8))
    (row,) = np.flatnonzero((found.train.images.std(axis=-1) == 0).all((1, 2)))
    expected = tf.image.resize(grey, (8, 8), antialias=True)
    expected = np.repeat(np.rint(expected), 3, axis=-1)
    np.testing.assert_array_equal(found.train.images[row], expected)
    assert data.load_images(folder, (8, 8), 1).image_shape == (8, 8, 1)


def test_arrays_with_names_of_classes(tmp_path):
    path = tiny_images.write_arrays(tmp_path / "set.npz")
    assert data.load_images(path).label_names == ["0", "1"]
    (tmp_path / "labels.txt").write_text("left\ntop\n")
    found = data.load_images(path)
    assert found.label_names == ["left", "top"]
    np.testing.assert_array_equal(found.dev.images, tiny_images.images(16, 1))
    np.testing.assert_array_equal(found.dev.labels, np.arange(16) % 2)


def test_arrays_without_channels_and_with_missing_labels(tmp_path):
    path = tmp_path / "set.npz"
    grey = tiny_images.images(60)[..., 0]
    labels = np.where(np.arange(60) < 50, np.arange(60) % 2, -1)
    np.savez(path, x_train=grey, y_train=labels[:, None], x_val=grey[:6],
             y_val=labels[:6])  # fmt: skip
    found = data.load_images(path)
    assert found.image_shape == (8, 8, 1)
    assert (found.train.labels == -1).sum() == 10
    told = f"10 of {len(found.train)} train images have no label"
    assert any(note.startswith(told) for note in found.notes)
    assert len(found.dev) == 6
    colours = data.load_images(path, channels=3)
    np.testing.assert_array_equal(
        colours.dev.images, np.repeat(found.dev.images, 3, axis=-1)
    )


def test_digits_are_there_without_a_network():
    found = data.load_images()
    assert found.image_shape == (8, 8, 1)
    assert found.label_names == [str(i) for i in range(10)]
    assert found.train.images.max() == 255
    parts = (found.train, found.dev, found.test)
    assert sum(map(len, parts)) == 1797


REFUSED = {
    "floats": ({"x_train": np.zeros((4, 8, 8, 3))}, "multiply floats.*float64"),
    "channels": ({"x_dev": np.zeros((2, 8, 8, 2), "uint8")}, "1 or 3 channels"),
    "labels missing": ({"y_test": np.zeros(3, int)}, "12 images, y_test shape"),
    "below": (
        {"y_dev": np.array([0, 1, -1] + [0] * 13)},
        r"y_dev\[2\]=.*-1",
    ),
    "names": ({"y_train": np.array(["a", "b"] * 24)}, "integers from 0"),
    "unknown class": (
        {"y_test": np.array([0, 1, 7] + [0] * 9)},
        "must occur in train.*'7' in row 3 of test, an image of 8x8",
    ),
    "one class": ({"y_train": np.zeros(48, int)}, "at least two classes"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_arrays(tmp_path, case):
    changes, message = REFUSED[case]
    path = tiny_images.write_arrays(tmp_path / "set.npz", **changes)
    with pytest.raises(ValueError, match=message):
        data.load_images(path)


@pytest.mark.parametrize("at", [80, 120, 200])
def test_damaged_arrays_that_were_packed(tmp_path, at):
    path = tmp_path / "a.npz"
    rng = np.random.default_rng(0)
    held = {"x_train": rng.integers(0, 9, (60, 8, 8)), "y_train": [0, 1] * 30}
    np.savez_compressed(path, **held)
    raw = bytearray(path.read_bytes())
    raw[at : at + 20] = b"x" * 20
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="must be an .npz file"):
        data.load_images(path)


def test_one_array_by_the_name_of_several(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros(3))
    (tmp_path / "a.npy").rename(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="must be an .npz file"):
        data.load_images(tmp_path / "a.npz")


def test_files_that_are_no_arrays(tmp_path):
    path = tmp_path / "set.npz"
    for content in (b"", b"PK\3\4 cut", b"text"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"must be an \.npz file"):
            data.load_images(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ValueError, match="x_train and y_train.*'a'"):
        data.load_images(path)
    with pytest.raises(FileNotFoundError, match="no.npz.*does not exist"):
        data.load_images(tmp_path / "no.npz")


def test_a_corrupt_image_is_named(tmp_path):
    folder = tiny_images.write_folder(tmp_path / "set")
    file = folder / "dev" / "top" / "3.png"
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(ValueError, match=r"dev/top/3\.png', 40 bytes"):
        data.load_images(folder)


def test_a_class_that_train_lacks_is_named(tmp_path):
    folder = tiny_images.write_folder(tmp_path / "set")
    (folder / "test" / "left").rename(folder / "test" / "lefft")
    with pytest.raises(ValueError, match="occur in train.*'lefft'. in .*test'"):
        data.load_images(folder)
    (folder / "val").mkdir()
    with pytest.raises(ValueError, match=r"one folder for dev.*'dev', 'val'"):
        data.load_images(folder)


def test_a_folder_without_images(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(ValueError, match="a folder for each class.*'a'"):
        data.load_images(tmp_path)
    assert not data.ImageSplits.is_at(str(tmp_path))


class TinyPictures(tfds.core.GeneratorBasedBuilder):
    """Images in tensorflow-datasets."""

    VERSION = tfds.core.Version("1.0.0")
    shape = tiny_images.SHAPE

    def _info(self):
        features = {
            "image": tfds.features.Image(shape=self.shape),
            "label": tfds.features.ClassLabel(names=tiny_images.LABELS),
        }
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features)
        )

    def _split_generators(self, dl_manager):
        del dl_manager
        return {"train": self._rows(40, 0), "test": self._rows(10, 1)}

    def _generate_examples(self):
        raise NotImplementedError

    def _rows(self, count, seed):
        for i, image in enumerate(tiny_images.images(count, seed)):
            yield i, {"image": image, "label": i % 2}


def test_images_of_tensorflow_datasets(tmp_path):
    tfds.builder("tiny_pictures", data_dir=tmp_path).download_and_prepare()
    rows, names, _ = image_arrays.from_tfds("tiny_pictures", tmp_path)
    assert names == tiny_images.LABELS
    assert {part: len(held) for part, held in rows.items()} == {
        "train": 40,
        "test": 10,
    }
    found = {image.tobytes(): label for image, label in rows["test"]}
    expected = {
        image.tobytes(): tiny_images.LABELS[i % 2]
        for i, image in enumerate(tiny_images.images(10, 1))
    }
    assert found == expected
    assert data.ImageSplits.is_at("tfds:tiny_pictures")
    assert not data.ImageSplits.is_at("tfds:imdb_reviews")


class TinyPhotos(TinyPictures):
    """Images of several sizes."""

    VERSION = tfds.core.Version("1.0.0")
    shape = (None, None, 3)

    def _rows(self, count, seed):
        for i in range(count):
            shape = (8 + i % 3, 8, 3)
            image = tiny_images.images(1, 10 * seed + i, shape)[0]
            yield i, {"image": image, "label": i % 2}


def test_photos_of_tensorflow_datasets(tmp_path, monkeypatch):
    tfds.builder("tiny_photos", data_dir=tmp_path).download_and_prepare()
    monkeypatch.setattr(image_arrays.from_tfds, "__defaults__", (tmp_path,))
    with pytest.raises(ValueError, match=r"--image-size 64.*\(9, 8, 3\)"):
        data.load_images("tfds:tiny_photos")
    found = data.load_images("tfds:tiny_photos", size=(8, 8))
    assert found.image_shape == (8, 8, 3)
    assert len(found.test) == 10


def test_wrong_parts():
    with pytest.raises(ValueError, match="must be a uint8 array"):
        data.ImageDataset(np.zeros((2, 8, 8, 3)), [0, 1])
    with pytest.raises(ValueError, match="one label for each of `images`"):
        data.ImageDataset(np.zeros((2, 8, 8, 3), "uint8"), [0])
    first, other = tiny_images.part(4), tiny_images.part(4, shape=(9, 8, 3))
    with pytest.raises(ValueError, match="one shape"):
        data.ImageSplits(first, other, first, tiny_images.LABELS)


# Augmentation.


@pytest.mark.parametrize("flip", [False, True])
def test_images_are_moved_and_mirrored(flip):
    images = tiny_images.images(300, shape=(6, 6, 2))
    augment = augmenting.ShiftAndFlip(shift=1, flip=flip)
    moved = augment({"images": images}, (1, 2))["images"].numpy()
    assert (moved.dtype, moved.shape) == ("uint8", images.shape)
    padded = np.pad(images, [(0, 0), (1, 1), (1, 1), (0, 0)])
    counts = {}
    for row, found in enumerate(moved):
        fits = [
            (down, right, mirrored)
            for down in range(3)
            for right in range(3)
            for mirrored in (False, True)
            if np.array_equal(
                found[:, ::-1] if mirrored else found,
                padded[row, down : down + 6, right : right + 6],
            )
        ]
        assert len(fits) == 1
        counts[fits[0]] = counts.get(fits[0], 0) + 1
    # Every way is taken, about as often.
    assert len(counts) == (18 if flip else 9)
    assert {mirrored for *_, mirrored in counts} == {False, flip}
    assert min(counts.values()) > 3
    again = augment({"images": images}, (1, 2))["images"].numpy()
    np.testing.assert_array_equal(moved, again)
    other = augment({"images": images}, (1, 3))["images"].numpy()
    assert (moved != other).any()


def test_batches_to_train_on_change_and_others_do_not(task):
    rows = task.encoded["train"]
    epochs = len(rows) // 8

    def seen(seed):
        held = training.batches(rows, 8, seed).take(2 * epochs)
        return [(x["images"].numpy(), y.numpy()) for x, y in held]

    first, again = seen(0), seen(0)
    for (x, y), (other, z) in zip(first, again):
        np.testing.assert_array_equal(x, other)
        np.testing.assert_array_equal(y, z)
    plain = {image.tobytes() for image in task.splits.train.images}
    for half in (first[:epochs], first[epochs:]):
        share = np.mean([i.tobytes() in plain for x, _ in half for i in x])
        # One of nine stays where it was.
        assert share < 0.5
    for x, _ in data.batches(rows, 8):
        assert all(image.tobytes() in plain for image in x["images"].numpy())


def test_rows_without_lengths_are_not_cut(task):
    rows = task.encoded["train"]
    with pytest.raises(ValueError, match="for rows that have lengths"):
        data.batches(rows, 8, lengths=[8])
    assert rows.width == 0
    few = rows.with_labels(np.where(np.arange(48) < 12, rows.labels, -1))
    mixed = data.batches(few, 8, shuffle=True, labelled_per_batch=2)
    for images, labels in mixed:
        assert images["images"].shape == (len(labels), *tiny_images.SHAPE)
        assert (labels.numpy() >= 0).sum() == 2
    both = few.followed_by(task.encoded["dev"])
    assert (len(both), both.lengths) == (64, None)
    assert (both.labels[48:] == -1).all()


def test_what_may_be_mirrored():
    digits = data.load_images()
    assert not linear_images.may_be_mirrored(digits)
    assert ImageClassification(digits).augmentation == "shift"
    # A class that is bright above is that in a mirror, too.
    rng = np.random.default_rng(0)

    def part(rows):
        images = rng.integers(0, 90, (rows, 8, 8, 1), dtype="uint8")
        images[::2, :4] += 90
        return data.ImageDataset(images, np.arange(rows) % 2)

    upright = data.ImageSplits(part(60), part(40), part(20), ["up", "down"])
    assert ImageClassification(upright).augmentation == "flip+shift"
    assert not linear_images.may_be_mirrored(tiny_images.splits())


def by_class(part):
    """The same rows, class by class, as folders hold them."""
    return part.take(np.argsort(part.labels, kind="stable"))


def test_the_order_of_rows_decides_nothing(monkeypatch):
    """What is asked of some rows is asked of all classes."""
    monkeypatch.setattr(linear_images, "ASKED_ROWS", 40)
    monkeypatch.setattr(linear_images, "FITTED_ROWS", 40)
    monkeypatch.setattr(image_models, "ASKED", 8)
    monkeypatch.setattr(image_models, "ERRORS", 0.5)
    rng = np.random.default_rng(0)

    def upright(rows):
        images = rng.integers(0, 90, (rows, 8, 8, 1), dtype="uint8")
        images[::2, :4] += 90
        return by_class(data.ImageDataset(images, np.arange(rows) % 2))

    parts = [upright(100), upright(60), upright(20)]
    assert linear_images.may_be_mirrored(data.ImageSplits(*parts, ["a", "b"]))
    held = tiny_images.splits()
    parts = [by_class(part) for part in (held.train, held.dev, held.test)]
    task = ImageClassification(data.ImageSplits(*parts, held.label_names))
    found = task.linear_model(task.labels(None, 0))
    assert task.score(found.logits, "test") > 0.9
    model = task.adapted(in_range(1 / 255, 0.0))
    logits = training.predict(model, task.encoded["test"])
    assert task.score({"test": logits}, "test") == 1.0
    few = kept_texts.few(task.splits, {"train": 10, "dev": 6, "test": 500})
    assert set(few.train.labels) == set(few.dev.labels) == {0, 1}
    assert (len(few.train), len(few.dev), len(few.test)) == (10, 6, 12)


def test_the_linear_model_learns(task):
    found = task.linear_model(task.labels(None, 0))
    assert task.score(found.logits, "test") > 0.9
    assert found.facts["parameters"] > 0
    assert found.facts["latency_ms"] > 0
    one = np.where(task.splits.train.labels == 1, 1, -1)
    assert task.linear_model(one) is None


# Students and teachers.


@pytest.mark.parametrize("shape", [(8, 8, 1), (33, 20, 3), (130, 130, 3)])
def test_conv_nets_read_bytes(shape):
    model = students.conv_net(5, shape, width=2, depth=8)
    images = tiny_images.images(3, shape=shape)
    logits = np.asarray(model(images))
    assert logits.shape == (3, 5)
    # A float image of the same values is the same one.
    np.testing.assert_allclose(
        np.asarray(model(images.astype("uint8"))), logits
    )
    sizes = [tap.layer.output.shape[1] for tap in kd.feature_maps(model)]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) >= 3


@pytest.mark.parametrize("depth", [8, 14, 20])
def test_depth_counts_layers(depth):
    model = students.conv_net(3, tiny_images.SHAPE, width=2, depth=depth)
    kinds = (keras.layers.Conv2D, keras.layers.Dense)
    layers = [layer for layer in model.layers if isinstance(layer, kinds)]
    # Two shortcuts change the shape.
    assert len(layers) == depth + 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"depth": 9}, "6 n \\+ 2"),
        ({"depth": 2}, "depth"),
        ({"width": 0}, "width"),
    ],
)
def test_wrong_sizes_of_conv_nets(change, message):
    with pytest.raises(ValueError, match=message):
        ConvNet(**change)


def test_students_of_texts_are_refused(task, teacher):
    with pytest.raises(ValueError, match="reads images.*--student conv_net"):
        students.TextCNN(width=4).build(task, teacher.model)


def test_conv_nets_are_for_images():
    import tiny_text

    texts = tiny_text.task()
    with pytest.raises(ValueError, match="reads texts.*text_cnn or bilstm"):
        tiny_images.SMALL.build(texts, None)


def plain_teacher(kind):
    """A model of float images, of an own name, of one class in any range."""
    layers = [
        keras.layers.Rescaling(1 / 255),
        keras.layers.Conv2D(4, 3, padding="same", activation="relu"),
        keras.layers.GlobalAveragePooling2D(),
        keras.layers.Dense(2),
    ]
    x = inputs = keras.Input(tiny_images.SHAPE, name="picture")
    model = keras.Sequential([inputs, *layers])
    if kind == "functional":
        for layer in layers:
            x = layer(x)
        model = keras.Model(inputs, x)
    layers[-1].bias.assign([5.0, -5.0])
    return model


@pytest.mark.parametrize("kind", ["Sequential", "functional"])
def test_any_model_of_images_is_taken(task, kind, tmp_path):
    model = plain_teacher(kind)
    images = task.splits.dev.images
    expected = model.predict(images.astype("float32"), verbose=0)
    adapted = task.adapted(model)
    found = training.predict(adapted, task.encoded["dev"])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    training.save(adapted, tmp_path / "x.keras", task)
    loaded = training.load(tmp_path / "x.keras")
    again = training.predict(task.adapted(loaded), task.encoded["dev"])
    np.testing.assert_array_equal(found, again)
    assert kd.feature_maps(adapted)[-1].layer.output.shape == (None, 8, 8, 4)


@pytest.mark.parametrize(
    ("scale", "offset"), [(1.0, 0.0), (1 / 255, 0.0), (1 / 127.5, -1.0)]
)
def test_the_range_that_a_model_was_trained_on_is_found(task, scale, offset):
    model = in_range(scale, offset)
    known = task.adapted(model)
    found = training.predict(known, task.encoded["test"])
    assert task.score({"test": found}, "test") == 1.0
    images = task.splits.test.images * scale + offset
    expected = model.predict(images.astype("float32"), verbose=0)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def in_range(scale, offset):
    """A model that knows the tiny images, brought to a range, and no others."""
    inputs = keras.Input(tiny_images.SHAPE)
    # Far from these values every image is of one class.
    x = keras.layers.Rescaling(1 / scale, -offset / scale)(inputs)
    left, top = x[:, :, :4], x[:, :4]
    means = [keras.ops.mean(half, axis=(1, 2, 3)) for half in (left, top)]
    bias = -1e-3 * keras.ops.square(keras.ops.mean(x, axis=(1, 2, 3)) - 90)
    logits = keras.ops.stack([means[0] + 9 * bias, means[1]], axis=-1)
    return keras.Model(inputs, logits)


def test_other_models_are_refused(task):
    class Subclassed(keras.Model):
        def call(self, x):
            return x

    with pytest.raises(ValueError, match="functional or Sequential"):
        task.adapted(Subclassed())
    flat = keras.Sequential([keras.Input((192,)), keras.layers.Dense(2)])
    with pytest.raises(ValueError, match=r"one input .*\(192,\)"):
        task.adapted(flat)
    with pytest.raises(ValueError, match="must give 2 logits.*left"):
        task.check_teacher(
            task.adapted(students.conv_net(3, tiny_images.SHAPE, 2))
        )


def test_a_saved_student_goes_on_from_its_weights(task, tmp_path):
    model = plain_teacher("functional")
    model.save(tmp_path / "student.keras")
    student = students.Saved(student_file=tmp_path / "student.keras")
    built = student.build(task, None)
    for ours, theirs in zip(built.get_weights(), model.get_weights()):
        np.testing.assert_array_equal(ours, theirs)
    students.conv_net(3, tiny_images.SHAPE, 2).save(tmp_path / "three.keras")
    wrong = students.Saved(student_file=tmp_path / "three.keras")
    with pytest.raises(ValueError, match="The student must give 2 logits"):
        wrong.build(task, None)
    for file in (None, tmp_path / "no.keras", tmp_path):
        with pytest.raises(ValueError, match=r"a \.keras file that exists"):
            students.Saved(student_file=file)


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A KerasHub image classifier of two classes, saved as a preset."""
    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[3],
        stackwise_num_filters=[64, 64],
        stackwise_num_blocks=[1, 1],
        stackwise_num_strides=[1, 2],
        block_type="basic_block",
        image_shape=(None, None, 3),
    )
    converter = keras_hub.layers.ResNetImageConverter(
        image_size=(16, 16), scale=1 / 127.5, offset=-1.0
    )
    layer = keras_hub.models.ResNetImageClassifierPreprocessor(converter)
    model = keras_hub.models.ResNetImageClassifier(
        backbone, num_classes=2, preprocessor=layer
    )
    folder = tmp_path_factory.mktemp("preset") / "resnet"
    model.save_to_preset(str(folder))
    return model, folder


def test_presets_bring_size_and_scale(task, preset):
    model, folder = preset
    found, knows = task.preset_teacher(str(folder))
    assert knows
    images = task.splits.dev.images
    expected = model.predict(images, verbose=0)
    logits = training.predict(found, task.encoded["dev"])
    np.testing.assert_allclose(logits, expected, rtol=1e-3, atol=1e-4)
    # The same from a .keras file, where the converter lies in the task.
    model.save(folder.parent / "task.keras")
    source = TeacherSource(str(folder.parent / "task.keras"))
    loaded, knows = source.build(task)
    assert knows
    again = training.predict(loaded, task.encoded["dev"])
    np.testing.assert_allclose(again, logits, rtol=1e-5, atol=1e-5)
    three = data.ImageSplits(
        *(task.splits.train, task.splits.dev, task.splits.test),
        label_names=["left", "top", "none"],
    )
    other = ImageClassification(three, "none")
    found, knows = other.preset_teacher(str(folder))
    assert not knows
    assert found.output_shape == (None, 3)


@pytest.mark.usefixtures("eager")
def test_a_network_of_one_tensor_takes_the_rows_without_a_warning(task):
    model = kd.students.conv_net(task.num_outputs, task.image_shape, width=4)
    before = model.get_weights()
    adapted = task.adapted(model)
    assert kd.experiments.fine_tune(adapted, task, 1, 1e-3, batch_size=16) == 1
    assert not np.array_equal(model.get_weights()[0], before[0])


# The teacher looks at what the student sees.


def cell(recipe, task, **sizes):
    student = dataclasses.replace(tiny_images.SMALL, **sizes)
    cells = distilling.cells(task, student, recipe, None, (0,))
    return next(c for c in cells if c.arm == "distilled").for_task(task)


@pytest.mark.large
@pytest.mark.parametrize(
    "name", variants.in_ci(["kd", "hidden", "attention"], "hidden")
)
def test_the_teacher_runs_on_augmented_images(task, teacher, name):
    wrong = {
        part: np.full_like(logits, 50.0 * (part == "train"))
        for part, logits in teacher.logits.items()
    }
    recipe = getattr(recipes, name)()
    weights = []
    # What it said of the images as they were is not read.
    for held in (teacher, dataclasses.replace(teacher, logits=wrong)):
        fitted = Bench(task, held).fit(cell(recipe, task))
        weights.append(fitted.student.get_weights())
    for first, second in zip(*weights):
        np.testing.assert_array_equal(first, second)


@pytest.mark.large
@pytest.mark.exhaustive
def test_what_it_says_of_augmented_images_is_kept_for_other_cells(
    task, teacher, monkeypatch
):
    asked = []

    def counting(answers, variables):
        compiled = compile_reading(answers, variables)

        def counted(inputs):
            asked.append(len(inputs["images"]))
            return compiled(inputs)

        return counted

    monkeypatch.setattr(signals, "compile_reading", counting)
    bench = Bench(task, teacher)
    sizes = {"epochs": 3, "batch_size": 10}  # The last batch has 8 rows.

    def trained(recipe, **changed):
        fitted = bench.fit(cell(recipe, task, **{**sizes, **changed}))
        return fitted.student.get_weights()

    kept = trained(recipes.kd())
    first = len(asked)
    assert first >= 15
    trained(recipes.mse())
    again = trained(recipes.kd())
    assert len(asked) <= first + 4  # Read ahead.
    for one, other in zip(kept, again):
        np.testing.assert_array_equal(one, other)
    assert len(set(asked)) == 2
    trained(recipes.kd(), batch_size=16)  # Other batches.
    assert len(asked) >= first + 9
    # More than may be kept: it runs in each step.
    before = len(asked)
    monkeypatch.setattr(signals, "MOST_KEPT", 15 * 10 * 2 - 1)
    trained(recipes.kd())
    assert len(asked) == before
    monkeypatch.setattr(signals, "MOST_KEPT", 15 * 10 * 2)
    trained(recipes.kd())
    assert len(asked) > before


def test_what_it_says_is_of_the_images_that_the_student_sees(task, teacher):
    of_two_epochs = cell(recipes.kd(), task, batch_size=10)
    asks = Bench(task, teacher).signals
    rows, signal = asks.rows(of_two_epochs.recipe, task.labels(None, 0))
    asked, kept = (
        asks.batches(of_two_epochs, rows, signal).take(10) for _ in "ab"
    )
    # Keras on JAX reads a batch, and begins anew.
    for batches in (asked, asked, kept, kept):
        seen = list(batches.as_numpy_iterator())
        for held, labels in seen:
            expected = teacher.model.predict(held["student"], verbose=0)
            said = held["teacher_signal"]["logits"]
            np.testing.assert_allclose(said, expected, 1e-4, 1e-4)
            assert len(labels) == len(said)
    whole = np.concatenate([held["student"]["images"] for held, _ in seen])
    assert len(np.unique(whole, axis=0)) > len(task.splits.train)


def test_a_teacher_may_answer_in_half_precision(task, teacher):
    model = teacher.model
    half = keras.layers.Activation("linear", dtype="bfloat16")(model.output)
    held = dataclasses.replace(teacher, model=keras.Model(model.input, half))
    once = cell(recipes.kd(), task)
    asks = Bench(task, held).signals
    rows, signal = asks.rows(once.recipe, task.labels(None, 0))
    batch = next(asks.batches(once, rows, signal).as_numpy_iterator())[0]
    expected = model.predict(batch["student"], verbose=0)
    found = batch["teacher_signal"]["logits"]
    assert found.dtype == "float32"
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=1e-3)


@pytest.mark.large
def test_without_augmentation_its_logits_are_enough():
    task = tiny_images.task("none")
    teacher = tiny_images.teacher(task)
    alone = dataclasses.replace(teacher, model=None)
    weights = [
        Bench(task, held).fit(cell(recipes.kd(), task)).student.get_weights()
        for held in (teacher, alone)
    ]
    for first, second in zip(*weights):
        np.testing.assert_array_equal(first, second)
    augmented = tiny_images.task()
    with pytest.raises(UsageError, match="augmented in each step.*None"):
        engine.check([cell(recipes.kd(), augmented)], augmented, None)


def test_another_augmentation_is_another_training(teacher):
    tasks = [tiny_images.task(name) for name in ("none", "shift", "flip+shift")]
    found = {
        json.dumps(Bench(task, teacher).made_with(cell(recipes.kd(), task)))
        for task in tasks
    }
    assert len(found) == 3


@pytest.mark.large
def test_feature_maps_of_other_sizes_are_matched(task):
    teacher = task.adapted(plain_teacher("functional"))
    model = tiny_images.SMALL.build(task, None)
    (match,) = recipes.hidden().matches(tiny_images.SMALL, teacher, model)
    assert match.student.layer.output.shape[1:3] == (2, 2)
    assert match.teacher.layer.output.shape[1:3] == (8, 8)
    held = tiny_images.teacher(task, teacher)
    fitted = Bench(task, held).fit(cell(recipes.hidden(), task))
    assert np.isfinite(fitted.curves["loss"]).all()


# Runs.


def test_a_task_that_was_kept_is_the_same(tmp_path, monkeypatch):
    path = tiny_images.write_arrays(tmp_path / "set.npz")
    chosen = Preparation(data=path)
    assert chosen.task == "images"
    (tmp_path / "run" / "data").mkdir(parents=True)
    first = ImageClassification.made_for(
        ImageClassification.read_for(chosen), chosen, tmp_path / "run"
    )

    def asked_again(splits):
        raise AssertionError

    monkeypatch.setattr(linear_images, "may_be_mirrored", asked_again)
    facts = json.loads(json.dumps(first.facts()))
    again = ImageClassification.restored_for(chosen, tmp_path / "run", facts)
    assert again.hashes() == first.hashes()
    assert again.facts() == first.facts()
    for part in ("train", "dev", "test"):
        held = again.encoded[part].inputs["images"]
        assert held.dtype == "uint8"
        np.testing.assert_array_equal(
            held, first.encoded[part].inputs["images"]
        )


def test_copies_in_test_are_told():
    train = tiny_images.part(20)
    test = data.ImageDataset(
        np.concatenate([train.images[:3], tiny_images.images(4, 5)]),
        [0, 1, 0, 0, 1, 0, 1],
    )
    splits = data.ImageSplits(train, train, test, tiny_images.LABELS)
    (note,) = ImageClassification(splits, "none").notes
    assert note == "3 of 7 test images are in train, too."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"image_size": 2}, "at least 4"),
        ({"augmentation": "turn"}, "augmentation"),
        ({"sequence_length": 8}, "`--sequence-length` is not for `--task im"),
        ({"transfer": "augment:2"}, "`--transfer` is not for `--task images`"),
        ({"text_column": "a"}, "`--text-column` is not for"),
    ],
)
def test_refused_options(change, message):
    with pytest.raises(UsageError, match=message):
        Preparation(data="digits", **change)


def test_options_of_images_are_not_for_texts():
    for change in ({"image_size": 8}, {"augmentation": "none"}):
        with pytest.raises(UsageError, match="is not for `--task text`"):
            Preparation(data="docstrings", **change)


def test_digits_are_the_default_of_images():
    chosen = Preparation(task="images")
    assert (chosen.data, chosen.transfer) == ("digits", None)
    assert "sequence_length" not in chosen.settings()
    assert "image_size" not in Preparation().settings()


def test_caches_are_for_images_as_they_are(tmp_path, capsys):
    arguments = ["cache", "--data", "digits", "--output", str(tmp_path / "run")]
    assert main(arguments) == 2
    assert "--augmentation none" in capsys.readouterr().err


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_from_a_folder_to_files(tmp_path, capsys):
    folder = tiny_images.write_folder(tmp_path / "set")
    tiny_images.network().save(tmp_path / "teacher.keras")
    arguments = [
        *("distill", "--data", str(folder), "--keep-weak-teacher"),
        *("--teacher", str(tmp_path / "teacher.keras")),
        *("--width", "4", "--epochs", "2", "--output", str(tmp_path / "run")),
    ]
    assert main(arguments) == 0
    report = json.loads((tmp_path / "run/report.json").read_text())
    assert report["task"]["noun"] == "image"
    assert report["settings"]["student"] == "conv_net"
    assert report["settings"]["image_size"] == "8x8"
    exported = report["exported"]
    files = {m["name"]: m["files"] for m in report["models"]}[exported]
    assert set(files) == {"float32", "int8", "SavedModel"}
    assert all("refused" not in file for file in files.values())
    export = tmp_path / "run" / "export"
    file = LiteRTModel(export / files["float32"]["path"])
    (spec,) = file.inputs.values()
    assert spec["dtype"] == np.uint8
    images = data.load_images(folder).test.images
    (logits,) = file.predict({"images": images}).values()
    serve = tf.saved_model.load(str(export / files["SavedModel"]["path"]))
    served = serve.signatures["serving_default"](images=tf.constant(images))
    np.testing.assert_allclose(logits, served["logits"], rtol=1e-3, atol=1e-3)
    card = (export / "README.md").read_text()
    assert "pipeline_tag: image-classification" in card
    assert "images of 8x8 pixels and 3 channels" in card
    # The same command goes on, and has nothing to do.
    capsys.readouterr()
    assert main(arguments) == 0
    assert "epoch 1" not in capsys.readouterr().out


@pytest.mark.large
@pytest.mark.usefixtures("eager")
def test_commands_take_images(tmp_path):
    folder = tiny_images.write_folder(tmp_path / "set")
    tiny_images.network(seed=1).save(tmp_path / "student.keras")
    shared = ["--data", str(folder), "--smoke"]
    compared = [
        *("compare", *shared, "--student", "conv_net", "saved"),
        *("--student-file", str(tmp_path / "student.keras")),
        *("--arms", "hard", "mse", "kd", "hidden", "attention"),
        *("--labels", "20", "--output", str(tmp_path / "compared")),
    ]
    # A model of one's own says nothing of its states.
    assert main(compared) == 2
    at = compared.index("hidden")
    assert main([*compared[:at], "kd+transfer", *compared[at + 2 :]]) == 0
    report = json.loads((tmp_path / "compared/report.json").read_text())
    assert len(report["rows"]) == 8
    cached = ["cache", *shared, "--augmentation", "none"]
    assert main([*cached, "--output", str(tmp_path / "cached")]) == 0
