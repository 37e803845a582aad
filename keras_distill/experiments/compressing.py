"""`kd.compress`: a teacher cut to a budget, taught again, in few bits."""

import dataclasses

from keras_distill import recipes
from keras_distill import students
from keras_distill._checks import check_integer
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.experiments import comparing
from keras_distill.experiments import engine
from keras_distill.experiments import file_forms
from keras_distill.experiments import results
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import ARM
from keras_distill.experiments.cuts import PRUNED
from keras_distill.experiments.cuts import Between
from keras_distill.experiments.cuts import Cuts
from keras_distill.experiments.cuts import check_graph
from keras_distill.experiments.report import contents
from keras_distill.experiments.report import html as html_module
from keras_distill.experiments.report import verdict
from keras_distill.experiments.teaching import as_teacher
from keras_distill.pruning import budgets
from keras_distill.pruning import costs
from keras_distill.recipes.base import control_of

TFLITE = (file_forms.FLOAT32, file_forms.INT8, file_forms.INT4)
FORMS = (*TFLITE, file_forms.SAVED_MODEL)
MOST_STEPS = 100
# A front: which of two numbers is smaller, of the models that score more.
FRONTS = ("size_bytes", "latency_ms")


def compress(  # noqa: PLR0913 - what a command offers, Python does
    task,
    teacher,
    budget,
    output,
    recipe=None,
    seeds=1,
    labels=None,
    epochs=4,
    learning_rate=1e-4,
    batch_size=32,
    quantization=None,
    steps=1,
    export=True,
    html=False,
    redo=False,
    settings=None,
    watcher=None,
    keep_weak_teacher=True,
):
    """Cuts a teacher to a budget, teaches it again, and stores it in few bits.

    Three students are within the budget: `pruned`, the teacher without the
    units that are worth least to it on train; `pruned by chance`, the control
    of that choice; and, of a teacher that `students.shrink` knows, `fewer
    layers`, as many as fit. Each is scored as it is cut, trained on its labels
    alone, and taught by the whole teacher. The best of each on dev is exported
    as float32, int8 and int4 TFLite and as a SavedModel, and what of all this
    nothing else beats in size and score, or in latency and score, is told.

    `output` then holds `report.json`, `report.md`, `cuts`, `cells` and
    `export`. The same call goes on where an earlier one was stopped.

    Args:
        task: `tasks.Task`.
        teacher: `keras.Model` with a known graph, or `experiments.Teacher`
            with one.
        budget: Dict as of `pruning.search`, or a string such as
            `"multiplications=50%"`, `"size=1MB"` or `"latency=2ms"`.
        output: Path of a folder, or an open `experiments.RunFolder`.
        recipe: `recipes.Recipe`. Defaults to `recipes.kd()`.
        seeds: Integer, how many, or a list of the seeds themselves.
        labels: As of `distill`.
        epochs: Integer, of each training.
        learning_rate: Float, its peak.
        batch_size: Integer.
        quantization: `"int4"` or `"int8"`: a further student, `pruned, int4`,
            is the cut one trained under the rounding of such a file, which a
            file that is only rounded afterwards may not agree with.
        steps: Integer, how many cuts the budget is reached in; between two of
            them the model learns by the recipe, for as many epochs.
        export: Boolean. Whether files to ship are made, on TensorFlow.
        html: Boolean. Whether to write `report.html`.
        redo: As of `distill`.
        settings: As of `distill`.
        watcher: As of `distill`.
        keep_weak_teacher: As of `distill`.

    Returns:
        Dict: the contents of `report.json`. As of `compare`; `front` lists
        each file with whether others beat it, `cuts` what each student takes
        of the budget, `against` how much better `pruned` is than the others.

    Raises:
        UsageError: An argument is wrong, the budget is below what can be
            reached, or `output` holds cells that were made with other ones.

    Example:

    >>> import keras_distill as kd, tempfile
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> part = kd.data.TextDataset(["good", "bad"] * 8, [1, 0] * 8)
    >>> splits = kd.data.TextSplits(part, part, part, ["no", "yes"])
    >>> task = kd.tasks.TextClassification.from_texts(
    ...     splits, kd.data.bert_preprocessor(words, 8))
    >>> teacher = kd.students.text_cnn(2, (6, 4), filters=8)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = kd.compress(
    ...         task, teacher, "multiplications=50%", folder, epochs=1,
    ...         export=False)
    >>> [(cut["student"], cut["share"] <= 0.5) for cut in found["cuts"]]
    [('pruned', True), ('pruned by chance', True)]
    """
    teacher = as_teacher(teacher, task)
    task = task.judged_by(teacher.logits)
    recipe = recipe or recipes.kd()
    training = {
        "epochs": epochs,
        "learning_rate": learning_rate,
        "batch_size": batch_size,
    }
    with as_usage_error(ValueError):
        budget = _checked(
            budget, labels, steps, training | {"quantization": quantization}
        )
        seeds = engine.as_seeds(seeds)
    check_recipe(recipe)
    check_graph(teacher.model)
    if html:
        html_module.require()
    about = contents.About("compress", labels, None, export, settings or {})
    with engine.opened(output, "compress") as folder:
        bench = Bench(task, teacher)
        taught = with_texts(recipe, task, labels)
        between = Between(steps, bench, taught, labels, training, watcher)
        cuts = Cuts(task, teacher, budget, folder, between)
        folder.execute(cuts.phases, watcher, redo)
        made = cuts.students(training, quantization)
        planned = cells(made, recipe, seeds, labels, task)
        outcome = engine.run(
            planned, task, teacher, folder, watcher, redo, keep_weak_teacher
        )
        finished, files = outcome.finished, {}
        if export:
            files = comparing.export_best(
                finished, task, teacher, folder, watcher, FORMS, TFLITE
            )
        found = contents.build(outcome, task, teacher, files, folder, about)
        found |= _own(finished, cuts, files, recipe.name)
        found |= {"budget": budget}
        found["measured"] += found["told"]
        contents.write(found, task, folder.path, html)
    return found


def cells(made, recipe, seeds, labels, task):
    """The cells of `compress`, seeds outermost.

    Args:
        made: Dict from names to `Student`.
        recipe: `Recipe`.
        seeds: Tuple of integers.
        labels: Integer or None.
        task: `Task`.

    Returns:
        List of `Cell`.
    """
    taught = with_texts(recipe, task, labels)
    alone = dataclasses.replace(recipes.untrained(), name="cut alone")
    control = control_of(task)
    planned = comparing.cells(made, [control, taught], seeds, labels)
    first = [
        comparing.cell(name, student, alone, seed, labels, role=ARM)
        for seed in seeds
        for name, student in made.items()
        if control.trains
    ]
    return [*first, *planned]


def with_texts(recipe, task, labels):
    """The recipe, on data without labels, too, where there are any."""
    if task.has_transfer(labels) and not recipe.transfer:
        return recipe.with_transfer()
    return recipe


def front(files):
    """Each file, and whether another one beats it.

    Args:
        files: Dict, as `contents.build` takes it.

    Returns:
        List of dicts: `model`, `form`, `test_score`, `size_bytes`,
        `latency_ms`, and `best_for`, those of `FRONTS` in which no other file
        is smaller and scores at least as much.
    """
    rows = [
        {"model": name, "form": form}
        | {key: file[key] for key in ("test_score", *FRONTS)}
        for name, entry in files.items()
        for form, file in entry["files"].items()
        if "test_score" in file
    ]
    for row in rows:
        row["best_for"] = [
            key
            for key in FRONTS
            if not any(_beats(other, row, key) for other in rows)
        ]
    return rows


def _beats(other, row, key):
    """Whether a file is better in one of two, and no worse in the other."""
    better = other["test_score"] - row["test_score"], row[key] - other[key]
    return min(better) >= 0 and max(better) > 0


def _against(finished, arm):
    """How much better `pruned` is than each other student, taught alike."""
    groups = {
        name: [f for f in group if f.cell.arm.startswith(arm)]
        for name, group in results.by_student(finished)
    }
    return {
        name: results.difference(group, groups[PRUNED])
        for name, group in groups.items()
        if name != PRUNED and results.paired(group, groups[PRUNED])
    }


def _own(finished, cuts, files, arm):
    """What the report of `compress` says beside that of `compare`."""
    against = _against(finished, arm)
    told = [
        f"{PRUNED} against {name}, both taught: "
        f"{verdict.signed(difference['value'])} points "
        f"({verdict.interval(difference)})."
        for name, difference in against.items()
    ]
    return {
        "cuts": cuts.told(),
        "front": front(files),
        "against": against,
        "told": told + cuts.notes(),
    }


def _checked(budget, labels, steps, training):
    """The budget as a dict; raises `ValueError` for what cannot be."""
    if isinstance(budget, str):
        budget = budgets.parse(budget)
    costs.check_budget(budget)
    if labels is not None:
        check_integer("labels", labels, minimum=1)
    check_steps(steps)
    students.Student(**training)
    return budget


def check_steps(steps):
    """Raises `ValueError` unless it is a number of cuts."""
    check_integer("steps", steps, 1, MOST_STEPS)


def check_recipe(recipe):
    """Raises `UsageError` for a recipe that cut models cannot learn by."""
    if not recipe.is_distilled:
        raise UsageError(
            "`recipe` must learn from the teacher; the student on its labels "
            f"alone is trained in any case. Received: recipe={recipe.name!r}"
        )
    if recipe.needs_states or recipe.matches is not None:
        raise UsageError(
            "`recipe` must learn from logits: states of a cut model have other "
            "widths, and no names that are known. Take kd, mse or annealing. "
            f"Received: recipe={recipe.name!r}"
        )
