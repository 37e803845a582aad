"""`keras-distill compare`: options in, tables out."""

from keras_distill import recipes as recipes_module
from keras_distill._checks import check_positive
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill._kinds import CONTROLS
from keras_distill._kinds import OWN_TEMPERATURE
from keras_distill._kinds import UNTRAINED
from keras_distill.cli.compare.options import TRANSFER
from keras_distill.cli.shared import choices
from keras_distill.cli.shared import results
from keras_distill.cli.shared.options import AUTO
from keras_distill.experiments import comparing
from keras_distill.experiments import engine
from keras_distill.experiments.grid import Grid
from keras_distill.experiments.prepared import Prepared
from keras_distill.experiments.prepared import open_folder
from keras_distill.experiments.report import html

SEEDS, SMOKE_SEEDS = (3,), (1,)


def run(options, screen):
    """Runs the command.

    Args:
        options: `Compare`.
        screen: `Screen`.

    Raises:
        UsageError: The options, the data or the teacher are wrong.
    """
    what, redo = options.what, options.run.redo
    named = recipes(options)
    wants_texts = not named or any(name.endswith(TRANSFER) for name in named)
    chosen = choices.preparation(options, what.student if wants_texts else ())
    _check(options, chosen.task_kind)
    students = {
        student.title: student
        for student in choices.students(
            what.student,
            options.learning,
            chosen,
            list(
                (named or recipes(options, chosen.task_kind.recipes)).values()
            ),
        ).values()
    }
    seeds = _seeds(options)
    if not options.run.no_html:
        with as_usage_error(ImportError, advice="Or add `--no-html`."):
            html.require()

    flags = choices.beam_flags(options.beam)

    def students_for(task):
        return choices.for_rows(students, options, task)

    def planned(task):
        wanted = named or recipes(options, default_arms(task, chosen.labels))
        return list(wanted.values())

    def check(task, model):
        found = comparing.cells(
            students_for(task), planned(task), seeds, chosen.labels
        )
        engine.check(found, task, model)

    with open_folder(what.output, "compare", chosen) as folder:
        prepared = Prepared(chosen, folder)
        folder.execute(prepared.phases(screen, check), screen, redo)
        ready = students_for(prepared.task)
        settings = {
            "students": {name: vars(s) for name, s in ready.items()},
            "arms": list(named),
            **vars(options.imitation),
            "seeds": list(seeds),
            "cost_per_hour": options.run.cost_per_hour,
            "output": str(what.output),
        }
        found = comparing.compare(
            prepared.task,
            prepared.teacher,
            ready,
            folder,
            planned(prepared.task),
            seeds=seeds,
            labels=chosen.labels,
            cost_per_hour=options.run.cost_per_hour,
            html=not options.run.no_html,
            redo=redo,
            settings=prepared.settings() | settings,
            watcher=screen,
            keep_weak_teacher=choices.keeps_weak_teacher(options.run),
            grid=flags and Grid.of(prepared, flags),
        )
    _show(found, what.output, screen)


def default_arms(task, labels):
    """Names of arms: with text without labels where there is such text."""
    further = []
    if task.has_transfer(labels):
        further = [name for name in task.recipes if name != UNTRAINED]
    return [*task.recipes, *(f"{name}{TRANSFER}" for name in further)]


def recipes(options, names=None):
    """Dict from the names of arms to their recipes.

    Args:
        options: `Compare`.
        names: Names. Defaults to those of the options; none for `auto`.
    """
    if names is None:
        names = () if options.what.arms == "auto" else options.what.arms
    taught = {
        key: value
        for key, value in vars(options.imitation).items()
        if value != AUTO
    }
    found = {}
    for name in names:
        kind = name.removesuffix(TRANSFER)
        accepted = choices.parameters(kind)
        values = {key: taught[key] for key in accepted if key in taught}
        if kind in OWN_TEMPERATURE:
            # `--temperature` is that of probabilities.
            values.pop("temperature", None)
        recipe = choices.recipe(kind, values, "--arms")
        found[name] = (
            recipe.with_transfer() if name.endswith(TRANSFER) else recipe
        )
    return found


def _check(options, task_kind):
    what, run = options.what, options.run
    if not what.student or len(set(what.student)) < len(what.student):
        raise UsageError(
            "`--student` must be one or more different kinds. "
            f"Received: student={list(what.student)}"
        )
    if what.arms != "auto":
        _check_arms(what.arms, task_kind.recipes[0])
    with as_usage_error(ValueError, advice="See `--help`."):
        recipes_module.annealing(options.imitation.max_temperature)
        if run.cost_per_hour is not None:
            check_positive("cost_per_hour", run.cost_per_hour, 1e9)


def _check_arms(arms, control):
    if len(set(arms)) < len(arms):
        raise UsageError(f"`--arms` must differ. Received: arms={list(arms)}")
    others = {*CONTROLS} - {control}
    if control not in arms or others & {*arms}:
        raise UsageError(
            f"`--arms` must hold {control}, the control of this task, and not "
            f"{' or '.join(others)}: without it nobody can tell whether "
            f"distillation helps. Received: arms={list(arms)}"
        )


def _seeds(options):
    typed = options.run.seeds
    if typed == "auto":
        typed = SMOKE_SEEDS if options.run.smoke else SEEDS
    with as_usage_error(ValueError, advice="See `--help`."):
        return engine.as_seeds(choices.seeds(typed))


def _show(found, output, screen):
    results.show_students(found, "", screen)
    results.show_verdicts(found, screen)
    names = ["report.md", "report.json", *["export"] * bool(found["exports"])]
    if (output / "report.html").exists():
        names.insert(0, "report.html")
    screen.line(f"Written in {output}: {', '.join(names)}")
