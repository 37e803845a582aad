"""The phases that train: the teacher, the student's start, distillation."""

# ruff: noqa: ARG002 - Keras fixes the arguments of a callback's methods.

import hashlib
import json
import math

import keras
import numpy as np
import tensorflow as tf

from keras_distill.cli import run_folder
from keras_distill.cli.gkd import models
from keras_distill.cli.problems import as_usage_problem
from keras_distill.cli.training import Progress
from keras_distill.comparison.training import warm_up_and_decay
from keras_distill.gkd.model import GKDDistiller

START = "start.weights.h5"
STUDENT = "student.weights.h5"
STEPS_PER_EPOCH = 50


def teach(settings, corpus, screen):
    """Trains the teacher on the texts, if that is asked for.

    Args:
        settings: `Settings`.
        corpus: `Corpus`.
        screen: `Screen`.

    Returns:
        Dict: epochs, parameters, the last loss.
    """
    keras.utils.set_random_seed(settings.seed)
    model = models.teacher(settings, corpus)
    epochs = settings.teacher_epochs
    if epochs and settings.student == models.SHRINK:
        models.shrunk(model, settings)
    loss = _fit_texts(model, epochs, settings, corpus, screen)
    if epochs:
        _save(model, corpus.folder / models.TEACHER)
    return _result(model, epochs, loss)


def start(settings, corpus, screen):
    """Trains the student on the texts, and leaves its start.

    Returns:
        As `teach`.
    """
    keras.utils.set_random_seed(settings.seed)
    model = models.student(settings, corpus)
    epochs = settings.start_epochs
    loss = _fit_texts(model, epochs, settings, corpus, screen)
    _save(model, corpus.folder / START)
    return _result(model, epochs, loss)


def summary(result):
    """One line on the result of `teach` or `start`."""
    if not result["epochs"]:
        return f"{result['parameters']:,} weights, as it is"
    return (
        f"{result['parameters']:,} weights, {result['epochs']} epochs, "
        f"cross-entropy {result['loss']:.2f} nats per token"
    )


def distil(settings, corpus, screen):
    """Moves the student towards the teacher, on what it writes itself.

    An interrupted training goes on where it was, within this phase too.

    Returns:
        Dict: steps, the last epoch's logs.
    """
    student = started_student(settings, corpus)
    with as_usage_problem(ValueError):
        distiller = GKDDistiller(
            models.trained_teacher(settings, corpus),
            student,
            beta=settings.beta,
            lmbda=settings.lmbda,
            seq_kd=settings.seq_kd,
            temperature=settings.temperature,
            loss_temperature=settings.loss_temperature,
            max_completion_length=settings.max_completion_length,
            sft_weight=settings.sft_weight,
            stop_token_ids=(corpus.preprocessor.stop_token_id,),
            seed=settings.seed,
        )
    steps, size = settings.steps, min(STEPS_PER_EPOCH, settings.steps)
    distiller.compile(optimizer=_optimizer(settings.gkd_learning_rate, steps))
    batches = corpus.batches("train", settings.batch_size, seed=settings.seed)
    with screen.progress(steps, "steps") as advance:
        history = distiller.fit(
            batches.repeat(),
            epochs=math.ceil(steps / size),
            steps_per_epoch=size,
            callbacks=[
                keras.callbacks.BackupAndRestore(_backup(settings, corpus)),
                _Progress(advance, "divergence"),
            ],
            verbose=0,
        )
    _save(student, corpus.folder / STUDENT)
    logs = {name: values[-1] for name, values in history.history.items()}
    return {"steps": math.ceil(steps / size) * size, "logs": logs}


def distil_summary(result):
    """One line on the result of `distil`."""
    logs = result["logs"]
    return (
        f"{result['steps']} steps, divergence {logs['divergence']:.3f} nats "
        f"per token, completions of {logs['completion_length']:.0f} tokens"
    )


def started_student(settings, corpus):
    """The student as the phase `start` left it."""
    return _student(settings, corpus, START)


def distilled_student(settings, corpus):
    """The student as the phase `gkd` left it."""
    return _student(settings, corpus, STUDENT)


def _student(settings, corpus, weights):
    model = models.student(settings, corpus)
    model.backbone.load_weights(corpus.folder / weights)
    return model


def _save(model, path):
    """Saves the backbone, which has all weights and no optimizer."""
    with run_folder.complete_file(path) as draft:
        model.backbone.save_weights(draft)


def _result(model, epochs, loss):
    return {"parameters": model.count_params(), "epochs": epochs, "loss": loss}


def _optimizer(peak, steps):
    return keras.optimizers.AdamW(
        warm_up_and_decay(peak, steps), weight_decay=0.01, clipnorm=1.0
    )


def _backup(settings, corpus):
    """A folder of its own for these settings: no other run's state is used."""
    chosen = json.dumps(settings.of(*vars(settings)), sort_keys=True)
    name = hashlib.sha256(chosen.encode()).hexdigest()[:12]
    return str(corpus.folder / "backup" / name)


def _fit_texts(model, epochs, settings, corpus, screen):
    """Trains on next tokens; the last epoch's loss, None for no epochs."""
    if not epochs:
        return None
    size = settings.batch_size
    steps = math.ceil(len(corpus.tokens["train"]) / size)
    batches = corpus.batches("train", size, seed=settings.seed)
    # Without the preprocessor, which would expect strings.
    trained = keras.Model(model.input, model.output)
    trained.compile(
        optimizer=_optimizer(settings.learning_rate, epochs * steps),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[],
    )
    with screen.progress(epochs * steps, "steps") as advance:
        history = trained.fit(
            batches.repeat().map(next_tokens),
            epochs=epochs,
            steps_per_epoch=steps,
            callbacks=[_Progress(advance, "loss")],
            shuffle=False,
            verbose=0,
        )
    return history.history["loss"][-1]


def next_tokens(batch):
    """A batch of `GKDPreprocessor` as `(x, y, sample_weight)`.

    Only tokens of completions count.
    """
    token_ids, prompt = batch["token_ids"], batch["prompt_mask"]
    completion = batch["completion_mask"]
    inputs = {
        "token_ids": token_ids[:, :-1],
        "padding_mask": tf.cast((prompt | completion)[:, :-1], "int32"),
    }
    # Keras divides by the number of weights; this makes it the tokens'.
    weights = tf.cast(completion[:, 1:], "float32")
    weights /= tf.maximum(tf.reduce_mean(weights), np.float32(1e-9))
    return inputs, token_ids[:, 1:], weights


class _Progress(Progress):
    """Moves a progress bar that tells a value of the logs."""

    def __init__(self, advance, name):
        super().__init__(advance)
        self._name = name

    def on_epoch_end(self, epoch, logs=None):
        self._advance(0, f"{self._name} {logs[self._name]:.3f}")
