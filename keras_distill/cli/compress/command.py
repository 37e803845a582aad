"""`keras-distill compress`: options in, tables out."""

from keras_distill import students
from keras_distill._errors import as_usage_error
from keras_distill.cli.shared import choices
from keras_distill.cli.shared import results
from keras_distill.cli.shared.options import given
from keras_distill.experiments import compressing
from keras_distill.experiments import cuts
from keras_distill.experiments import defaults
from keras_distill.experiments import engine
from keras_distill.experiments.exports import size
from keras_distill.experiments.prepared import Prepared
from keras_distill.experiments.prepared import open_folder
from keras_distill.experiments.report import html
from keras_distill.pruning import budgets

# What stands in for a student of this run, to choose how it is trained.
COPIED = "shrink"


def run(options, screen):
    """Runs the command.

    Args:
        options: `Compress`.
        screen: `Screen`.

    Raises:
        UsageError: The options, the data or the model are wrong.
    """
    what, redo = options.what, options.run.redo
    recipe = choices.recipe(what.method, {}, "--method")
    compressing.check_recipe(recipe)
    chosen = choices.preparation(options, [COPIED])
    with as_usage_error(ValueError, advice="See `--help`."):
        budget = budgets.parse(what.budget)
        compressing.check_steps(what.steps)
        seeds = engine.as_seeds(choices.seeds(options.run.seeds))
        usual = defaults.of_student(students.Shrink, chosen, [recipe])
        usual = {name: usual[name] for name in ("epochs", "learning_rate")}
        if chosen.task_kind.cut_learning_rate is not None:
            usual["learning_rate"] = chosen.task_kind.cut_learning_rate
        copied = students.Shrink(**usual | given(options.learning))
        recipe.check_student(copied)
    if options.run.html:
        with as_usage_error(ImportError, advice="Or leave `--html` out."):
            html.require()

    def check(task, model):
        cuts.check(task, model, budget)

    with open_folder(what.output, "compress", chosen) as folder:
        prepared = Prepared(chosen, folder)
        folder.execute(prepared.phases(screen, check), screen, redo)
        learning = choices.for_rows({COPIED: copied}, options, prepared.task)
        training = {
            name: getattr(learning[COPIED], name)
            for name in ("epochs", "learning_rate", "batch_size")
        }
        settings = {
            **training,
            "quantization": options.learning.quantization,
            "method": what.method,
            "budget": what.budget,
            "steps": what.steps,
            "seeds": list(seeds),
            "output": str(what.output),
        }
        found = compressing.compress(
            prepared.task,
            prepared.teacher,
            budget,
            folder,
            recipe,
            seeds=seeds,
            labels=chosen.labels,
            **training,
            quantization=options.learning.quantization,
            steps=what.steps,
            html=options.run.html,
            redo=redo,
            settings=prepared.settings() | settings,
            watcher=screen,
            keep_weak_teacher=choices.keeps_weak_teacher(options.run),
        )
    _show(found, what, screen)


def _show(found, what, screen):
    cuts = ", ".join(
        f"{cut['student']} {cut['share']:.0%}" for cut in found["cuts"]
    )
    results.show_students(found, f"Within {what.budget}: {cuts}. ", screen)
    screen.table(
        "The files. Best: nothing smaller, or nothing faster, scores as much.",
        ("model", "form", "test %", "size", "ms", "best for"),
        [_file(row) for row in found["front"]],
    )
    results.show_verdicts(found, screen)
    for sentence in found["told"]:
        screen.line(sentence)
    screen.line(
        f"Written in {what.output}: report.md, report.json, cuts, export"
    )


def _file(row):
    return [
        row["model"],
        row["form"],
        f"{100 * row['test_score']:.1f}",
        size(row["size_bytes"]),
        f"{row['latency_ms']:.3g}",
        ", ".join(name.split("_")[0] for name in row["best_for"]),
    ]
