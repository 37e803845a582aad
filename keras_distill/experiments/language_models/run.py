"""`kd.experiments.distill_language_model`: the phases, in their order."""

import functools
import pathlib
import shutil

from keras_distill import _files
from keras_distill._watcher import Watcher
from keras_distill.experiments import engine
from keras_distill.experiments.environment import environment
from keras_distill.experiments.language_models import cards
from keras_distill.experiments.language_models import curve
from keras_distill.experiments.language_models import models
from keras_distill.experiments.language_models import scoring
from keras_distill.experiments.language_models import texts
from keras_distill.experiments.language_models import training
from keras_distill.experiments.language_models.settings import Settings
from keras_distill.experiments.phases import Phase

COMMAND = "gkd"
DATA = (
    "teacher",
    "data",
    "prompt_tokens",
    "max_prompt_length",
    "max_completion_length",
    "smoke",
)
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


def distill_language_model(output, watcher=None, redo=False, **chosen):
    """Distils a causal language model on what the student writes itself.

    Starts the student on the texts, scores it, moves it towards the teacher at
    every token of its own completions, and scores it again on held-out
    prompts. `output` then holds `report.json` and the student, with a model
    card. The same call goes on where an earlier one was stopped.

    Args:
        output: Path of a folder.
        watcher: `experiments.Watcher`, or None.
        redo: Boolean. Makes again what was made with other arguments, instead
            of refusing it.
        **chosen: Fields of `experiments.LanguageModelSettings`.

    Returns:
        Dict: the contents of `report.json`.

    Raises:
        UsageError: An argument, a file or a folder is wrong.
    """
    settings = Settings(**chosen)
    paths = [path for path in settings.inputs().values() if path]
    models.forget()
    with engine.opened(output, COMMAND, paths) as folder:
        folder.execute(plan(settings, folder, watcher), watcher, redo)
        shutil.rmtree(folder.path / training.BACKUP, ignore_errors=True)
        report = contents(settings, folder)
        _files.write_json(folder.path / "report.json", report)
        cards.write(report, folder.path)
    return report


def plan(settings, folder, watcher=None):
    """The phases of a run.

    Args:
        settings: `Settings`.
        folder: `RunFolder`.
        watcher: `Watcher`, or None.

    Returns:
        List of `Phase`.
    """
    watcher = watcher or Watcher()
    corpus = texts.Corpus(folder.path, settings)
    score = scoring.Scoring(settings, corpus)
    identities = settings.identities
    taught = [models.TEACHER] if settings.teacher_epochs else []

    def train(name, title, how, options, needs, files):
        return Phase(
            name=name,
            title=title,
            options=options,
            needs=needs,
            run=functools.partial(how, settings, corpus, watcher),
            summary=training.summary,
            files=tuple(map(pathlib.Path, files)),
        )

    def made_from():
        # Of a teacher that is not trained here there are no files; its
        # contents are in the fingerprint of what was made from it.
        records = map(folder.record, ("data", "teacher", "start"))
        return [[held["fingerprint"], held["files"]] for held in records]

    return [
        Phase(
            name="data",
            title=f"data: {settings.data}",
            options=settings.of(*DATA)
            | identities["data"]
            | identities["teacher"],
            run=functools.partial(texts.build, settings, folder.path),
            summary=texts.summary,
            files=texts.files(settings),
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
            | identities["student"],
            ("data", "teacher"),
            [training.START],
        ),
        _score("before", ("teacher", "start"), settings, score),
        Phase(
            name="gkd",
            title="gkd: the student learns from the teacher, on its own text",
            options=settings.of(*GKD),
            needs=("data", "teacher", "start"),
            run=functools.partial(
                training.distil, settings, corpus, made_from, watcher
            ),
            summary=training.distil_summary,
            files=(pathlib.Path(training.STUDENT),),
        ),
        _score("after", ("gkd",), settings, score),
        Phase(
            name="export",
            title="export: the student, as its user loads it",
            options={},
            needs=("gkd",),
            run=functools.partial(_export, settings, corpus),
            summary=lambda result: result["path"],
            files=lambda result: result["files"],
            cheap=True,
        ),
    ]


def contents(settings, folder):
    """Dict, the contents of `report.json` of a finished run."""
    return {
        "command": COMMAND,
        "settings": settings.all() | {"output": str(folder.path)},
        "data": folder.result("data"),
        "teacher": folder.result("teacher"),
        "student": folder.result("start") | folder.result("export"),
        "before": folder.result("before"),
        "gkd": folder.result("gkd"),
        "after": folder.result("after"),
        "curve": _curve(folder),
        "seconds": folder.seconds(),
        "environment": environment(),
    }


def _curve(folder):
    """What the scores before, within and after the distillation say."""
    before, within, after = map(folder.result, ("before", "gkd", "after"))
    points = {0: before["batches"], within["steps"]: after["batches"]}
    points |= {int(steps): held for steps, held in within["points"].items()}
    return curve.told(points)


def _score(when, needs, settings, score):
    return Phase(
        name=when,
        title=f"{when}: the student's text, and the teacher's on it",
        options=settings.of("temperature", "seed"),
        needs=needs,
        run=functools.partial(score, when),
        summary=scoring.summary,
        cheap=True,
    )


def _export(settings, corpus):
    model = training.distilled_student(settings, corpus)
    path = models.save(model, corpus.folder)
    place = corpus.folder / path
    # Not the folder: a model card joins them.
    inside = sorted(place.rglob("*")) if place.is_dir() else [place]
    files = [file.relative_to(corpus.folder).as_posix() for file in inside]
    return {"path": str(path), "files": files}
