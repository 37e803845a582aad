"""`keras-distill distill`: the phases, in their order."""

import functools

from keras_distill.cli import arms
from keras_distill.cli import cards
from keras_distill.cli import corpus as texts
from keras_distill.cli import report
from keras_distill.cli import sources
from keras_distill.cli import teaching
from keras_distill.cli import training
from keras_distill.cli import transfer
from keras_distill.cli.run_folder import Phase
from keras_distill.cli.run_folder import RunFolder
from keras_distill.cli.settings import settle
from keras_distill.comparison import shipping

EXPORT = "export"
DATA = ("data", "text_column", "label_column", "sequence_length", "smoke")
TEACHER = ("teacher_epochs", "teacher_learning_rate", "teacher_batch_size")
STUDENT = (
    "student",
    "width",
    "embeddings",
    "embedding_rank",
    "layers",
    "epochs",
    "learning_rate",
    "batch_size",
)
TAUGHT = ("method", "temperature", "hard_weight", "soft_weight")


def run(options, screen):
    """Runs the command.

    Args:
        options: `Distill`.
        screen: `Screen`.

    Raises:
        UsageProblem: The options, the data or the teacher are wrong.
    """
    settings = settle(options)
    check_inputs(settings)
    identities = input_identities(settings)
    folder = RunFolder(settings.output, "distill")
    phases = plan(settings, identities, folder, screen)
    folder.execute(phases, screen, options.run.redo)
    screen.phase = None
    held = report.write(settings, folder, phases, screen)
    cards.write(held, texts.Corpus(folder.path, settings), folder.path)


def check_inputs(settings):
    """Raises `UsageProblem` for a teacher or texts that cannot be."""
    sources.model_kind(settings.teacher)
    sources.check_data(settings.data)
    transfer.check(settings)


def input_identities(settings):
    """Dict, what tells teacher and texts from changed ones."""
    return sources.teacher_identity(settings) | sources.data_identity(settings)


def plan(settings, identities, folder, screen):
    """The phases of a run.

    Args:
        settings: `Settings`.
        identities: Dict, what tells the inputs from changed ones.
        folder: `RunFolder`.
        screen: `Screen`.

    Returns:
        List of `Phase`.
    """
    corpus = texts.Corpus(folder.path, settings)
    return [
        *first_phases(
            settings,
            identities,
            corpus,
            folder,
            screen,
            functools.partial(arms.check_student, settings, corpus),
        ),
        *_student_phases(settings, corpus, folder, screen),
        *_export_phases(settings, corpus, folder),
    ]


def teacher_phases(settings, identities, corpus, folder, screen, check=None):
    """The phases up to the teacher: texts, transfer set, fine-tuning.

    Args:
        settings: `Settings`.
        identities: Dict, what tells the inputs from changed ones.
        corpus: `Corpus`.
        folder: `RunFolder`.
        screen: `Screen`.
        check: Callable that raises for a teacher that is of no use, before
            it is trained.

    Returns:
        List of `Phase`.
    """
    return [
        Phase(
            name="data",
            title=f"data: {settings.data}",
            options=settings.of("teacher", "vocabulary", *DATA) | identities,
            needs=(),
            run=functools.partial(texts.build, settings, folder.path),
            summary=texts.summary,
            files=texts.FILES,
        ),
        *transfer.phases(settings, corpus, folder.path),
        Phase(
            name="teacher",
            title=f"teacher: {settings.teacher}, fine-tuned if need be",
            options=settings.of(*TEACHER),
            needs=("data",),
            run=functools.partial(
                teaching.fine_tune, settings, corpus, folder.path, screen, check
            ),
            summary=teaching.summary,
            files=(teaching.MODEL,),
        ),
    ]


def first_phases(settings, identities, corpus, folder, screen, check):
    """The phases before the students: those of the teacher, and its logits.

    Args and result as of `teacher_phases`.
    """
    earlier = teacher_phases(
        settings, identities, corpus, folder, screen, check
    )
    texts_only = ("data", "teacher")
    further = [p.name for p in earlier if p.name not in texts_only]
    return [
        *earlier,
        Phase(
            name="signal",
            title="signal: the teacher's logits for the texts",
            options={},
            needs=("teacher", *further),
            run=functools.partial(teaching.signal, corpus, folder.path),
            summary=teaching.signal_summary,
            files=(teaching.LOGITS, teaching.SCORED),
        ),
    ]


def _student_phases(settings, corpus, folder, screen):
    titles = {
        arms.CONTROL: "the student on its labels alone",
        arms.DISTILLED: f"the student, distilled ({settings.method})",
        arms.ALL_LABELS: "the student on all labels, for comparison",
    }
    for seed in settings.seeds:
        for kind in arms.kinds(settings):
            arm = arms.Arm(kind, seed)
            names = list(STUDENT)
            if kind != arms.ALL_LABELS:
                names.append("labels")
            if kind == arms.DISTILLED:
                names += TAUGHT
            starts_from_teacher = (
                settings.student == "shrink" or settings.embeddings == "teacher"
            )
            taught = kind == arms.DISTILLED or starts_from_teacher
            yield Phase(
                name=arm.name,
                title=f"{kind}: {titles[kind]}, seed {seed}",
                options=settings.of(*names),
                needs=("signal",) if taught else ("data",),
                run=functools.partial(
                    arms.train, arm, settings, corpus, folder.path, screen
                ),
                summary=teaching.summary,
                files=(arm.file, arm.predictions),
            )


def _export_phases(settings, corpus, folder):
    yield Phase(
        name="export_teacher",
        title="export: the teacher, to compare with",
        options={},
        needs=("teacher",),
        run=functools.partial(_export_teacher, corpus, folder.path),
        summary=shipping.summary,
        cheap=True,
    )
    for kind in arms.kinds(settings):
        every = [arms.Arm(kind, seed) for seed in settings.seeds]
        yield Phase(
            name=f"export_{kind}",
            title=f"export: {kind}, the seed that is best on dev",
            options={},
            needs=tuple(arm.name for arm in every),
            run=functools.partial(_export_students, every, corpus, folder),
            summary=shipping.summary,
            cheap=True,
        )


def _export_teacher(corpus, folder):
    path = folder / EXPORT / "teacher.tflite"
    teacher = training.load(folder / teaching.MODEL)
    return {"float32": shipping.litert(teacher, path, corpus)}


def _export_students(every, corpus, folder):
    """Exports the best of an arm; the distilled one in all its forms."""
    arm = max(every, key=lambda a: folder.result(a.name)["dev_accuracy"])
    model = training.load(folder.path / arm.file)
    target = folder.path / EXPORT
    files = {
        "float32": shipping.litert(model, target / f"{arm.kind}.tflite", corpus)
    }
    if arm.kind == arms.DISTILLED:
        files["int8"] = shipping.litert(
            model, target / f"{arm.kind}_int8.tflite", corpus, "dynamic"
        )
        files["SavedModel"] = shipping.saved_model(
            model, target / f"{arm.kind}_saved_model", corpus
        )
    return files
