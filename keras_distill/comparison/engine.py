"""`compare`: arms x seeds on one task, and what they say."""

import contextlib
import dataclasses
import gc
import json
import pathlib

import keras

from keras_distill._checks import check_integer
from keras_distill._checks import check_positive
from keras_distill.comparison import cards
from keras_distill.comparison import cells
from keras_distill.comparison import exports
from keras_distill.comparison import html
from keras_distill.comparison import report
from keras_distill.comparison import results
from keras_distill.comparison.arms import as_students
from keras_distill.comparison.arms import check_comparison
from keras_distill.comparison.arms import default_arms


class Watcher:
    """What a comparison tells while it runs. This one tells nothing."""

    def line(self, text):
        """Takes one line of text on what starts or is done.

        Args:
            text: String.
        """

    @contextlib.contextmanager
    def training(self, name, steps):
        """Surrounds the training of one cell.

        Args:
            name: String, the cell.
            steps: Integer, how many steps it takes.

        Yields:
            List of Keras callbacks.
        """
        del name, steps
        yield []


@dataclasses.dataclass(frozen=True)
class CompareOptions:
    """Options of `compare`, which takes them as keywords.

    Args:
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
        watcher: `Watcher`.
    """

    labels: int | None = None
    cost_per_hour: float | None = None
    export: bool = True
    html: bool = True
    redo: bool = False
    settings: dict = dataclasses.field(default_factory=dict)
    watcher: Watcher = dataclasses.field(default_factory=Watcher)

    def __post_init__(self):
        if self.labels is not None:
            check_integer("labels", self.labels, minimum=1)
        if self.cost_per_hour is not None:
            check_positive("cost_per_hour", self.cost_per_hour)


def compare(task, students, output, arms=None, seeds=3, **options):
    """Trains every student in every way, with every seed, and compares.

    All arms of a student start from the same weights with the same seed, take
    the same number of steps, and see dev equally often. The epoch is chosen on
    dev; test is scored once for each cell. A cell that is finished is not
    trained again: run the same call again after an interruption.

    `output` then holds `report.html`, `report.md`, `report.json`, `cells` (for
    each cell what it was made with, its curves, predictions and weights) and
    `export`: the student that is best on dev as files to ship, with a
    `README.md`.

    Args:
        task: `Task`.
        students: Dict from names to `Student`, or to callables that build a
            student each.
        output: Path of a folder.
        arms: List of `Arm`, one of them the control: hard labels alone.
            Defaults to `default_arms`.
        seeds: Integer, how many, or a list of the seeds themselves.
        **options: Fields of `CompareOptions`.

    Returns:
        Dict: the contents of `report.json`. `verdicts` says in words whether
        distillation helps.

    Raises:
        ValueError: An argument is wrong, or `output` holds cells that were
            made with other options.
        ImportError: jinja2 or matplotlib is missing.

    Example:

    >>> import keras_distill as kd, tempfile
    >>> from keras_distill.comparison import Arm, Student, Task
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> part = kd.data.TextDataset(["good", "bad"] * 8, [1, 0] * 8)
    >>> splits = kd.data.TextSplits(part, part, part, ["no", "yes"])
    >>> build = lambda: kd.students.text_cnn(2, (6, 4), filters=4)
    >>> preprocessor = kd.data.bert_preprocessor(words, 8)
    >>> task = Task.from_texts(splits, preprocessor, build())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = compare(
    ...         task, {"TextCNN": Student(build, epochs=1)}, folder,
    ...         arms=[Arm("hard labels"), Arm("KD", kd.losses.ForwardKL())],
    ...         seeds=1, export=False, html=False)
    >>> [row["arm"] for row in found["rows"]]
    ['hard labels', 'KD']
    """
    options = CompareOptions(**options)
    students = as_students(students)
    if arms is None:
        arms = default_arms(task.has_transfer(options.labels))
    seeds = check_comparison(students, arms, seeds)
    _check_arms(task, arms, options)
    if options.html:
        html.require()
    output = pathlib.Path(output)
    plan = _plan(task, students, output, (arms, seeds), options)
    finished = _run(plan, task, options)
    files = {}
    if options.export and keras.backend.backend() == "tensorflow":
        files = exports.export(finished, task, output / "export", options)
    found = report.build(finished, task, files, options)
    report.write(found, output, options.html)
    if files:
        cards.write(found, task, output / "export")
    return found


def _plan(task, students, output, arms_and_seeds, options):
    """Pairs of a cell and what it is made with, seeds outermost."""
    arms, seeds = arms_and_seeds
    found = []
    for seed in seeds:
        for name, student in students.items():
            initial = cells.initial_weights(student, seed)
            for arm in arms:
                cell = cells.Cell(
                    name, student, arm, seed, options.labels, output / "cells"
                )
                made_with = cell.made_with(task, initial)
                found.append((cell, json.loads(json.dumps(made_with))))
    if not options.redo:
        _check_unchanged(found)
    return found


def _run(plan, task, options):
    """Trains what is not finished; a list of `Finished` by student and arm."""
    watcher = options.watcher
    for number, (cell, made_with) in enumerate(plan, start=1):
        record = cell.record()
        if record is not None and record["made_with"] == made_with:
            watcher.line(f"already done: {cell.name} ({_score(record)})")
            continue
        steps = cell.steps(task) * cell.student.epochs
        with watcher.training(cell.name, steps) as callbacks:
            watcher.line(f"[{number}/{len(plan)}] {cell.name}")
            record = cells.train(cell, task, made_with, callbacks)
        # Models are cycles; without this many of them pile up.
        gc.collect()
        watcher.line(f"      {_score(record)}")
    return [
        results.Finished(
            cell, cell.record()["result"], cell.predictions()["test_logits"]
        )
        for cell, _ in plan
    ]


def _score(record):
    result = record["result"]
    return (
        f"dev {100 * result['dev_accuracy']:.1f} %, "
        f"test {100 * result['test_accuracy']:.1f} %, "
        f"{result['seconds']:.0f} s"
    )


def _check_arms(task, arms, options):
    for arm in arms:
        if arm.transfer and not task.has_transfer(options.labels):
            raise ValueError(
                f"The arm {arm.name!r} needs text without labels: a transfer "
                "set in the task, train rows without a label, or fewer "
                f"`labels`. Received: labels={options.labels}, no such text"
            )
        if arm.matches is not None and task.teacher is None:
            raise ValueError(
                f"The arm {arm.name!r} has `matches` and needs the teacher "
                "itself: pass `teacher` to the `Task`. Received: teacher=None"
            )


def _check_unchanged(plan):
    """Raises `ValueError` if a finished cell was made with other options."""
    changed, parts = [], set()
    for cell, made_with in plan:
        record = cell.record()
        if record is None or record["made_with"] == made_with:
            continue
        old = record["made_with"]
        changed.append(cell.name)
        parts |= {key for key in made_with if old.get(key) != made_with[key]}
    if changed:
        raise ValueError(
            f"`output` holds {len(changed)} finished cells that were made "
            f"with another {', another '.join(sorted(parts))}, such as "
            f"{changed[0]!r}. Choose another `output`, or pass `redo=True` to "
            f"train these cells anew. Received: output={plan[0][0].folder}"
        )
