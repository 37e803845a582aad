"""`keras-distill distill`: options in, tables out."""

from keras_distill import _kinds
from keras_distill._errors import as_usage_error
from keras_distill.cli.distill import table
from keras_distill.cli.shared import choices
from keras_distill.cli.shared.options import AUTO
from keras_distill.cli.shared.options import given
from keras_distill.experiments import defaults
from keras_distill.experiments import distilling
from keras_distill.experiments import engine
from keras_distill.experiments import tuning
from keras_distill.experiments.prepared import Prepared
from keras_distill.experiments.prepared import open_folder

# What `--temperature` is to recipes that start from one.
START = "max_temperature"
SMOKE_START = 2


def run(options, screen):
    """Runs the command.

    Args:
        options: `Distill`.
        screen: `Screen`.

    Raises:
        UsageError: The options, the data or the teacher are wrong.
    """
    what, redo = options.what, options.run.redo
    minutes = choices.minutes("--tune", options.run.tune)
    values = taught_by(options)
    recipe = choices.recipe(named(what), values, "--method")
    chosen = choices.preparation(options, [what.student])
    students = choices.students(
        [what.student], options.learning, chosen, [recipe]
    )
    with as_usage_error(ValueError, advice="See `--help`."):
        seeds = engine.as_seeds(choices.seeds(options.run.seeds))

    def student_for(task):
        (student,) = choices.for_rows(students, options, task).values()
        return student

    def method_for(task, model):
        # One made from scratch knows nothing beside the labels to tell.
        if what.method != AUTO or chosen.source.is_new:
            return named(what), recipe
        name = defaults.of_recipe(task, student_for(task), model)
        return name, choices.recipe(name, values, "--method")

    def check(task, model):
        _, way = method_for(task, model)
        planned = distilling.cells(
            task, student_for(task), way, chosen.labels, seeds
        )
        engine.check(planned, task, model)

    with open_folder(what.output, "distill", chosen) as folder:
        prepared = Prepared(chosen, folder)
        folder.execute(prepared.phases(screen, check), screen, redo)
        student, tuned = student_for(prepared.task), None
        method, way = method_for(prepared.task, prepared.model)
        if minutes is not None:
            tuned = tuning.tune(
                prepared.task,
                prepared.teacher,
                student,
                folder,
                _kinds.load(_kinds.RECIPES[method]),
                minutes,
                chosen.labels,
                seeds[0],
                redo,
                screen,
                **values,
                **{
                    name: value
                    for name, value in given(options.learning).items()
                    if name == tuning.RATE
                },
            )
            student, way = tuned.student, tuned.recipe
            screen.line(f"tuned: {tuned}")
        settings = {
            "student": next(iter(students)),
            **vars(student),
            "method": method,
            **choices.parameters(method),
            **values,
            **(tuned.values if tuned else {}),
            "tune": options.run.tune,
            "seeds": list(seeds),
            "output": str(what.output),
        }
        found = distilling.distill(
            prepared.task,
            prepared.teacher,
            student,
            folder,
            way,
            labels=chosen.labels,
            seeds=seeds,
            redo=redo,
            settings=prepared.settings() | settings,
            watcher=screen,
            keep_weak_teacher=choices.keeps_weak_teacher(options.run),
        )
    table.show(found, what, screen)


def named(what):
    """The method by its name.

    What nobody has chosen follows from the teacher, once it is loaded, and has
    the options of `kd` in any case.
    """
    return defaults.KD if what.method == AUTO else what.method


def taught_by(options):
    """The options of `--method` that were given, by the recipe's names."""
    values = given(options.imitation)
    if START in choices.parameters(named(options.what)):
        start = values.pop("temperature", None)
        if start is not None:
            values[START] = int(start) if start % 1 == 0 else start
        elif options.run.smoke:
            values[START] = SMOKE_START
    return values
