"""The phases that train: the teacher, the student's start, distillation."""

import math

import keras

from keras_distill import _files
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.callbacks import Backup
from keras_distill.experiments import training
from keras_distill.experiments.language_models import curve
from keras_distill.experiments.language_models import models
from keras_distill.gkd.fine_tuning import fine_tune
from keras_distill.gkd.model import GKDDistiller

START = "start.weights.h5"
STUDENT = "student.weights.h5"
BACKUP = "backup"
STEPS_PER_EPOCH = 50


def teach(settings, corpus, watcher):
    """Trains the teacher on the texts, if that is asked for.

    Args:
        settings: `Settings`.
        corpus: `Corpus`.
        watcher: `Watcher`.

    Returns:
        Dict: epochs, parameters, the last loss.
    """
    corpus.load()
    keras.utils.set_random_seed(settings.seed)
    model = models.teacher(settings, corpus)
    epochs = settings.teacher_epochs
    if epochs and settings.student == models.SHRINK:
        models.shrunk(model, settings)
    _check_finite(model)
    loss = _fit_texts(model, epochs, settings, corpus, watcher)
    if epochs:
        _save(model, corpus.folder / models.TEACHER)
    return _result(model, epochs, loss)


def _check_finite(model):
    broken = [
        weight.path
        for weight in model.weights
        if keras.backend.is_float_dtype(weight.dtype)
        and not bool(keras.ops.all(keras.ops.isfinite(weight)))
    ]
    if broken:
        raise UsageError(
            "The weights of the teacher must be finite numbers. Received: NaN "
            f"or infinity in {len(broken)} of {len(model.weights)} weights, "
            f"{broken[0]!r} among them"
        )


def start(settings, corpus, watcher):
    """Trains the student on the texts, and leaves its start.

    Returns:
        As `teach`.
    """
    corpus.load()
    keras.utils.set_random_seed(settings.seed)
    model = models.student(settings, corpus)
    epochs = settings.start_epochs
    loss = _fit_texts(model, epochs, settings, corpus, watcher)
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


def distil(settings, corpus, made_from, watcher):
    """Moves the student towards the teacher, on what it writes itself.

    An interrupted training goes on where it was, within this phase too.

    Args:
        settings: `Settings`.
        corpus: `Corpus`.
        made_from: Callable that gives what the training depends on beside the
            settings: a backup of other data or another start is not used.
        watcher: `Watcher`.

    Returns:
        Dict: steps, the last epoch's logs, the points of `Curve`.
    """
    corpus.load()
    # What is trained must not depend on what was loaded before.
    keras.utils.set_random_seed(settings.seed)
    student = started_student(settings, corpus)
    teacher = models.trained_teacher(settings, corpus)
    with as_usage_error(ValueError):
        distiller = GKDDistiller(
            teacher,
            student,
            beta=settings.beta,
            lmbda=settings.lmbda,
            seq_kd=settings.seq_kd,
            temperature=settings.temperature,
            loss_temperature=settings.loss_temperature,
            max_completion_length=corpus.completion_length,
            sft_weight=settings.sft_weight,
            stop_token_ids=(corpus.preprocessor.stop_token_id,),
            seed=settings.seed,
        )
    steps, size = settings.steps, min(STEPS_PER_EPOCH, settings.steps)
    distiller.compile(optimizer=_optimizer(settings.gkd_learning_rate, steps))
    key = _files.json_hash([settings.all(), made_from()])[:12]
    backup = Backup(corpus.folder / BACKUP / key)
    done = backup.restore(distiller)
    points = curve.Curve(
        curve.scorer(teacher, student, settings, corpus),
        corpus.folder / BACKUP / key / "curve.json",
        math.ceil(steps / size),
        size,
    )
    batches = corpus.batches("train", settings.batch_size, seed=settings.seed)
    epochs = math.ceil(steps / size)
    with watcher.progress(steps, "steps") as advance:
        advance(done * size)
        distiller.fit(
            batches.repeat().skip(done * size),
            epochs=epochs,
            initial_epoch=done,
            steps_per_epoch=size,
            callbacks=[
                training.Finite("gkd_learning_rate"),
                points,
                backup,
                training.Progress(advance, "divergence"),
            ],
            verbose=0,
        )
    _save(student, corpus.folder / STUDENT)
    return {
        "steps": epochs * size,
        "logs": backup.logs,
        "points": points.points(),
    }


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
    with _files.complete_file(path) as draft:
        model.backbone.save_weights(draft)


def _result(model, epochs, loss):
    return {"parameters": model.count_params(), "epochs": epochs, "loss": loss}


def _optimizer(peak, steps):
    return keras.optimizers.AdamW(
        training.warm_up_and_decay(peak, steps), weight_decay=0.01, clipnorm=1.0
    )


def _fit_texts(model, epochs, settings, corpus, watcher):
    """Trains on next tokens; the last epoch's loss, None for no epochs."""
    if not epochs:
        return None
    size = settings.batch_size
    steps = math.ceil(len(corpus.tokens["train"]) / size)
    batches = corpus.batches("train", size, seed=settings.seed)
    with watcher.progress(epochs * steps, "steps") as advance:
        history = fine_tune(
            model,
            batches.repeat(),
            steps,
            epochs,
            _optimizer(settings.learning_rate, epochs * steps),
            [
                training.Finite("learning_rate"),
                training.Progress(advance, "loss"),
            ],
        )
    return history.history["loss"][-1]
