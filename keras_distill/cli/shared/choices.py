"""From options to what they name: data, teacher, students, recipes."""

import dataclasses
import inspect
import re

from keras_distill import _beam
from keras_distill import _kinds
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.cli.shared.options import AUTO
from keras_distill.cli.shared.options import flag
from keras_distill.cli.shared.options import given
from keras_distill.experiments import defaults
from keras_distill.experiments.preparation import Preparation
from keras_distill.tasks.base import TRANSFER

LONGEST_MINUTES = 10**6


def preparation(options, students=()):
    """The `Preparation` of the options of a command.

    Args:
        options: The options of a command.
        students: Names of students that would learn from text made for them,
            `"auto"` among them or not.
    """
    values = {}
    for group in (
        *(options.texts, options.images),
        *(options.transfer, options.teaching),
    ):
        values |= vars(group)
    # The student of `auto` copies none.
    copies = [
        name != AUTO and _kinds.load(_kinds.STUDENTS[name]).copies_layers
        for name in students
    ]
    if values["transfer"] == AUTO and all(copies):
        # Copied layers know before their first step what such text would teach.
        values["transfer"] = None
    return Preparation(
        teacher=options.what.teacher,
        data=options.what.data,
        smoke=options.run.smoke,
        **values,
    )


def students(names, learning, prepared, recipes):
    """The students of the options.

    Args:
        names: Names in `_kinds.STUDENTS`, or `"auto"`: the task's usual one.
        learning: `Learning`.
        prepared: `Preparation`.
        recipes: List of `Recipe` that each of them is trained with.

    Returns:
        Dict from each name to its `Student`.

    Raises:
        UsageError: An option is out of range, or no student has it; or a
            student cannot come from this teacher.
    """
    usual = prepared.task_kind.student
    names = [usual if name == AUTO else name for name in names]
    kinds = {name: _kinds.load(_kinds.STUDENTS[name]) for name in names}
    values = given(learning)
    _check_options(kinds, values)
    found = {}
    for name, kind in kinds.items():
        own = _fields(kind)
        chosen = defaults.of_student(kind, prepared, recipes) | {
            key: value for key, value in values.items() if key in own
        }
        with as_usage_error(ValueError, advice="See `--help`."):
            found[name] = kind(**chosen)
            found[name].check_backbone(prepared.source.backbone)
            for recipe in recipes:
                recipe.check_student(found[name])
    return found


def for_rows(students, options, task):
    """The same students, with more epochs where the rows are few.

    Args:
        students: Dict of `Student`.
        options: The options of a command.
        task: `Task`.
    """
    if options.run.smoke or options.learning.epochs != AUTO:
        return students
    rows = len(task.encoded["train"])
    further = len(task.encoded.get(TRANSFER, ()))
    return {
        name: defaults.for_rows(student, rows, further)
        for name, student in students.items()
    }


def _check_options(kinds, values):
    for name in values:
        if any(name in _fields(kind) for kind in kinds.values()):
            continue
        places = _kinds.STUDENTS.items()
        fit = [k for k, place in places if name in _fields(_kinds.load(place))]
        raise UsageError(
            f"{flag(name)} is for `--student {' or '.join(fit)}`; leave it "
            f"out. Received: {name}={values[name]}, student={list(kinds)}"
        )


def _fields(kind):
    return [field.name for field in dataclasses.fields(kind)]


def parameters(name):
    """Dict from the options of a recipe to their defaults."""
    make = _kinds.load(_kinds.RECIPES[name])
    accepted = inspect.signature(make).parameters.values()
    return {parameter.name: parameter.default for parameter in accepted}


def recipe(name, values, label):
    """The recipe of a name, with those options that it has.

    Args:
        name: Name in `_kinds.RECIPES`.
        values: Dict of options that are given.
        label: String, the option that chose the name.

    Returns:
        `Recipe`.

    Raises:
        UsageError: An option is out of range, or the recipe has none such.
    """
    accepted = parameters(name)
    for key, value in values.items():
        if key not in accepted:
            raise UsageError(
                f"{flag(key)} is not for `{label} {name}`: leave it out. "
                f"Received: {key}={value}"
            )
    with as_usage_error(ValueError, advice="See `--help`."):
        return _kinds.load(_kinds.RECIPES[name])(**values)


def minutes(option, text):
    """The minutes in `10m`, `90s` or `1h`; None for None.

    Raises:
        UsageError: It is written in another way, or not positive.

    Example:

    >>> minutes("--tune", "90s")
    1.5
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh])", text.strip())
    value = found and float(found[1]) * {"s": 1 / 60, "m": 1, "h": 60}[found[2]]
    if not value or value > LONGEST_MINUTES:
        raise UsageError(
            f"`{option}` must be a time such as 90s, 10m or 1h. "
            f"Received: {text!r}"
        )
    return value


def seeds(values):
    """A count or a tuple of seeds, of what was typed."""
    return values[0] if len(values) == 1 else values


def keeps_weak_teacher(run):
    """Whether a weak teacher is imitated: that of a smoke test always is."""
    return run.keep_weak_teacher or run.smoke


def beam_flags(options):
    """Beam's own flags, or None without Beam.

    Args:
        options: `Beam`.

    Raises:
        UsageError: A flag is not as described, or Beam is not installed.
    """
    if options.runner is None:
        if options.beam_flags:
            raise UsageError(
                "`--beam-flags` are for a runner of Beam: add `--runner "
                "DirectRunner`, or leave them out. "
                f"Received: beam_flags={list(options.beam_flags)}"
            )
        return None
    for typed in options.beam_flags:
        name, _, value = typed.partition("=")
        if not name.isidentifier() or not value:
            raise UsageError(
                "`--beam-flags` must be of the form NAME=VALUE, such as "
                f"direct_num_workers=4. Received: {typed!r}"
            )
    with as_usage_error(ImportError, ValueError, advice="Or leave it out."):
        _beam.check_runner(options.runner)
    further = [f"--{typed}" for typed in options.beam_flags]
    return [f"--runner={options.runner}", *further]
