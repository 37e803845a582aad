"""The phases of the students: what is trained, on what, with which loss."""

import dataclasses
import math
import pathlib

import keras
import numpy as np

from keras_distill import callbacks
from keras_distill import data
from keras_distill import losses
from keras_distill import matching
from keras_distill import stages
from keras_distill import students
from keras_distill import taps
from keras_distill.cli import run_folder
from keras_distill.cli import teaching
from keras_distill.cli import training
from keras_distill.cli.problems import as_usage_problem
from keras_distill.distiller import Distiller

CONTROL = "control"
DISTILLED = "distilled"
ALL_LABELS = "all_labels"


@dataclasses.dataclass(frozen=True)
class Arm:
    """One way to train the student, with one seed.

    Args:
        kind: `CONTROL`: on its labels alone. `DISTILLED`: on them and on the
            teacher. `ALL_LABELS`: on every label that the data has.
        seed: Integer. Chooses the labels, the initial weights, the order.
    """

    kind: str
    seed: int

    @property
    def name(self):
        """The phase's name."""
        return f"{self.kind}_seed_{self.seed}"

    @property
    def file(self):
        """The student's file, relative to the run's folder."""
        return pathlib.Path("students") / f"{self.name}.keras"

    @property
    def predictions(self):
        """The file of its logits for the test part, likewise."""
        return pathlib.Path("students") / f"{self.name}_test_logits.npy"


def kinds(settings):
    """The arms of a run, in their order."""
    if settings.labels is None:
        return (CONTROL, DISTILLED)
    return (CONTROL, DISTILLED, ALL_LABELS)


def build_student(settings, corpus, teacher):
    """A new student.

    Args:
        settings: `Settings`.
        corpus: `Corpus`.
        teacher: Callable without arguments that gives the teacher.

    Raises:
        UsageProblem: Its sizes do not fit the teacher's.
    """
    width, classes = settings.width, corpus.num_classes
    if settings.student != "shrink":
        vocabulary = corpus.preprocessor.tokenizer.vocabulary_size()
        embeddings = vocabulary, width
        if settings.embeddings == "teacher":
            embeddings = teacher()
        rank = settings.embedding_rank
        advice = "See `--embeddings` and `--embedding-rank`."
        with as_usage_problem(ValueError, advice=advice):
            if settings.student == "text_cnn":
                return students.text_cnn(
                    classes, embeddings, rank, filters=width
                )
            return students.bilstm(classes, embeddings, rank, units=width)
    model = teacher()
    with as_usage_problem(ValueError, advice="See `--width` and `--layers`."):
        layers = settings.layers
        if layers is None:
            layers = max(1, len(taps.encoder_layers(model)) // 2)
        return students.shrink(model, num_layers=layers, hidden_dim=width)


def check_student(settings, corpus, teacher):
    """Raises `UsageProblem` if there is no such student of the teacher."""
    build_student(settings, corpus, lambda: teacher)


def train(arm, settings, corpus, folder, screen):
    """Trains the student of an arm, and scores it.

    Every arm takes the same number of steps, from the same initial weights.

    Args:
        arm: `Arm`.
        settings: `Settings`.
        corpus: `Corpus`.
        folder: Path of the run's folder; the student is left there.
        screen: `Screen`.

    Returns:
        Dict: accuracies, the best epoch, labels, parameters.
    """
    keras.utils.set_random_seed(arm.seed)
    student = build_student(
        settings, corpus, lambda: training.load(folder / teaching.MODEL)
    )
    encoded = _train_texts(arm, settings, corpus)
    if arm.kind == DISTILLED:
        model = _distiller(student, settings, folder)
    else:
        model = student
    steps = math.ceil(len(corpus.encoded["train"]) / settings.batch_size)
    _compile(model, steps, settings)
    best = training.BestEpoch(student)
    logits = None
    if arm.kind == DISTILLED and settings.method != "hidden":
        logits = np.load(folder / teaching.LOGITS)
    training.fit(
        model,
        training.batches(encoded, settings.batch_size, arm.seed, logits),
        (settings.epochs, steps),
        corpus.encoded["dev"],
        [*_stages(model, settings), best],
        screen,
    )
    logits = training.predict(student, corpus.encoded["test"])
    training.save(student, folder / arm.file)
    with run_folder.complete_file(folder / arm.predictions) as draft:
        np.save(draft, logits)
    return {
        "labels": int((encoded.labels != data.UNLABELLED).sum()),
        "texts": len(encoded),
        "best_epoch": best.epoch,
        "parameters": student.count_params(),
        "dev_accuracy": best.accuracy,
        "test_accuracy": training.accuracy_of(
            logits, corpus.encoded["test"].labels
        ),
    }


def _train_texts(arm, settings, corpus):
    """What the arm sees of the train part."""
    encoded = corpus.encoded["train"]
    if arm.kind == DISTILLED:
        encoded = corpus.taught
    if arm.kind != ALL_LABELS and settings.labels is not None:
        few = data.keep_labels(corpus.splits, settings.labels, arm.seed)
        labels = encoded.labels.copy()
        labels[: len(few.train)] = few.train.labels
        encoded = training.with_labels(encoded, labels)
    if arm.kind == DISTILLED:
        return encoded
    labelled = np.flatnonzero(encoded.labels != data.UNLABELLED)
    return training.rows(encoded, labelled)


def _distiller(student, settings, folder):
    if settings.method != "hidden":
        return Distiller(teacher=None, student=student)
    teacher = training.load(folder / teaching.MODEL)
    matches = hidden_matches(settings.student, teacher, student)
    return Distiller(teacher=teacher, student=student, matches=matches)


def hidden_matches(kind, teacher, student):
    """The layers that are to agree, in the method `hidden`.

    Args:
        kind: String, of the student: `"bilstm"` or `"shrink"`.
        teacher: `keras.Model`.
        student: `keras.Model`.

    Returns:
        List of `Match`.
    """
    states = taps.hidden_states(teacher)
    if kind == "bilstm":
        pairs = [(states[-1], student.get_layer("bilstm"))]
    else:
        own = taps.hidden_states(student)
        layers = matching.uniform_layer_map(len(states) - 1, len(own) - 1)
        pairs = [(states[t], own[s]) for t, s in layers]
    return [
        matching.Match(t, s, losses.HiddenMSE(), weight=1.0 / len(pairs))
        for t, s in pairs
    ]


def _compile(model, steps, settings):
    arguments = {
        "optimizer": keras.optimizers.Adam(
            training.warm_up_and_decay(
                settings.learning_rate, steps * settings.epochs
            )
        ),
        "loss": training.hard_loss(),
        "metrics": training.metrics(),
        **training.compile_arguments(),
    }
    if isinstance(model, Distiller):
        arguments |= {
            "soft_loss": _soft_loss(settings),
            "hard_weight": settings.hard_weight,
            "soft_weight": settings.soft_weight,
        }
    model.compile(**arguments)


def _soft_loss(settings):
    if settings.method == "annealing":
        return losses.AnnealedMSE(int(settings.temperature))
    if settings.method == "mse":
        return losses.LogitsMSE(settings.temperature)
    return losses.ForwardKL(settings.temperature)


def _stages(model, settings):
    if not isinstance(model, Distiller) or settings.method != "annealing":
        return []
    recipe = annealing_stages(int(settings.temperature), settings.epochs)
    return [callbacks.StageSwitch(recipe)]


def annealing_stages(highest, epochs):
    """Annealing-KD in so many epochs, three quarters of them annealing.

    Args:
        highest: Integer, the temperature at the start.
        epochs: Integer, more than `highest`.

    Returns:
        List of two `Stage`.
    """
    hold = max(1, int(0.75 * epochs) // highest)
    return stages.annealing_kd_stages(
        max_temperature=highest,
        epochs_per_temperature=hold,
        hard_epochs=epochs - highest * hold,
    )
