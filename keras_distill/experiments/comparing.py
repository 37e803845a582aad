"""`kd.compare`: students x recipes x seeds on one task, and what they say."""

import inspect

from keras_distill import _kinds
from keras_distill._checks import check_integer
from keras_distill._checks import check_positive
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.experiments import engine
from keras_distill.experiments import exports
from keras_distill.experiments import file_forms
from keras_distill.experiments import results
from keras_distill.experiments.cells import ARM
from keras_distill.experiments.cells import CONTROL
from keras_distill.experiments.cells import Cell
from keras_distill.experiments.report import contents
from keras_distill.experiments.report import html as html_module
from keras_distill.experiments.teaching import as_teacher
from keras_distill.recipes.base import slug
from keras_distill.students.base import as_student
from keras_distill.tasks.base import Task

KINDS = Task.recipes


def compare(  # noqa: PLR0913 - what a command offers, Python does
    task,
    teacher,
    students,
    output,
    recipes=None,
    seeds=3,
    labels=None,
    cost_per_hour=None,
    export=True,
    html=True,
    redo=False,
    settings=None,
    watcher=None,
    keep_weak_teacher=True,
    grid=None,
):
    """Trains every student in every way, with every seed, and compares.

    All recipes of a student start from the same weights with the same seed,
    take the same number of steps, and see dev equally often. The epoch is
    chosen on dev; test is scored once for each cell. A cell that is finished
    is not trained again: run the same call again after an interruption.

    `output` then holds `report.html`, `report.md`, `report.json`, `cells` (of
    each cell its predictions and weights), `phases` (what each was made with,
    and its result) and `export`: the student that is best on dev as files to
    ship, with a `README.md`.

    Args:
        task: `tasks.Task`.
        teacher: `keras.Model`, or `experiments.Teacher`.
        students: Dict from names to `students.Student`, or to callables from
            task and teacher that give a new model each.
        output: Path of a folder, or an open `experiments.RunFolder`.
        recipes: List of `recipes.Recipe`, one of them the control: hard labels
            alone. Defaults to `default_recipes`.
        seeds: Integer, how many, or a list of the seeds themselves.
        labels: Integer. How many train labels the students see, chosen anew
            for each seed; the other rows become transfer text. None: all.
        cost_per_hour: Float, what an hour of training costs, for the report.
        export: Boolean. Whether the best student, and the teacher, are
            exported, to report file size and latency.
        html: Boolean. Whether to write `report.html`, for which jinja2 and
            matplotlib must be installed.
        redo: Boolean. Trains cells anew that were made with other options,
            instead of refusing them.
        settings: Dict that JSON can hold, copied into the report: what is
            needed to repeat the run.
        watcher: `experiments.Watcher`, or None.
        keep_weak_teacher: Boolean. Whether to imitate a teacher that is worse
            on dev than the linear model or than a student's control. Otherwise
            the controls alone are trained, and the report says why.
        grid: `experiments.Grid`, the workers of an Apache Beam pipeline that
            train the cells. None: this process, one after the other.

    Returns:
        Dict: the contents of `report.json`. `verdicts` says in words whether
        distillation helps.

    Raises:
        UsageError: An argument is wrong, or `output` holds cells that were
            made with other options.
        ImportError: jinja2 or matplotlib is missing.

    Example:

    >>> import keras_distill as kd, tempfile
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> part = kd.data.TextDataset(["good", "bad"] * 8, [1, 0] * 8)
    >>> splits = kd.data.TextSplits(part, part, part, ["no", "yes"])
    >>> task = kd.tasks.TextClassification.from_texts(
    ...     splits, kd.data.bert_preprocessor(words, 8))
    >>> teacher = kd.students.text_cnn(2, (6, 4), filters=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = kd.compare(
    ...         task, teacher, {"TextCNN": kd.students.TextCNN(epochs=1)},
    ...         folder, recipes=[kd.recipes.hard(), kd.recipes.kd()], seeds=1,
    ...         export=False, html=False)
    >>> [row["arm"] for row in found["rows"]]
    ['hard labels', 'KD']
    """
    teacher = as_teacher(teacher, task)
    task = task.judged_by(teacher.logits)
    students = as_students(students)
    if recipes is None:
        recipes = default_recipes(task.has_transfer(labels), kinds=task.recipes)
    with as_usage_error(ValueError):
        _check_numbers(labels, cost_per_hour)
        seeds = engine.as_seeds(seeds)
        planned = cells(students, recipes, seeds, labels)
    if html:
        html_module.require()
    about = contents.About(
        "compare", labels, cost_per_hour, export, settings or {}
    )
    with engine.opened(output, "compare") as folder:
        outcome = engine.run(
            planned,
            task,
            teacher,
            folder,
            watcher,
            redo,
            keep_weak_teacher,
            grid,
        )
        files = {}
        if export:
            files = export_best(
                outcome.finished, task, teacher, folder, watcher
            )
        found = contents.build(outcome, task, teacher, files, folder, about)
        contents.write(found, task, folder.path, html)
    return found


def default_recipes(
    transfer, temperature=None, hard_weight=0.5, soft_weight=0.5, kinds=KINDS
):
    """The usual recipes of a task, each with and without transfer text.

    Args:
        transfer: Boolean, whether there is text without labels.
        temperature: Float, of KD. None: the task's own.
        hard_weight: Float, of the labels in the distilled recipes.
        soft_weight: Float, of the teacher in the distilled recipes.
        kinds: Names of those that are wanted, as `Task.recipes`.

    Returns:
        List of `Recipe`.

    Example:

    >>> [recipe.name for recipe in default_recipes(transfer=False)]
    ['hard labels', 'logit MSE', 'KD']
    """
    weights = {"hard_weight": hard_weight, "soft_weight": soft_weight}
    plain = []
    for kind in kinds:
        make = _kinds.load(_kinds.RECIPES[kind])
        given = dict(weights)
        if kind not in _kinds.OWN_TEMPERATURE:
            given["temperature"] = temperature
        accepted = inspect.signature(make).parameters
        plain.append(make(**{k: given[k] for k in given if k in accepted}))
    further = [recipe for recipe in plain if recipe.trains and transfer]
    return [*plain, *(recipe.with_transfer() for recipe in further)]


def cells(students, recipes, seeds, labels):
    """The cells of `compare`, seeds outermost.

    Args:
        students: Dict from names to `Student`.
        recipes: List of `Recipe`.
        seeds: Tuple of integers.
        labels: Integer or None.

    Returns:
        List of `Cell`.

    Raises:
        ValueError: Names are not different, or there is no control.
    """
    engine.check_names("students", list(students))
    engine.check_names("recipes", [recipe.name for recipe in recipes])
    if "teacher" in map(slug, students):
        raise ValueError(
            "`students` must not name one of them 'teacher': the report has "
            f"a row of that name. Received: students {list(students)}"
        )
    if sum(recipe.is_control for recipe in recipes) != 1:
        raise ValueError(
            "`recipes` must hold one without soft loss and without transfer "
            "set, the control: without it nobody can tell whether "
            "distillation helps. Add `recipes.hard()`, of vectors "
            "`recipes.untrained()`. Received: recipes "
            f"{[recipe.name for recipe in recipes]}"
        )
    return [
        cell(name, student, recipe, seed, labels)
        for seed in seeds
        for name, student in students.items()
        for recipe in recipes
    ]


def cell(name, student, recipe, seed, labels, role=None):
    """The `Cell` of a student, a recipe and a seed, and what it is called.

    Args:
        name: String, of the student.
        student: `Student`.
        recipe: `Recipe`.
        seed: Integer.
        labels: Integer or None.
        role: As of `Cell`. Defaults to what the recipe is.
    """
    title = f"{name}, {recipe.name}, seed {seed}"
    return Cell(
        name=f"{slug(name)}.{slug(recipe.name)}.{seed}",
        title=title,
        label=title,
        student_name=name,
        student=student,
        arm=recipe.name,
        recipe=recipe,
        seed=seed,
        labels=labels,
        role=role or (CONTROL if recipe.is_control else ARM),
    )


def as_students(students):
    """A dict of `Student`, made from callables where need be."""
    if not isinstance(students, dict):
        raise UsageError(
            "`students` must be a dict from names to `Student`, or to "
            "callables that give a new student each. "
            f"Received: students={students!r}"
        )
    with as_usage_error(ValueError):
        return {name: as_student(value) for name, value in students.items()}


def _check_numbers(labels, cost_per_hour):
    if labels is not None:
        check_integer("labels", labels, minimum=1)
    if cost_per_hour is not None:
        check_positive("cost_per_hour", cost_per_hour)


def export_best(
    finished,
    task,
    teacher,
    folder,
    watcher,
    forms=file_forms.ALL_FORMS,
    teacher_forms=(file_forms.FLOAT32,),
):
    """Exports the teacher, and of each student the cell best on dev.

    The arm is the one with the best mean on dev, whatever it learns from.

    Args:
        finished: List of `Finished`.
        task: `Task`.
        teacher: `Teacher`.
        folder: `RunFolder`.
        watcher: `Watcher`, or None.
        forms: Which of `file_forms.ENDINGS` the students have.
        teacher_forms: Which of them the teacher has.

    Returns:
        Dict, as `contents.build` takes it.
    """
    best = {
        name: results.to_ship(group)
        for name, group in results.by_student(finished)
    }
    best = {name: cell for name, cell in best.items() if cell is not None}
    places = {name: exports.EXPORT / slug(name) / "student" for name in best}
    files = exports.ship(
        {slug(name): (best[name], places[name], forms) for name in best},
        *(task, teacher, folder, watcher),
        exports.EXPORT / "teacher" / "teacher",
        teacher_forms,
    )
    about = {
        name: {"arm": cell.arm, "seed": cell.seed}
        for name, cell in best.items()
    }
    return {
        name: {"folder": slug(name), **facts, "files": files[slug(name)]}
        for name, facts in ({"teacher": {}} | about).items()
        if slug(name) in files
    }
