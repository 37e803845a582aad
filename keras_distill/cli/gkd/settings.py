"""The options of `gkd` with every `auto` decided."""

import dataclasses
import pathlib

from keras_distill._checks import check_between
from keras_distill._checks import check_integer
from keras_distill._checks import check_positive
from keras_distill._checks import check_weight
from keras_distill.cli.problems import UsageProblem
from keras_distill.cli.problems import as_usage_problem
from keras_distill.cli.settings import Chosen

EMBEDDED, SHRINK = "embedded", "shrink"
SMOKE_ROWS = {"train": 96, "dev": 16}


@dataclasses.dataclass(frozen=True)
class Settings(Chosen):
    """What the phases read. Names and units as in `options`.

    Args:
        layers: Integer, or None for half of the teacher's.
        max_prompt_length: Integer, or None for what the models allow.
    """

    teacher: str
    student: str
    layers: int | None
    data: str
    output: pathlib.Path
    prompt_tokens: int
    max_prompt_length: int | None
    max_completion_length: int
    beta: float
    lmbda: float
    seq_kd: bool
    temperature: float
    loss_temperature: float
    sft_weight: float
    teacher_epochs: int
    start_epochs: int
    steps: int
    learning_rate: float
    gkd_learning_rate: float
    batch_size: int
    seed: int
    smoke: bool


def settle(options):
    """Decides every `auto` and checks what needs no model and no data.

    Args:
        options: `GKD`.

    Returns:
        `Settings`.

    Raises:
        UsageProblem: An option is out of range or fits no other.
    """
    chosen = {
        **vars(options.models),
        **vars(options.lengths),
        **vars(options.method),
        **vars(options.training),
        "smoke": options.run.smoke,
    }
    embedded = chosen["teacher"] == EMBEDDED
    if chosen["student"] == "auto":
        chosen["student"] = EMBEDDED if embedded else SHRINK
    _check_combination(chosen)
    defaults = _defaults(chosen)
    for name, value in chosen.items():
        if value == "auto":
            chosen[name] = defaults[name]
    if chosen["gkd_learning_rate"] is None:
        chosen["gkd_learning_rate"] = chosen["learning_rate"] / 2
    settings = Settings(**chosen)
    with as_usage_problem(ValueError, advice="See `--help`."):
        _check_ranges(settings)
    return settings


def _defaults(chosen):
    embedded = chosen["teacher"] == EMBEDDED
    docstrings = chosen["data"] == "docstrings"
    start = {EMBEDDED: 2, SHRINK: 1}.get(chosen["student"], 0)
    defaults = {
        "layers": None,
        "prompt_tokens": 4 if docstrings else 16,
        "max_prompt_length": None,
        "max_completion_length": 20 if docstrings else 512,
        "teacher_epochs": 4 if embedded else 0,
        "start_epochs": start,
        "steps": 300,
        "learning_rate": 1e-3 if embedded else 5e-5,
        "gkd_learning_rate": None,
    }
    if chosen["smoke"]:
        defaults |= {
            "max_completion_length": 8,
            "teacher_epochs": int(embedded),
            "start_epochs": min(start, 1),
            "steps": 3,
        }
    return defaults


def _check_combination(chosen):
    if chosen["student"] == EMBEDDED and chosen["teacher"] != EMBEDDED:
        raise UsageProblem(
            "`--student embedded` has the vocabulary of the embedded teacher "
            "only; use `--student shrink`, or a folder with a model that has "
            f"the teacher's vocabulary. Received: teacher={chosen['teacher']}"
        )
    if chosen["layers"] != "auto" and chosen["student"] != SHRINK:
        raise UsageProblem(
            "`--layers` is for `--student shrink`; leave it out. Received: "
            f"layers={chosen['layers']}, student={chosen['student']}"
        )


def _check_ranges(settings):
    for name in (
        "prompt_tokens",
        "max_completion_length",
        "steps",
        "batch_size",
    ):
        check_integer(name, getattr(settings, name), minimum=1)
    for name in ("layers", "max_prompt_length"):
        if getattr(settings, name) is not None:
            check_integer(name, getattr(settings, name), minimum=1)
    for name in ("teacher_epochs", "start_epochs", "seed"):
        check_integer(name, getattr(settings, name), minimum=0)
    for name in ("beta", "lmbda"):
        check_between(name, getattr(settings, name), 0, 1)
    for name in (
        "temperature",
        "loss_temperature",
        "learning_rate",
        "gkd_learning_rate",
    ):
        check_positive(name, getattr(settings, name))
    check_weight("sft_weight", settings.sft_weight)
    if settings.teacher == EMBEDDED and not settings.teacher_epochs:
        raise ValueError(
            "The embedded teacher must be trained: it starts from scratch. "
            "Received: teacher_epochs=0"
        )
