"""Options with every `auto` decided, and the mistakes that show early."""

import dataclasses
import pathlib

from keras_distill._checks import check_integer
from keras_distill._checks import check_positive
from keras_distill._checks import check_weight
from keras_distill.cli.problems import UsageProblem
from keras_distill.cli.problems import as_usage_problem

SMOKE_ROWS = {"train": 240, "dev": 60, "test": 60}


class Chosen:
    """Settings of which a phase may record the ones that it depends on."""

    def of(self, *names):
        """Some of the settings, as a dict that JSON can hold."""
        values = {name: getattr(self, name) for name in names}
        return {
            name: str(value) if isinstance(value, pathlib.Path) else value
            for name, value in values.items()
        }


@dataclasses.dataclass(frozen=True)
class Settings(Chosen):
    """What the phases read. Names and units as in `options`.

    Args:
        labels: Integer, or None for all labels.
        teacher_epochs: Integer, or None for one that follows from what the
            teacher turns out to be.
        transfer: Integer, how many variations of each train text, or None.
        width: Integer, or None for the teacher's.
        layers: Integer, or None for half of the teacher's.
    """

    teacher: str
    data: str
    student: str
    method: str
    output: pathlib.Path
    text_column: str | None
    label_column: str | None
    labels: int | None
    sequence_length: int
    vocabulary: str | None
    transfer: int | None
    unlabelled: str | None
    teacher_epochs: int | None
    teacher_learning_rate: float
    teacher_batch_size: int
    width: int | None
    embeddings: str
    embedding_rank: int | None
    layers: int | None
    epochs: int
    learning_rate: float
    batch_size: int
    temperature: float
    hard_weight: float
    soft_weight: float
    seeds: tuple
    smoke: bool


def settle(options):
    """Decides every `auto` and checks what needs no model and no data.

    Args:
        options: `Distill`.

    Returns:
        `Settings`.

    Raises:
        UsageProblem: An option is out of range or fits no other.
    """
    what, texts, run = options.what, options.texts, options.run
    chosen = {
        **vars(what),
        **vars(texts),
        **vars(options.transfer),
        **vars(options.teaching),
        **vars(options.learning),
        "seeds": _seeds(run.seeds),
        "smoke": run.smoke,
    }
    _check_combination(chosen)
    chosen["transfer"] = _times(chosen["transfer"])
    defaults = _defaults(what, run.smoke)
    if {chosen["transfer"], chosen["unlabelled"]} != {None} and not run.smoke:
        defaults["epochs"] *= 3
    for name, value in chosen.items():
        if value == "auto":
            chosen[name] = defaults[name]
    if chosen["labels"] == "all":
        chosen["labels"] = None
    for name in ("vocabulary", "unlabelled"):
        if chosen[name] is not None:
            chosen[name] = str(chosen[name])
    settings = Settings(**chosen)
    with as_usage_problem(ValueError, advice="See `--help`."):
        _check_ranges(settings)
    return settings


def _defaults(what, smoke):
    embedded = what.teacher == "embedded"
    shrink = what.student == "shrink"
    docstrings = what.data == "docstrings"
    teacher_learning_rate = 5e-4 if embedded else 5e-5
    temperature = {"kd": 4.0, "hidden": 4.0, "mse": 1.0, "annealing": 7.0}
    defaults = {
        "labels": 1000 if docstrings else None,
        "sequence_length": 32 if docstrings else 64,
        "teacher_epochs": 2 if embedded else None,
        "teacher_learning_rate": teacher_learning_rate,
        "width": None if shrink else 64,
        "layers": None,
        "epochs": 4 if shrink and what.method != "annealing" else 10,
        "learning_rate": teacher_learning_rate if shrink else 2e-3,
        "temperature": temperature[what.method],
        "hard_weight": 0.5,
        "soft_weight": 0.5,
    }
    if smoke:
        defaults |= {
            "labels": 60 if docstrings else None,
            "sequence_length": 16,
            "teacher_epochs": 1 if embedded else None,
            "width": None if shrink else 8,
            "epochs": 1,
        }
    if smoke and what.method == "annealing":
        defaults |= {"epochs": 3, "temperature": 2.0}
    return defaults


def _times(transfer):
    """The number in `augment:20`."""
    if transfer is None:
        return None
    kind, _, times = transfer.partition(":")
    if kind != "augment" or not times.isdecimal() or not int(times):
        raise UsageProblem(
            "`--transfer` must be 'augment:' and how many variations of each "
            "train text, such as augment:20. "
            f"Received: transfer={transfer!r}"
        )
    return int(times)


def _seeds(seeds):
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise UsageProblem(
            "`--seeds` must be one number, how many seeds, or a list of "
            f"different ones, each at least 0. Received: seeds={list(seeds)}"
        )
    if len(seeds) > 1:
        return tuple(seeds)
    if seeds[0] == 0:
        raise UsageProblem(
            "`--seeds` must be at least 1 where it is a count. "
            "Received: seeds=0"
        )
    return tuple(range(seeds[0]))


def _check_combination(chosen):
    if chosen["method"] == "hidden" and chosen["student"] == "text_cnn":
        raise UsageProblem(
            "`--method hidden` needs a student with one state per token to "
            "compare with the teacher's: use `--student shrink` or `bilstm`. "
            "Received: student=text_cnn"
        )
    if chosen["layers"] != "auto" and chosen["student"] != "shrink":
        raise UsageProblem(
            "`--layers` is for `--student shrink`; leave it out. "
            f"Received: layers={chosen['layers']}, student={chosen['student']}"
        )
    check_embeddings(chosen, [chosen["student"]])
    given = [n for n in ("hard_weight", "soft_weight") if chosen[n] != "auto"]
    if chosen["method"] == "annealing" and given:
        raise UsageProblem(
            "`--method annealing` trains on the teacher alone and then on the "
            f"labels alone: leave `--{given[0].replace('_', '-')}` out. "
            f"Received: {given[0]}={chosen[given[0]]}"
        )
    named = [n for n in ("text_column", "label_column") if chosen[n]]
    if chosen["data"] == "docstrings" and named:
        raise UsageProblem(
            f"`--{named[0].replace('_', '-')}` is for files and TFDS; the set "
            f"docstrings has no columns. Received: {named[0]}="
            f"{chosen[named[0]]}"
        )
    if chosen["vocabulary"] and not chosen["teacher"].endswith(".keras"):
        raise UsageProblem(
            "`--vocabulary` is for a teacher in a .keras file; every other "
            "teacher brings its own. Received: vocabulary="
            f"{chosen['vocabulary']}, teacher={chosen['teacher']}"
        )


def check_embeddings(chosen, kinds):
    """Raises `UsageProblem` for embeddings that no student can have.

    Args:
        chosen: Dict of the options `embeddings` and `embedding_rank`.
        kinds: Strings, the students.
    """
    usual = {"embeddings": "random", "embedding_rank": None}
    given = [name for name in usual if chosen[name] != usual[name]]
    if given and set(kinds) == {"shrink"}:
        raise UsageProblem(
            f"`--{given[0].replace('_', '-')}` is for `--student text_cnn` and "
            "`bilstm`: shrink has the embeddings of the teacher. Leave it out. "
            f"Received: {given[0]}={chosen[given[0]]}, student=shrink"
        )


def _check_ranges(settings):
    check_integer("sequence_length", settings.sequence_length, minimum=4)
    for name in ("teacher_batch_size", "batch_size", "epochs"):
        check_integer(name, getattr(settings, name), minimum=1)
    for name in ("labels", "width", "layers", "embedding_rank"):
        if getattr(settings, name) is not None:
            check_integer(name, getattr(settings, name), minimum=1)
    if settings.teacher_epochs is not None:
        check_integer("teacher_epochs", settings.teacher_epochs, minimum=0)
    for name in ("teacher_learning_rate", "learning_rate", "temperature"):
        check_positive(name, getattr(settings, name))
    check_weight("hard_weight", settings.hard_weight)
    check_weight("soft_weight", settings.soft_weight)
    _check_meaning(settings)


def _check_meaning(settings):
    if not settings.soft_weight:
        raise ValueError(
            "`soft_weight` must be positive: nothing would be distilled. The "
            "student without a teacher is trained in any case. "
            "Received: soft_weight=0"
        )
    if settings.method == "annealing":
        _check_annealing(settings)
    if settings.teacher == "embedded" and settings.teacher_epochs == 0:
        raise ValueError(
            "The embedded teacher must be trained: it starts from scratch. "
            "Received: teacher_epochs=0"
        )


def _check_annealing(settings):
    start = settings.temperature
    if start != int(start) or settings.epochs <= start:
        raise ValueError(
            "`--method annealing` needs an integer `--temperature` and more "
            "epochs than that: one for each temperature, and one for the "
            f"labels. Received: temperature={start:g}, "
            f"epochs={settings.epochs}"
        )
