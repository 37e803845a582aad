"""`kd.distill`: one student with and without the teacher, and its files."""

from keras_distill import recipes
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.experiments import defaults
from keras_distill.experiments import engine
from keras_distill.experiments import exports
from keras_distill.experiments import file_forms
from keras_distill.experiments import results
from keras_distill.experiments.cells import CONTROL
from keras_distill.experiments.cells import REFERENCE
from keras_distill.experiments.cells import Cell
from keras_distill.experiments.report import contents
from keras_distill.experiments.report.numbers import count
from keras_distill.experiments.teaching import as_teacher
from keras_distill.recipes.base import control_of
from keras_distill.students.base import as_student

DISTILLED, ALL_LABELS = "distilled", "all_labels"
LABELLED = "distilled_labelled"


def distill(  # noqa: PLR0913 - what a command offers, Python does
    task,
    teacher,
    student,
    output,
    recipe=None,
    labels=None,
    seeds=1,
    export=True,
    redo=False,
    settings=None,
    watcher=None,
    keep_weak_teacher=True,
):
    """Distils a student, shows what the teacher was worth, and exports.

    Cells for each seed: `control`, the student on its labels alone;
    `distilled`, the student with the teacher, on text without labels too;
    `distilled_labelled`, without the transfer set, where that is all such text
    (whether made text helps differs between data); `all_labels`, the student
    on all labels, where `labels` keeps some back. All take the same number of
    steps from the same weights. The epoch is chosen on dev; test is scored
    once. Beside them stands a linear model on the same labels. Exported is the
    arm that is best on dev of `control` and what is distilled, of several
    seeds the one that is best on dev.

    `output` then holds `report.json`, `cells` and `export`, with a model card.
    The same call goes on where an earlier one was stopped.

    Args:
        task: `tasks.Task`.
        teacher: `keras.Model`, or `experiments.Teacher`.
        student: `students.Student`, or a callable from task and teacher.
        output: Path of a folder, or an open `experiments.RunFolder`.
        recipe: `recipes.Recipe`. Defaults to `recipes.pooled()` where an
            encoder of KerasHub teaches a `TextCNN` or `BiLSTM` the classes
            of texts, else to `recipes.kd()`.
        labels: Integer, how many train labels the student sees. None: all.
        seeds: Integer, how many, or a list of the seeds themselves.
        export: Boolean. Whether files to ship are made, on TensorFlow.
        redo: Boolean. Makes cells anew that were made with other arguments,
            instead of refusing them.
        settings: Dict that JSON can hold, copied into the report.
        watcher: `experiments.Watcher`, or None.
        keep_weak_teacher: Boolean. Whether to imitate a teacher that is worse
            on dev than the linear model or than the control. Otherwise the
            distilled cells are left out, and the report says why.

    Returns:
        Dict: the contents of `report.json`. `models` holds the teacher, the
        linear model and the three cells, `difference` what the teacher brings.

    Raises:
        UsageError: An argument is wrong, or `output` holds cells that were
            made with other ones.

    Example:

    >>> import keras_distill as kd, tempfile
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> part = kd.data.TextDataset(["good", "bad"] * 8, [1, 0] * 8)
    >>> splits = kd.data.TextSplits(part, part, part, ["no", "yes"])
    >>> task = kd.tasks.TextClassification.from_texts(
    ...     splits, kd.data.bert_preprocessor(words, 8))
    >>> teacher = kd.students.text_cnn(2, (6, 4), filters=4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = kd.distill(
    ...         task, teacher, kd.students.TextCNN(width=4, epochs=1), folder,
    ...         export=False)
    >>> [model["name"] for model in found["models"]]
    ['teacher', 'linear', 'control', 'distilled']
    """
    teacher = as_teacher(teacher, task)
    task = task.judged_by(teacher.logits)
    with as_usage_error(ValueError):
        student = as_student(student)
        seeds = engine.as_seeds(seeds)
    if recipe is None:
        name = defaults.of_recipe(task, student, teacher.model)
        recipe = getattr(recipes, name)()
    planned = cells(task, student, recipe, labels, seeds)
    about = contents.About("distill", labels, None, export, settings or {})
    with engine.opened(output, "distill") as folder:
        outcome = engine.run(
            planned, task, teacher, folder, watcher, redo, keep_weak_teacher
        )
        finished, files = outcome.finished, {}
        if export:
            files = _export(finished, task, teacher, folder, watcher)
        shipped = _shipped(finished, files, student.title)
        found = contents.build(outcome, task, teacher, shipped, folder, about)
        found |= _own(found, files)
        contents.write(found, task, folder.path)
    return found


def cells(task, student, recipe, labels, seeds):
    """The cells of `distill`, seeds outermost.

    Args:
        task: `Task`.
        student: `Student`.
        recipe: `Recipe`.
        labels: Integer or None.
        seeds: Tuple of integers.

    Returns:
        List of `Cell`.
    """
    if not recipe.is_distilled:
        raise UsageError(
            "`recipe` must learn from the teacher; the student on its labels "
            f"alone is trained in any case. Received: recipe={recipe.name!r}"
        )
    plain, hard = recipe, control_of(task)
    alone = "on its labels alone" if hard.trains else "as it starts"
    if task.has_transfer(labels) and not recipe.transfer:
        recipe = recipe.with_transfer()
    ways = {
        CONTROL: (f"the student {alone}", hard, labels, CONTROL),
        DISTILLED: (
            f"the student, distilled ({recipe.name})",
            recipe,
            labels,
            "arm",
        ),
    }
    if plain is not recipe and not task.has_unlabelled(labels):
        ways[LABELLED] = (
            f"the student, distilled on labelled text alone ({plain.name})",
            plain,
            labels,
            "arm",
        )
    if labels is not None:
        ways[ALL_LABELS] = (
            "the student on all labels, for comparison",
            hard,
            None,
            REFERENCE,
        )
    return [
        Cell(
            name=f"{arm}_seed_{seed}",
            title=f"{arm}: {title}, seed {seed}",
            student_name=student.title,
            student=student,
            arm=arm,
            recipe=how,
            seed=seed,
            labels=count,
            role=role,
        )
        for seed in seeds
        for arm, (title, how, count, role) in ways.items()
    ]


def _export(finished, task, teacher, folder, watcher):
    """Exports the best seed of each arm, the best arm in all forms.

    The distilled one has all forms in any case: what it is worth as a file is
    what the run was made for.

    Returns:
        Dict from `"teacher"` and each arm to its files by form.
    """
    shipped = results.to_ship(finished)
    in_all_forms = {DISTILLED, shipped and shipped.arm}
    students = {
        arm: (
            results.best_on_dev(group).cell,
            exports.EXPORT / arm,
            file_forms.ALL_FORMS
            if arm in in_all_forms
            else (file_forms.FLOAT32,),
        )
        for arm, group in results.by_arm(finished)
        if results.whole(group)
    }
    return exports.ship(students, task, teacher, folder, watcher)


def _shipped(finished, files, title):
    """What `contents.build` wants to know of the exports."""
    found = {
        name: {"folder": ".", "files": files[name]}
        for name in ("teacher",)
        if name in files
    }
    cell = results.to_ship(finished)
    if cell is not None and cell.arm in files:
        found[title] = {
            "folder": ".",
            "files": files[cell.arm],
            "arm": cell.arm,
            "seed": cell.seed,
        }
    return found


def _own(found, files):
    """What the report of `distill` says in other words than `compare`'s."""
    (verdict,) = found["verdicts"]
    arms = [row["arm"] for row in found["rows"]]
    before = len(found["models"]) - len(arms)
    models = [
        {**model, "files": files.get(model["name"], {})}
        for model in found["models"][:before]
    ]
    for name, model in zip(arms, found["models"][before:]):
        how = {
            DISTILLED: "distilled",
            LABELLED: "distilled without transfer set",
        }.get(name, "student")
        models.append(
            {
                **model,
                "name": name,
                "description": f"{how}, "
                f"{count(model['labels'], found['task']['label_noun'])}",
                "files": files.get(name, {}),
            }
        )
    exported = [e["arm"] for e in found["exports"].values() if "arm" in e]
    return {
        "models": models,
        "difference": verdict["difference"],
        "exported": exported[0] if exported else None,
    }
