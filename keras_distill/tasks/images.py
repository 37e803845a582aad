"""Image classification: an image in, one class out."""

import dataclasses
import pathlib

import keras_hub
import numpy as np

from keras_distill import _files
from keras_distill import data
from keras_distill import students
from keras_distill.augment import images as augmenting
from keras_distill.tasks import image_models
from keras_distill.tasks import presets
from keras_distill.tasks.base import PARTS
from keras_distill.tasks.classes import ClassTask
from keras_distill.tasks.image_models import INPUT
from keras_distill.tasks.kept_texts import few

IMAGES = pathlib.Path("data") / "images.npz"
NAMES = pathlib.Path("data") / "images.json"
AUTO = "auto"
SMOKE_ROWS = {"train": 120, "dev": 40, "test": 40}
# Channels and layers of the teacher from scratch.
EMBEDDED, SMOKE = (32, 20), (4, 8)


class ImageClassification(ClassTask):
    """One of several classes for each image; cross-entropy, accuracy.

    Train images are moved and, where that changes no class, mirrored anew in
    each step. The teacher then looks at what the student sees, so that it runs
    in each step; with `augmentation="none"` its logits are kept.

    Args:
        splits: `data.ImageSplits`.
        augmentation: String: `"none"`, `"shift"`, by up to an eighth of the
            image, `"flip+shift"`, or `"auto"`: with flips where a linear model
            knows mirrored images of dev as well.
        **details: `name` and `notes`, as of `Task`.

    Example:

    >>> import keras_distill as kd
    >>> task = ImageClassification(kd.data.load_images("digits"))
    >>> task.augmentation, task.image_shape
    ('shift', (8, 8, 1))
    """

    splits_kind = data.ImageSplits
    files = (IMAGES, NAMES)
    options = decides = ("image_size", "augmentation")
    reading = ("image_size",)
    noun, student = "image", "conv_net"
    cut_learning_rate = 1e-3
    pipeline_tag = "image-classification"

    def __init__(self, splits, augmentation=AUTO, **details):
        if augmentation == AUTO:
            # Not before: `--help` and tasks of one's own need no scikit-learn.
            from keras_distill.tasks import linear_images

            flips = linear_images.may_be_mirrored(splits)
            augmentation = "flip+shift" if flips else "shift"
        self.augmentation = augmentation
        encoded = {
            part: data.EncodedDataset(
                {INPUT: getattr(splits, part).images},
                getattr(splits, part).labels,
            )
            for part in PARTS
        }
        augment = augmenting.of_name(augmentation, splits.image_shape)
        encoded["train"] = dataclasses.replace(
            encoded["train"], augment=augment
        )
        super().__init__(splits, encoded, **details)
        self.notes += self.notes_on(self.facts())

    @classmethod
    def read_for(cls, chosen):
        """`data.ImageSplits`, of the size that a `.keras` teacher takes."""
        size, channels = None, None
        if chosen.image_size != AUTO:
            size = (chosen.image_size, chosen.image_size)
        if chosen.source.saved is not None:
            height, width, channels = image_models.input_shape(
                chosen.source.saved
            )
            if size is not None and (height, width) not in (
                size,
                (None, None),
            ):
                raise ValueError(
                    "`image_size` must be the one that the teacher takes, "
                    f"{height}x{width}. Received: image_size="
                    f"{chosen.image_size}"
                )
            if height is not None:
                size = height, width
        splits = data.load_images(chosen.data, size, channels)
        return few(splits, SMOKE_ROWS) if chosen.smoke else splits

    @classmethod
    def made_for(cls, splits, chosen, folder):
        """The task, kept in a folder."""
        task = cls(splits, chosen.augmentation)
        arrays = {
            f"{kind}_{part}": getattr(getattr(splits, part), name)
            for part in PARTS
            for kind, name in (("x", "images"), ("y", "labels"))
        }
        # Not packed: images hardly shrink, and are read for every phase.
        with _files.complete_file(folder / IMAGES) as draft:
            np.savez(draft, **arrays)
        held = {"label_names": splits.label_names, "notes": splits.notes}
        _files.write_json(folder / NAMES, held)
        return task

    @classmethod
    def restored_for(cls, chosen, folder, facts):
        """What `made_for` has kept."""
        held = _files.read_json(folder / NAMES)
        with np.load(folder / IMAGES) as arrays:
            parts = {
                part: data.ImageDataset(
                    arrays[f"x_{part}"], arrays[f"y_{part}"]
                )
                for part in PARTS
            }
        splits = data.ImageSplits(
            **parts,
            label_names=held["label_names"],
            notes=tuple(held["notes"]),
        )
        return cls(splits, facts["augmentation"], name=chosen.name())

    @classmethod
    def decided(cls, facts):
        """What is done to train images, and their size."""
        height, width, _ = facts["image_shape"]
        return {
            "augmentation": facts["augmentation"],
            "image_size": f"{height}x{width}",
        }

    def facts(self):
        """Dict that JSON can hold: rows, classes, notes, sizes, copies."""
        return {
            **super().facts(),
            "image_shape": list(self.image_shape),
            "augmentation": self.augmentation,
            "test_images_in_train": self._copies(),
        }

    def _copies(self):
        train = {image.tobytes() for image in self.splits.train.images}
        return sum(
            image.tobytes() in train for image in self.splits.test.images
        )

    @classmethod
    def summary(cls, facts):
        """One line on `facts`."""
        height, width, channels = facts["image_shape"]
        return (
            f"{super().summary(facts)}; {height}x{width} pixels, {channels} "
            f"channel{'s' if channels > 1 else ''}; "
            f"augmentation {facts['augmentation']}"
        )

    @staticmethod
    def notes_on(facts):
        """Sentences on images that are in train and test, if any."""
        copies = facts["test_images_in_train"]
        if not copies:
            return ()
        return (
            f"{copies:,} of {facts['rows']['test']:,} test images are in "
            "train, too.",
        )

    @property
    def image_shape(self):
        """Tuple: height, width, channels."""
        return self.splits.image_shape

    def one_row(self):
        """With its pixels."""
        return f"one image of {self._pixels()}"

    def _pixels(self):
        height, width, channels = self.image_shape
        return f"{height}x{width} pixels and {channels} channels"

    def reads(self):
        """What size images must have."""
        return (
            f"It takes images of {self._pixels()}, uint8 from 0 to 255; others "
            "must be brought to that."
        )

    def adapted(self, model, preprocessor=None):
        """A model of the user's as one of the input `images`, uint8.

        As `image_models.adapted`.
        """
        model = super().adapted(model)
        return image_models.adapted(model, self.splits, preprocessor)

    def student_model(self, student, teacher):
        """The model of a `students.Student` for images."""
        return self.adapted(student.of_image(self, teacher))

    def embedded_teacher(self, smoke=False):
        """A residual network from scratch; needs no network."""
        width, depth = SMOKE if smoke else EMBEDDED
        return self.adapted(
            students.conv_net(
                self.num_outputs,
                self.image_shape,
                width,
                depth,
                name="embedded_teacher",
            )
        )

    def preset_teacher(self, preset):
        """A KerasHub image classifier, and whether it knows these classes.

        Args:
            preset: String, a preset's name or folder.
        """
        kind = keras_hub.models.ImageClassifier
        model, knows = presets.classifier(kind, preset, self.num_outputs)
        converter = keras_hub.layers.ImageConverter.from_preset(preset)
        model = image_models.converted(model, self.image_shape, converter)
        return model, knows

    @staticmethod
    def preset_names():
        """The names of the presets that could be teachers."""
        return {
            *keras_hub.models.Backbone.presets,
            *keras_hub.models.ImageClassifier.presets,
        }

    def linear_model(self, labels):
        """Principal components with logistic regression."""
        from keras_distill.tasks import linear_images

        known = labels[data.has_label(labels)]
        if len(np.unique(known)) < 2:
            return None
        return linear_images.of_task(self, labels)

    def raw_examples(self, count):
        """The first images of dev."""
        return self.splits.dev.images[:count]
