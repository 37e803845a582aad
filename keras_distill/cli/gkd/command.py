"""`keras-distill gkd`: the phases, in their order, and the report."""

import functools
import pathlib
import shutil

from keras_distill.cli import sources
from keras_distill.cli.gkd import cards
from keras_distill.cli.gkd import models
from keras_distill.cli.gkd import report
from keras_distill.cli.gkd import texts
from keras_distill.cli.gkd import training
from keras_distill.cli.gkd import writing
from keras_distill.cli.gkd.settings import EMBEDDED
from keras_distill.cli.gkd.settings import SHRINK
from keras_distill.cli.gkd.settings import settle
from keras_distill.cli.run_folder import Phase
from keras_distill.cli.run_folder import RunFolder

DATA = ("data", "prompt_tokens", "max_completion_length", "smoke")
TRAINING = ("learning_rate", "batch_size", "seed")
GKD = (
    "beta",
    "lmbda",
    "seq_kd",
    "temperature",
    "loss_temperature",
    "sft_weight",
    "steps",
    "gkd_learning_rate",
    "batch_size",
    "seed",
)


def run(options, screen):
    """Runs the command.

    Args:
        options: `GKD`.
        screen: `Screen`.

    Raises:
        UsageProblem: The options, the data or the models are wrong.
    """
    settings = settle(options)
    models.check_sources(settings)
    sources.check_prompts(settings.data)
    folder = RunFolder(settings.output, "gkd")
    phases = plan(settings, folder, screen)
    folder.execute(phases, screen, options.run.redo)
    screen.phase = None
    shutil.rmtree(folder.path / "backup", ignore_errors=True)
    cards.write(report.write(settings, folder, phases, screen), folder.path)


def plan(settings, folder, screen):
    """The phases of a run.

    Args:
        settings: `Settings`.
        folder: `RunFolder`.
        screen: `Screen`.

    Returns:
        List of `Phase`.
    """
    corpus = texts.Corpus(folder.path, settings)

    def train(name, title, how, options, needs, files):
        return Phase(
            name=name,
            title=title,
            options=options,
            needs=needs,
            run=functools.partial(how, settings, corpus, screen),
            summary=training.summary,
            files=tuple(map(pathlib.Path, files)),
        )

    identities = sources.data_identity(settings)
    identities |= sources.model_identity(settings.teacher)
    student = {}
    if settings.student not in (EMBEDDED, SHRINK):
        student = sources.model_identity(settings.student, "student")
    taught = [models.TEACHER] if settings.teacher_epochs else []
    return [
        Phase(
            name="data",
            title=f"data: {settings.data}",
            options=settings.of("teacher", *DATA) | identities,
            needs=(),
            run=functools.partial(texts.build, settings, folder.path),
            summary=texts.summary,
            files=(texts.TOKENS,),
        ),
        train(
            "teacher",
            f"teacher: {settings.teacher}",
            training.teach,
            settings.of("teacher_epochs", *TRAINING),
            ("data",),
            taught,
        ),
        train(
            "start",
            f"start: the student ({settings.student}), on the texts",
            training.start,
            settings.of("student", "layers", "start_epochs", *TRAINING)
            | student,
            ("teacher",),
            [training.START],
        ),
        _score("before", ("start",), settings, corpus),
        Phase(
            name="gkd",
            title="gkd: the student learns from the teacher, on its own text",
            options=settings.of(*GKD),
            needs=("start",),
            run=functools.partial(training.distil, settings, corpus, screen),
            summary=training.distil_summary,
            files=(pathlib.Path(training.STUDENT),),
        ),
        _score("after", ("gkd",), settings, corpus),
        Phase(
            name="export",
            title="export: the student, as its user loads it",
            options={},
            needs=("gkd",),
            run=functools.partial(_export, settings, corpus),
            summary=lambda result: result["path"],
            cheap=True,
        ),
    ]


def _score(when, needs, settings, corpus):
    return Phase(
        name=when,
        title=f"{when}: the student's text, and the teacher's on it",
        options=settings.of("temperature", "seed"),
        needs=needs,
        run=functools.partial(writing.score, when, settings, corpus),
        summary=writing.summary,
        cheap=True,
    )


def _export(settings, corpus):
    model = training.distilled_student(settings, corpus)
    return {"path": str(models.save(model, corpus.folder))}
