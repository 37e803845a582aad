"""`keras-distill compare`: teacher and texts, then arms x seeds."""

import contextlib
import dataclasses
import functools
import pathlib

import numpy as np

from keras_distill import losses
from keras_distill.cli import arms as distill_arms
from keras_distill.cli import corpus as texts
from keras_distill.cli import distill
from keras_distill.cli import teaching
from keras_distill.cli import training
from keras_distill.cli import transfer
from keras_distill.cli.compare.settings import PLAIN
from keras_distill.cli.compare.settings import TRANSFER
from keras_distill.cli.compare.settings import settle
from keras_distill.cli.problems import UsageProblem
from keras_distill.cli.problems import as_usage_problem
from keras_distill.cli.run_folder import RunFolder
from keras_distill.comparison import Arm
from keras_distill.comparison import Student
from keras_distill.comparison import Task
from keras_distill.comparison import Watcher
from keras_distill.comparison import compare
from keras_distill.comparison import html
from keras_distill.comparison import tables
from keras_distill.comparison.arms import with_transfer
from keras_distill.comparison.task import leaves_text

COLUMNS = ("Student", "Learns from", "Test %", "vs hard labels", "Seconds")
NAMES = {"text_cnn": "TextCNN", "bilstm": "BiLSTM", "shrink": "fewer layers"}
ARM_NAMES = {
    "hard": "hard labels",
    "mse": "logit MSE",
    "kd": "KD",
    "hidden": "KD and hidden states",
    "annealing": "Annealing-KD",
    "two_stage": "two stages, not annealed",
}


def run(options, screen):
    """Runs the command.

    Args:
        options: `Compare`.
        screen: `Screen`.

    Raises:
        UsageProblem: The options, the data or the teacher are wrong.
    """
    settings = settle(options)
    shared = settings.shared
    distill.check_inputs(shared)
    if settings.html:
        with as_usage_problem(ImportError, advice="Or add `--no-html`."):
            html.require()
    identities = distill.input_identities(shared)
    folder = RunFolder(shared.output, "compare")
    corpus = texts.Corpus(folder.path, shared)
    check = functools.partial(_check, settings, corpus)
    phases = distill.first_phases(
        shared, identities, corpus, folder, screen, check
    )
    folder.execute(phases, screen, options.run.redo)
    task = _task(settings, corpus, folder)
    arms = chosen_arms(settings, corpus)
    with as_usage_problem(ValueError, advice="Or add `--redo`."):
        found = compare(
            task,
            _students(settings, corpus, folder),
            folder.path,
            arms,
            seeds=shared.seeds,
            labels=shared.labels,
            cost_per_hour=settings.cost_per_hour,
            html=settings.html,
            redo=options.run.redo,
            settings=settings.resolved(),
            watcher=Telling(screen),
        )
    screen.phase = None
    _show(found, folder, screen)


def _check(settings, corpus, teacher):
    """Raises `UsageProblem` for what else would come after the training."""
    chosen_arms(settings, corpus)
    for student in settings.students.values():
        distill_arms.check_student(student, corpus, teacher)


def chosen_arms(settings, corpus):
    """The arms of the options, or those that fit the data.

    Args:
        settings: `Settings`.
        corpus: `Corpus`.

    Returns:
        List of `Arm`.

    Raises:
        UsageProblem: An arm needs text without labels, and there is none.
    """
    further = corpus.transfer is not None or leaves_text(
        corpus.splits, settings.shared.labels
    )
    names = settings.arms
    if names is None:
        names = [*PLAIN, *(f"{n}{TRANSFER}" for n in PLAIN if further)]
    wrong = [name for name in names if name.endswith(TRANSFER)]
    if wrong and not further:
        raise UsageProblem(
            f"The arm {wrong[0]} needs text without labels: use `--transfer "
            "augment:20`, `--unlabelled FILE`, or fewer `--labels`. "
            f"Received: arms={list(names)}, all of the text with labels"
        )
    return [_arm(name, settings) for name in names]


class Telling(Watcher):
    """Tells on a screen what a comparison does.

    Args:
        screen: `Screen`.
    """

    def __init__(self, screen):
        self._screen = screen

    def line(self, text):
        self._screen.line(text)

    @contextlib.contextmanager
    def training(self, name, steps):
        self._screen.phase = name
        with self._screen.progress(steps, "steps") as advance:
            yield [training.Progress(advance)]
        self._screen.phase = None


def _arm(name, settings):
    kind = name.removesuffix(TRANSFER)
    shared = settings.shared
    weights = {
        "hard_weight": shared.hard_weight,
        "soft_weight": shared.soft_weight,
    }
    annealed = losses.AnnealedMSE(settings.max_temperature)
    recipe = functools.partial(
        annealing, settings.max_temperature, kind == "two_stage"
    )
    made = {
        "hard": {},
        "mse": {"soft_loss": losses.LogitsMSE(), **weights},
        "kd": {"soft_loss": losses.ForwardKL(shared.temperature), **weights},
        "hidden": {
            "soft_loss": losses.ForwardKL(shared.temperature),
            "matches": hidden_matches,
            **weights,
        },
        "annealing": {"soft_loss": annealed, "stages": recipe},
        "two_stage": {"soft_loss": annealed, "stages": recipe},
    }
    arm = Arm(ARM_NAMES[kind], **made[kind])
    return with_transfer(arm) if name.endswith(TRANSFER) else arm


def annealing(highest, flat, epochs):
    """The stages of Annealing-KD, or the same ones without its scaling.

    Args:
        highest: Integer, the temperature at the start.
        flat: Boolean. Keeps the temperature at 1, where the scale is 1.
        epochs: Integer.

    Returns:
        List of two `Stage`.
    """
    first, second = distill_arms.annealing_stages(highest, epochs)
    if flat:
        first = dataclasses.replace(first, temperature=1.0)
    return [first, second]


def hidden_matches(teacher, student):
    """The matches of a student with fewer layers, or of a BiLSTM."""
    names = [layer.name for layer in student.layers]
    kind = "bilstm" if "bilstm" in names else "shrink"
    return distill_arms.hidden_matches(kind, teacher, student)


def _task(settings, corpus, folder):
    logits = np.load(folder.path / teaching.LOGITS)
    rows = len(corpus.encoded["train"])
    with np.load(folder.path / teaching.SCORED) as scored:
        held = {"train": logits[:rows], **scored}
    encoded = dict(corpus.encoded)
    notes = []
    if corpus.transfer is not None:
        held["transfer"] = logits[rows:]
        encoded["transfer"] = corpus.transfer
        notes.append(transfer.note(settings.shared, len(corpus.transfer)))
    seconds = folder.record("signal")["seconds"]
    notes.append(
        f"Teacher: {settings.shared.teacher}; its logits for all texts took "
        f"{seconds:,.0f} s, once for all arms."
    )
    return Task(
        corpus.splits,
        encoded,
        held,
        corpus.preprocessor,
        training.load(folder.path / teaching.MODEL),
        name=_name(settings.shared.data),
        notes=tuple(notes),
    )


def _name(source):
    """What to call the data: of a path the last part."""
    path = pathlib.Path(source)
    return path.name if path.exists() else source


def _students(settings, corpus, folder):
    def teacher():
        return training.load(folder.path / teaching.MODEL)

    return {
        NAMES[kind]: Student(
            functools.partial(distill_arms.build_student, own, corpus, teacher),
            epochs=own.epochs,
            batch_size=own.batch_size,
            learning_rate=own.learning_rate,
        )
        for kind, own in settings.students.items()
    }


def _show(found, folder, screen):
    columns, body = tables.table(found)
    wanted = [columns.index(name) for name in COLUMNS]
    screen.table(
        "Accuracy: mean ± sd over seeds. Differences in points, with the 95 % "
        "interval.",
        COLUMNS,
        [[row["cells"][i] for i in wanted] for row in body],
        words=2,
    )
    for item in found["verdicts"]:
        screen.line(item["headline"])
    names = ["report.md", "report.json", "export"]
    if (folder.path / "report.html").exists():
        names.insert(0, "report.html")
    screen.line(f"Written in {folder.path}: {', '.join(names)}")
