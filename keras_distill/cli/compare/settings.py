"""The settings of each student, and the arms, from the options."""

import dataclasses

from keras_distill._checks import check_integer
from keras_distill._checks import check_positive
from keras_distill.cli import options as distill_options
from keras_distill.cli import settings as distill_settings
from keras_distill.cli.problems import UsageProblem
from keras_distill.cli.problems import as_usage_problem

SEEDS = (3,)
SMOKE_SEEDS = (1,)
PLAIN = ("hard", "mse", "kd")
TRANSFER = "+transfer"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What a comparison is made with.

    Args:
        students: Dict from each student's kind to its `cli.settings.Settings`;
            they differ in what depends on the student alone.
        arms: Tuple of names, or None for those that fit the data.
        max_temperature: Integer, of annealing.
        cost_per_hour: Float or None.
        html: Boolean.
    """

    students: dict
    arms: tuple | None
    max_temperature: int
    cost_per_hour: float | None
    html: bool

    @property
    def shared(self):
        """`cli.settings.Settings`, for what does not depend on the student."""
        return next(iter(self.students.values()))

    def resolved(self):
        """All of it, as JSON holds it."""
        return {
            "students": {
                kind: settings.of(*vars(settings))
                for kind, settings in self.students.items()
            },
            "arms": self.arms,
            "max_temperature": self.max_temperature,
            "cost_per_hour": self.cost_per_hour,
        }


def settle(options):
    """Decides every `auto` that needs no data, and checks.

    Args:
        options: `Compare`.

    Returns:
        `Settings`.

    Raises:
        UsageProblem: An option is out of range or fits no other.
    """
    what, learning, run = options.what, options.learning, options.run
    if not what.student or len(set(what.student)) < len(what.student):
        raise UsageProblem(
            "`--student` must be one or more different kinds. "
            f"Received: student={list(what.student)}"
        )
    if learning.layers != "auto" and "shrink" not in what.student:
        raise UsageProblem(
            "`--layers` is for `--student shrink`; leave it out. Received: "
            f"layers={learning.layers}, student={list(what.student)}"
        )
    distill_settings.check_embeddings(vars(learning), what.student)
    arms = None if what.arms == "auto" else tuple(what.arms)
    students = {
        kind: distill_settings.settle(_as_distill(options, kind))
        for kind in what.student
    }
    _check_arms(arms, students)
    with as_usage_problem(ValueError, advice="See `--help`."):
        check_integer("max_temperature", learning.max_temperature, minimum=1)
        if run.cost_per_hour is not None:
            check_positive("cost_per_hour", run.cost_per_hour)
        _check_annealing(arms, students, learning.max_temperature)
    return Settings(
        students,
        arms,
        learning.max_temperature,
        run.cost_per_hour,
        not run.no_html,
    )


def _as_distill(options, kind):
    """The same as options of `keras-distill distill`, for one student."""
    what, learning, run = options.what, options.learning, options.run
    seeds = SMOKE_SEEDS if run.smoke else SEEDS
    values = {**vars(learning)}
    del values["max_temperature"]
    if kind == "shrink":
        values |= {"embeddings": "random", "embedding_rank": None}
    else:
        values["layers"] = "auto"
    return distill_options.Distill(
        what=distill_options.What(
            teacher=what.teacher,
            data=what.data,
            student=kind,
            output=what.output,
        ),
        texts=options.texts,
        transfer=options.transfer,
        teaching=options.teaching,
        learning=distill_options.Learning(**values),
        run=distill_options.Run(
            seeds=seeds if run.seeds == "auto" else run.seeds,
            smoke=run.smoke,
        ),
    )


def _check_arms(arms, students):
    if arms is None:
        return
    if len(set(arms)) < len(arms):
        raise UsageProblem(f"`--arms` must differ. Received: arms={list(arms)}")
    if "hard" not in arms:
        raise UsageProblem(
            "`--arms` must hold hard, the control: without it nobody can tell "
            f"whether distillation helps. Received: arms={list(arms)}"
        )
    hidden = [arm for arm in arms if arm.startswith("hidden")]
    if hidden and "text_cnn" in students:
        raise UsageProblem(
            f"`--arms {hidden[0]}` needs students with one state per token to "
            "compare with the teacher's: use `--student shrink` or `bilstm`. "
            f"Received: student={list(students)}"
        )


def _check_annealing(arms, students, start):
    if not any(
        arm.startswith(("annealing", "two_stage")) for arm in arms or ()
    ):
        return
    for kind, settings in students.items():
        if settings.epochs <= start:
            raise ValueError(
                "The arms annealing and two_stage need more epochs than "
                "`--max-temperature`: one for each temperature, and one for "
                f"the labels. Received: max_temperature={start}, "
                f"epochs={settings.epochs} for {kind}"
            )
