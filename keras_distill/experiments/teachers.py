"""The teacher of a run: what it starts as, and how it is fine-tuned."""

import dataclasses

import numpy as np

from keras_distill import data
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.experiments import adapting
from keras_distill.experiments import contrast
from keras_distill.experiments import places
from keras_distill.experiments import teaching
from keras_distill.experiments import training
from keras_distill.pruning import vocabularies

AUTO, CONTRASTIVE = "auto", "contrastive"
STARTS = (AUTO, "encoder", CONTRASTIVE)
# So few labels that vectors learn from them before a head does.
FEW_LABELS = 1000
SAME = "student"


def check_start(chosen):
    """Raises `UsageError` for a contrastive start of what cannot start so.

    Args:
        chosen: `Preparation`.
    """
    if chosen.teacher_start == CONTRASTIVE and not _may_contrast(chosen):
        raise UsageError(
            "`--teacher-start contrastive` is for classes of single texts and "
            "a pretrained encoder, the name or folder of a preset. Received: "
            f"task={chosen.task}, teacher={chosen.teacher}"
        )


def _may_contrast(chosen):
    is_preset = chosen.source.kind not in (places.EMBEDDED, "keras")
    return chosen.task_kind.contrasts and is_preset


def teacher_for(chosen, task, watcher=None, check=None):
    """Loads a teacher, and fine-tunes it as a `Preparation` says.

    Args:
        chosen: `Preparation`.
        task: `Task`.
        watcher: `Watcher`, or None.
        check: Callable from task and teacher, or None, before the training.

    Returns:
        Pair of the `keras.Model`, and a dict that JSON can hold.

    Raises:
        UsageError: It cannot be loaded, does not fit the task, or has no
            finite logits.
    """
    labels = None
    if chosen.teacher_labels == SAME and chosen.labels is not None:
        labels = task.labels(chosen.labels, teaching.SEED)
    model, knows, found = _contrastive(chosen, task, labels), False, {}
    contrasts = model is not None
    if not contrasts:
        model, knows = chosen.source.build(task)
    if chosen.min_count is not None:
        own = chosen.source.preprocessor(type(task)).tokenizer
        with as_usage_error(ValueError, advice="Leave `--min-count` out."):
            model = vocabularies.of_tokens(
                model, own, task.preprocessor.tokenizer
            )
    if check is not None:
        check(task, model)
    if contrasts:
        found["contrast"] = contrast.fine_tune_contrastively(
            model,
            task,
            labels,
            batch_size=chosen.teacher_batch_size,
            minutes=chosen.teacher_minutes / 2,
            watcher=watcher,
        )
    if chosen.teacher_epochs == 0 or (chosen.teacher_epochs is None and knows):
        return model, {"epochs": 0, "best_epoch": None, **found}
    if not contrasts:
        return model, _fine_tuned(model, task, chosen, labels, False, watcher)
    start = training.BestEpoch(model, task)
    start.on_epoch_end(-1, {})
    tuned = _fine_tuned(model, task, chosen, labels, True, watcher)
    # Where it has only lost by it, the start is what stays.
    start.on_epoch_end(0, {})
    start.on_train_end()
    found["contrast"]["stays"] = start.epoch == 0
    cut = tuned.get("cut", False) or found["contrast"]["cut"]
    return model, {**tuned, **found, "cut": cut}


def _contrastive(chosen, task, labels):
    """The classifier of vectors that it starts as, or None."""
    wanted = chosen.teacher_start == CONTRASTIVE
    if not wanted and not _pays(chosen, task, labels):
        return None
    model = chosen.source.contrastive(task)
    if model is None and wanted:
        raise UsageError(
            "`--teacher-start contrastive` is for an encoder that does not "
            "know the classes already, and is told what is padding. Received: "
            f"teacher={chosen.teacher}"
        )
    return model


def _pays(chosen, task, labels):
    """Whether `"auto"` means a contrast: labels are few, nothing else said."""
    says_nothing = (
        chosen.teacher_start == AUTO and chosen.teacher_epochs is None
    )
    if chosen.smoke or not says_nothing or not _may_contrast(chosen):
        return False
    if labels is None:
        return task.labelled_train_rows <= FEW_LABELS
    return np.count_nonzero(data.has_label(labels)) <= FEW_LABELS


def _fine_tuned(model, task, chosen, labels, contrasts, watcher):
    epochs, rate = chosen.teacher_epochs, chosen.teacher_learning_rate
    rows = chosen.teacher_batch_size
    if epochs is None and chosen.smoke:
        epochs, rate = teaching.EPOCHS, rate or chosen.usual_learning_rate
    if epochs is not None:
        best = teaching.fine_tune(
            model, task, epochs, rate, rows, watcher=watcher, labels=labels
        )
        return {"epochs": epochs, "best_epoch": best}
    rates = adapting.FINE_TUNING_RATES
    if chosen.source.is_new:
        rates = adapting.NEW_RATES
    elif contrasts:
        # What the vectors have learnt larger ones would undo.
        rates = (contrast.RATE,)
    found = adapting.fine_tune_adaptively(
        model,
        task,
        rates if rate is None else (rate,),
        rows,
        # Half of the time was for the start.
        chosen.teacher_minutes / (2 if contrasts else 1),
        teaching.SEED,
        watcher,
        labels,
    )
    return dataclasses.asdict(found)


def summary(result):
    """One line on what `teacher_for` and the scores have given.

    Args:
        result: Dict, with `dev_score` and `test_score`.

    Example:

    >>> summary({"dev_score": 0.8, "test_score": 0.75, "cut": True})
    'dev 80.0 %, test 75.0 %; the time was up, see `--teacher-minutes`'
    """
    told = teaching.scores(result)
    if "contrast" in result:
        told += ", after a contrastive start"
    if result.get("cut"):
        told += "; the time was up, see `--teacher-minutes`"
    return told
