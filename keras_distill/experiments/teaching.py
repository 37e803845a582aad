"""A teacher, fine-tuned where it needs it, and what it says of the data."""

import dataclasses
import math

import keras
import numpy as np

from keras_distill import _files
from keras_distill import data
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.experiments import training
from keras_distill.tasks.base import PARTS
from keras_distill.tasks.base import TRANSFER

EPOCHS = 3
SEED = 0


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A teacher of a task: its logits and, where it is at hand, the model.

    Args:
        logits: Dict from the parts of the task's `encoded` to the teacher's
            logits, float arrays `[rows, outputs]`.
        model: `keras.Model` or None. Exported, to compare file size and
            latency; run by recipes with matches; copied by students that start
            from it.
        source: String, what reports call it.

    Raises:
        ValueError: Not all logits are finite.
    """

    logits: dict
    model: keras.Model | None = None
    source: str | None = None

    def __post_init__(self):
        for part, logits in self.logits.items():
            training.check_finite_logits(
                np.asarray(logits), f"The teacher's logits for {part}"
            )

    @classmethod
    def of(cls, task, model, source=None):
        """Runs `model` over all data of `task`, once.

        Args:
            task: `Task`.
            model: `keras.Model` from the task's inputs to logits, or what
                `Task.adapted` makes one of.
            source: String, what reports call it.

        Returns:
            `Teacher`.
        """
        with as_usage_error(ValueError):
            model = task.adapted(model)
        return cls(
            {
                part: training.predict(model, rows).astype("float32")
                for part, rows in task.encoded.items()
            },
            model,
            source,
        )

    def check_fits(self, task):
        """Raises `ValueError` if they are not logits of the task."""
        if set(self.logits) != set(task.encoded):
            raise ValueError(
                "`logits` must hold the same parts as the task. Received: "
                f"{sorted(self.logits)} for a task of {sorted(task.encoded)}"
            )
        for part, logits in self.logits.items():
            shape = (len(task.encoded[part]), *task.logits_shape)
            if np.shape(logits) != shape:
                raise ValueError(
                    "`logits` must hold one row for each text and one value "
                    f"for each output. Received: logits[{part!r}] of shape "
                    f"{np.shape(logits)}, expected {shape}"
                )
            task.check_logits(logits)

    def hash(self):
        """String that tells other logits."""
        return _files.content_hash(
            np.asarray(self.logits[part]) for part in sorted(self.logits)
        )

    def save(self, path):
        """Leaves the logits in a file."""
        with _files.complete_file(path) as draft:
            np.savez_compressed(draft, **self.logits)

    @classmethod
    def restore(cls, path, model, source):
        """What `save` left."""
        with np.load(path) as held:
            return cls(dict(held), model, source)


def as_teacher(value, task):
    """A `Teacher` that fits the task, made from a model where need be."""
    found = value if isinstance(value, Teacher) else Teacher.of(task, value)
    with as_usage_error(ValueError):
        found.check_fits(task.judged_by(found.logits))
    return found


def fine_tune(
    model,
    task,
    epochs=EPOCHS,
    learning_rate=5e-5,
    batch_size=32,
    seed=SEED,
    watcher=None,
    labels=None,
):
    """Fine-tunes a model on the labels of a task: AdamW with warm-up.

    The model ends with the weights of the epoch that was best on dev.

    Args:
        model: `keras.Model` from the task's inputs to logits, changed in
            place.
        task: `Task`.
        epochs: Integer, passes over the rows with a label.
        learning_rate: Float, the peak.
        batch_size: Integer.
        seed: Integer, of the order of the rows and of dropped units.
        watcher: `Watcher`, or None.
        labels: Array, the train labels that it may see, as `Task.labels`
            gives them. None: all.

    Returns:
        Integer, the number of the best epoch, from 1 on.

    Raises:
        UsageError: No epoch gave finite logits.
    """
    keras.utils.set_random_seed(seed)
    labelled = labelled_rows(task, labels)
    steps = math.ceil(len(labelled) / batch_size)
    optimizer = keras.optimizers.AdamW(
        training.warm_up_and_decay(learning_rate, epochs * steps),
        weight_decay=0.01,
        clipnorm=1.0,
    )
    training.compile_for(model, task, optimizer)
    best = training.BestEpoch(model, task)
    training.fit(
        model,
        training.batches(labelled, batch_size, seed),
        (epochs, steps),
        [best],
        watcher,
    )
    check_tuned(best, learning_rate)
    return best.epoch


def labelled_rows(task, labels=None):
    """The rows of train that have a label, `data.EncodedDataset`.

    Args:
        task: `Task`.
        labels: Array, the train labels that may be seen. None: all.
    """
    rows = task.encoded["train"]
    if labels is not None:
        rows = rows.with_labels(labels)
    return rows.take(np.flatnonzero(data.has_label(rows.labels)))


def check_tuned(best, learning_rate):
    """Raises `UsageError` if a fine-tuning has left no weights of use.

    Args:
        best: `training.BestEpoch`, of the whole training.
        learning_rate: Float, the peak.
    """
    if best.failure:
        raise UsageError(
            f"The teacher could not be fine-tuned: {best.failure}. Received: "
            f"teacher_learning_rate={learning_rate:g}"
        )


def split_logits(logits, task):
    """Logits of `task.taught()` as a dict of its parts."""
    rows = len(task.encoded[PARTS[0]])
    found = {PARTS[0]: logits[:rows]}
    if TRANSFER in task.encoded:
        found[TRANSFER] = logits[rows:]
    return found


def scores(result):
    """One line on a result with scores on dev and test."""
    return (
        f"dev {100 * result['dev_score']:.1f} %, "
        f"test {100 * result['test_score']:.1f} %"
    )
