"""The phases `teacher` and `signal`: a fine-tuned teacher, and its logits."""

import math
import pathlib

import keras
import numpy as np

from keras_distill import data
from keras_distill.cli import run_folder
from keras_distill.cli import teacher_models
from keras_distill.cli import training

MODEL = pathlib.Path("teacher.keras")
LOGITS = pathlib.Path("data") / "teacher_logits.npy"
SCORED = pathlib.Path("data") / "teacher_scored.npz"
EPOCHS = 3
SEED = 0


def fine_tune(settings, corpus, folder, screen, check=None):
    """Fine-tunes the teacher where it needs it, and scores it.

    Args:
        settings: `Settings`.
        corpus: `Corpus`.
        folder: Path of the run's folder; `teacher.keras` is left there.
        screen: `Screen`.
        check: Callable that raises for a teacher that is of no use, before
            it is trained.

    Returns:
        Dict: accuracies, epochs, parameters.
    """
    keras.utils.set_random_seed(SEED)
    teacher, classifies = teacher_models.build(settings, corpus)
    if check is not None:
        check(teacher)
    epochs = settings.teacher_epochs
    if epochs is None:
        epochs = 0 if classifies else EPOCHS
    best_epoch = _fit(teacher, epochs, settings, corpus, screen)
    save(teacher, folder / MODEL, corpus)
    return {
        "epochs": epochs,
        "best_epoch": best_epoch,
        "parameters": teacher.count_params(),
        "dev_accuracy": training.accuracy(teacher, corpus.encoded["dev"]),
        "test_accuracy": training.accuracy(teacher, corpus.encoded["test"]),
    }


def summary(result):
    """One line on the result of `fine_tune`."""
    return (
        f"dev {100 * result['dev_accuracy']:.1f} %, "
        f"test {100 * result['test_accuracy']:.1f} %"
    )


def save(teacher, path, corpus):
    """Saves a teacher, a KerasHub task with its preprocessor."""
    is_task = hasattr(teacher, "preprocessor")
    if is_task:
        teacher.preprocessor = corpus.preprocessor
    training.save(teacher, path)
    if is_task:
        teacher.preprocessor = None


def signal(corpus, folder):
    """Runs the teacher over all texts, and leaves its logits.

    Returns:
        Dict: rows, and the accuracy where there are labels.
    """
    encoded = corpus.taught
    teacher = training.load(folder / MODEL)
    logits = training.predict(teacher, encoded).astype("float32")
    scored = {
        part: training.predict(teacher, corpus.encoded[part]).astype("float32")
        for part in ("dev", "test")
    }
    with run_folder.complete_file(folder / SCORED) as draft:
        np.savez_compressed(draft, **scored)
    with run_folder.complete_file(folder / LOGITS) as draft:
        np.save(draft, logits)
    known = encoded.labels != data.UNLABELLED
    return {
        "rows": len(logits),
        "train_accuracy": training.accuracy_of(
            logits[known], encoded.labels[known]
        ),
    }


def signal_summary(result):
    """One line on the result of `signal`."""
    return f"{result['rows']:,} texts"


def _fit(teacher, epochs, settings, corpus, screen):
    """Fine-tunes; the number of the best epoch, None for no epochs."""
    if not epochs:
        return None
    encoded = corpus.encoded["train"]
    labelled = training.rows(
        encoded, np.flatnonzero(encoded.labels != data.UNLABELLED)
    )
    size = settings.teacher_batch_size
    steps = math.ceil(len(labelled) / size)
    teacher.compile(
        optimizer=keras.optimizers.AdamW(
            training.warm_up_and_decay(
                settings.teacher_learning_rate, epochs * steps
            ),
            weight_decay=0.01,
            clipnorm=1.0,
        ),
        loss=training.hard_loss(),
        metrics=training.metrics(),
        **training.compile_arguments(),
    )
    best = training.BestEpoch(teacher)
    training.fit(
        teacher,
        training.batches(labelled, size, SEED),
        (epochs, steps),
        corpus.encoded["dev"],
        [best],
        screen,
    )
    return best.epoch
