"""What is chosen on dev: learning rate, temperature, weights; by halving."""

import dataclasses
import functools
import inspect
import itertools
import math

from keras_distill import recipes
from keras_distill._checks import check_between
from keras_distill._errors import as_usage_error
from keras_distill._watcher import Watcher
from keras_distill.experiments import engine
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import CONTROL
from keras_distill.experiments.cells import TRIAL
from keras_distill.experiments.cells import Cell
from keras_distill.experiments.phases import Phase
from keras_distill.experiments.teaching import as_teacher
from keras_distill.recipes.base import Recipe
from keras_distill.recipes.base import slug
from keras_distill.students.base import Student
from keras_distill.students.base import as_student

# Times the student's own. What comes first is tried first.
RATES = (1.0, 0.5, 2.0, 0.25, 4.0)
SPACE = {"temperature": (2.0, 4.0, 1.0, 8.0), "hard_weight": (0.5, 0.1, 0.9)}
KEPT = 3
# The score of a broken student: below every other one.
BROKEN = -2.0
RATE = "learning_rate"


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What `tune` has chosen.

    Args:
        student: `Student`, with its learning rate.
        recipe: `Recipe`, with its temperature and weights.
        values: Dict from the names of what was tuned to its values.
        trials: Integer, how many trainings it took.
    """

    student: Student
    recipe: Recipe
    values: dict
    trials: int

    def __str__(self):
        return f"{described(self.values)}; {self.trials} trials"


def tune(  # noqa: PLR0913 - as `distill`
    task,
    teacher,
    student,
    output,
    make_recipe=recipes.kd,
    minutes=10.0,
    labels=None,
    seed=0,
    redo=False,
    watcher=None,
    **fixed,
):
    """Chooses learning rate, temperature and weights on dev, in some minutes.

    First the learning rate, by the student on its labels alone: control and
    distilled student then share one that does not favour the teacher. Then the
    arguments that `make_recipe` has of `temperature` and `hard_weight` (the
    soft weight is what is left of 1). Candidates are trained for a ninth of
    the epochs, the better third of them for a third, and the best of these in
    full; what would be used untuned stays in to the end, and wins a tie. How
    many candidates there are follows from the seconds that the first one took;
    where there is time for few, the longer rounds are left out. Test is not
    looked at.

    Args:
        task: `tasks.Task`.
        teacher: `keras.Model`, or `experiments.Teacher`.
        student: `students.Student`, or a callable from task and teacher.
        output: Path of a folder, or an open `experiments.RunFolder`. Each
            trial is kept there: the same call goes on after the last one.
        make_recipe: Callable that gives a `Recipe`, such as `recipes.kd`.
        minutes: Float, what all of it may take, about.
        labels: Integer, how many train labels the student sees. None: all.
        seed: Integer, of all trials.
        redo: Boolean. Makes trials anew that were made with other arguments.
        watcher: `experiments.Watcher`, or None.
        **fixed: Arguments of `make_recipe` that are not tuned; and
            `learning_rate`, which stays the student's if it is named.

    Returns:
        `Tuned`.

    Raises:
        UsageError: An argument is wrong, or `output` holds trials that were
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
    ...     tuned = tune(task, teacher, kd.students.TextCNN(epochs=1),
    ...                  folder, minutes=0.01, hard_weight=0.5)
    >>> sorted(tuned.values)
    ['learning_rate', 'temperature']

    Reference:
        Jamieson and Talwalkar, 2016, https://arxiv.org/abs/1502.07943,
        section 3 (successive halving).
    """
    with as_usage_error(ValueError):
        check_between("minutes", minutes, 0.001, 10**6)
        student = as_student(student)
        own = {key: value for key, value in fixed.items() if key != RATE}
        recipe = make_recipe(**own)
    accepted = inspect.signature(make_recipe).parameters
    # Of a temperature that is nobody's choice the task's stays in to the end.
    free = {
        key: _first(accepted[key].default or getattr(task, key), values)
        for key, values in SPACE.items()
        if key in accepted and key not in fixed
    }
    rates = () if RATE in fixed else RATES
    seconds = 60 * minutes / max(bool(rates) + bool(free), 1)
    teacher = as_teacher(teacher, task)
    bench, values = Bench(task.judged_by(teacher.logits), teacher), {}
    with engine.opened(output, "tune") as folder:
        search = _Search(bench, folder, watcher, redo, seconds, labels, seed)
        if rates:
            best = search.best(
                _Way(
                    {RATE: times * student.learning_rate},
                    dataclasses.replace(
                        student, learning_rate=times * student.learning_rate
                    ),
                    recipes.hard(),
                )
                for times in rates
            )
            student, values = best.student, best.values
        if free:
            best = search.best(
                _way(student, make_recipe, own, dict(zip(free, combination)))
                for combination in itertools.product(*free.values())
            )
            recipe, values = best.recipe, values | best.values
    return Tuned(student, recipe, values, search.trials)


@dataclasses.dataclass(frozen=True)
class _Way:
    """A candidate: what was varied, and what is trained."""

    values: dict
    student: Student
    recipe: Recipe

    def __str__(self):
        return described(self.values)


class _Search:
    """Halvings on one task, with one seed, in one folder."""

    def __init__(self, bench, folder, watcher, redo, seconds, labels, seed):
        self._bench = bench
        self._folder = folder
        self._watcher = watcher or Watcher()
        self._redo = redo
        self._seconds = seconds
        self._labels = labels
        self._seed = seed
        self._names = set()

    @property
    def trials(self):
        """Integer, how many trainings there were."""
        return len(self._names)

    def best(self, ways):
        """The way that is best on dev; the first one of those that are."""
        ways = list(ways)
        rungs = _rungs(ways[0])
        (first,) = self._results(ways[:1], rungs[0])
        seconds = first["seconds"] / rungs[0]
        count, rungs = _plan(len(ways), rungs, self._seconds / seconds)
        left = ways[:count]
        if count == 1:
            self._watcher.line("tune: no time for a second candidate")
            return ways[0]
        for place, epochs in enumerate(rungs):
            scores = [held["score"] for held in self._results(left, epochs)]
            order = sorted(range(len(left)), key=lambda i: (-scores[i], i))
            if place == len(rungs) - 1:
                return left[order[0]]
            kept = {0, *order[: math.ceil(len(left) / KEPT)]}
            left = [left[index] for index in sorted(kept)]
        return left[0]

    def _results(self, ways, epochs):
        phases = [self._phase(way, epochs) for way in ways]
        self._bench.forget()
        self._folder.execute(phases, self._watcher, self._redo)
        self._names.update(phase.name for phase in phases)
        return [self._folder.result(phase.name) for phase in phases]

    def _phase(self, way, epochs):
        title = f"{way.recipe.name}, {way}, {epochs} epochs"
        recipe = way.recipe
        has_more = self._bench.task.has_transfer(self._labels)
        if recipe.is_distilled and has_more and not recipe.transfer:
            recipe = recipe.with_transfer()
        cell = Cell(
            name=f"{TRIAL}{slug(title)}",
            title=f"tune: {title}",
            student_name=way.student.title,
            student=dataclasses.replace(way.student, epochs=epochs),
            arm=way.recipe.name,
            recipe=recipe,
            seed=self._seed,
            labels=self._labels,
            role=CONTROL,
        ).for_task(self._bench.task)
        return Phase(
            name=cell.name,
            title=cell.title,
            options=self._bench.made_with(cell),
            run=functools.partial(self._try, cell),
            summary=_summary,
        )

    def _try(self, cell):
        trained = self._bench.fit(cell, self._watcher)
        score = trained.best.score
        return {
            "score": BROKEN if score is None else score,
            "seconds": trained.seconds,
        }


def described(values):
    """What was varied, in words.

    Example:

    >>> described({"learning_rate": 0.001, "temperature": 2.0})
    'learning rate 0.001, temperature 2'
    """
    told = [f"{key} {value:g}" for key, value in values.items()]
    return ", ".join(told).replace("_", " ")


def _summary(result):
    if result["score"] == BROKEN:
        return "failed: no epoch gave finite logits for dev"
    return f"dev {100 * result['score']:.1f} %"


def _way(student, make_recipe, own, chosen):
    weights = dict(chosen)
    if "hard_weight" in weights:
        weights["soft_weight"] = round(1 - weights["hard_weight"], 6)
    return _Way(chosen, student, make_recipe(**{**weights, **own}))


def _first(default, values):
    """The values, with the one that is used untuned before all others."""
    return (default, *(value for value in values if value != default))


def _rungs(way):
    """The epochs of the rounds: a ninth of all, a third, and all."""
    last = way.student.epochs
    fewest = min(way.recipe.fewest_epochs, last)
    parts = (math.ceil(last / KEPT**power) for power in (2, 1, 0))
    return list(dict.fromkeys(max(fewest, epochs) for epochs in parts))


def _plan(count, rungs, budget):
    """How many candidates to start with, and for which rounds.

    Where not even three fit all rounds, the last rounds are left out.

    Args:
        count: Integer, of candidates.
        rungs: List of integers, the epochs of the rounds.
        budget: Float, how many epochs there is time for.
    """
    for stop in range(len(rungs), 0, -1):
        found = _affordable(count, rungs[:stop], budget)
        if found >= min(KEPT, count):
            break
    return found, rungs[:stop]


def _affordable(count, rungs, budget):
    while count > 1:
        left, needed = count, 0
        for epochs in rungs:
            needed += left * epochs
            left = min(left, math.ceil(left / KEPT) + 1)
        if needed <= budget:
            break
        count -= 1
    return count
