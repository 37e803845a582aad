"""Every option of every command x numbers and strings that are none.

Each is refused in one paragraph before a folder is made, or is one that a run
can be made with.
"""

import dataclasses
import importlib
import math
import pathlib
import typing

import pytest
from tiny_runs import write_texts

from keras_distill._errors import UsageError
from keras_distill.cli import main
from keras_distill.cli.cache.options import Cache
from keras_distill.cli.compare.options import Compare
from keras_distill.cli.compress.options import Compress
from keras_distill.cli.distill.options import Distill
from keras_distill.cli.gkd.options import GKD
from keras_distill.cli.shared.screen import Screen

COMMANDS = {
    "distill": Distill,
    "compare": Compare,
    "compress": Compress,
    "cache": Cache,
    "gkd": GKD,
}
ODD_INTEGERS = (-1, 0, -(10**19), 10**19, 2**63, 10**9, 2**32)
ODD_FLOATS = (
    *(math.inf, -math.inf, math.nan, -1.0, 0.0, -0.0, 1e300, -1e300),
    *(1e-30, 5e-324, 10**19),
)
ODD_STRINGS = ("", "\0", "a\0b", "x" * 5000, "..", "/", "~", "none\nat all")
# What a run can be made with, however odd. Not more: where an option is out of
# these bounds, training it would end late, or never, or teach nothing.
WHOLE = (1, 10**6)
BOUNDS = {
    "labels": (1, math.inf),  # Compared with the data once they are read.
    "seeds": (1, 10**4),
    "seed": (0, 2**32 - 1),
    "shard_size": (1, 10**9),
    "cost_per_hour": (5e-324, 1e9),
    "learning_rate": (1e-10, 10),
    "gkd_learning_rate": (1e-10, 10),
    "teacher_learning_rate": (1e-10, 10),
    "hard_weight": (0, 1e6),
    "soft_weight": (1e-6, 1e6),
    "sft_weight": (0, 1e6),
    "image_size": (4, 4096),
    "depth": (8, 1202),
    "steps": (1, 100),
    "temperature": (1e-3, 1e3),
    "loss_temperature": (1e-3, 1e3),
    "max_temperature": (1, 1000),
    "beta": (0, 1),
    "lmbda": (0, 1),
    "teacher_epochs": (1, 10**6),  # The embedded teacher must be trained.
    "start_epochs": (0, 10**6),
}
# With what an option has a meaning.
IMAGES = {"data": "digits", "task": "images"}
WITH = {
    ("distill", "buckets"): {"student": "ngram"},
    ("compare", "buckets"): {"student": ("ngram",)},
    ("distill", "layers"): {"student": "shrink"},
    ("compare", "layers"): {"student": ("shrink",)},
    ("gkd", "layers"): {"student": "shrink"},
    ("distill", "depth"): {"student": "conv_net", **IMAGES},
    ("compare", "depth"): {"student": ("conv_net",), **IMAGES},
    ("distill", "image_size"): IMAGES,
    ("compare", "image_size"): IMAGES,
    ("compress", "image_size"): IMAGES,
    ("cache", "image_size"): {**IMAGES, "augmentation": "none"},
} | {
    (command, "min_count"): {"teacher": "bert_tiny_en_uncased"}
    for command in ("distill", "compare", "compress", "cache")
}
SANE = {
    "sequence_length": 8,
    "image_size": 8,
    "depth": 8,
    "soft_weight": 0.5,
    "seeds": (1,),
}


class BegunError(Exception):
    """The options are accepted: a folder would be made now."""


@pytest.fixture
def begun(monkeypatch):
    """Ends every command where its folder would be made."""

    def begin(*args, **kwargs):
        raise BegunError

    for name in COMMANDS:
        module = importlib.import_module(f"keras_distill.cli.{name}.command")
        if name != "gkd":
            monkeypatch.setattr(module, "open_folder", begin)
    run = importlib.import_module(
        "keras_distill.experiments.language_models.run"
    )
    monkeypatch.setattr(run.engine, "opened", begin)


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_texts(tmp_path_factory.mktemp("data") / "texts")


def fields(command):
    """Yields group, name and type of each option."""
    for group in dataclasses.fields(command):
        kind = type(getattr(command(), group.name))
        types = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            yield group.name, field.name, types[field.name]


def holds(annotation, kind):
    """Whether `kind` is among the types of an annotation."""
    if annotation is kind:
        return True
    return any(holds(part, kind) for part in typing.get_args(annotation))


def changed(options, values):
    """The options with other values, whatever the group."""
    for group, name, _ in fields(type(options)):
        if name in values:
            part = getattr(options, group)
            part = dataclasses.replace(part, **{name: values[name]})
            options = dataclasses.replace(options, **{group: part})
    return options


def started(command, values, texts):
    """None if options are accepted, else the message that refuses them."""
    with_it = {"data": str(texts), **values}
    for name in values:
        with_it |= WITH.get((command, name), {})
    options = changed(COMMANDS[command](), with_it)
    module = importlib.import_module(f"keras_distill.cli.{command}.command")
    with pytest.raises((BegunError, UsageError)) as ended:
        module.run(options, Screen())
    return None if ended.type is BegunError else str(ended.value)


def numeric(command):
    """Pairs of a numeric option and its type."""
    return [
        (name, float if holds(annotation, float) else int)
        for _, name, annotation in fields(COMMANDS[command])
        if holds(annotation, float) or holds(annotation, int)
    ]


def text_options(command):
    return [
        (name, pathlib.Path if holds(annotation, pathlib.Path) else str)
        for _, name, annotation in fields(COMMANDS[command])
        if name not in ("output", "beam_flags")
        and (holds(annotation, str) or holds(annotation, pathlib.Path))
    ]


def cases():
    for command in COMMANDS:
        for name, kind in numeric(command):
            for value in ODD_INTEGERS if kind is int else ODD_FLOATS:
                yield command, name, value


def check_message(message, value):
    assert "\n" not in message
    assert "Received" in message or "pip install" in message
    assert 40 < len(message) < 1500
    assert "Traceback" not in message


CASES = list(cases())


def test_there_are_many():
    assert len(CASES) > 300
    assert {command for command, _, _ in CASES} == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_sane_numbers_are_accepted(command, begun, texts):
    """So that what refuses an odd value below is the value."""
    for name, kind in numeric(command):
        value = SANE.get(name, 1 if kind is int else 0.5)
        assert started(command, {name: value}, texts) is None, name


@pytest.mark.parametrize("command", COMMANDS)
def test_odd_numbers(command, begun, texts):
    for whose, name, value in CASES:
        if whose != command:
            continue
        low, high = BOUNDS.get(name, WHOLE)
        given = (value,) if name == "seeds" else value
        message = started(command, {name: given}, texts)
        told = f"--{name} {value}: {message}"
        if message is not None:
            check_message(message, value)
        else:
            assert low <= value <= high, told


@pytest.mark.parametrize("command", ["distill", "compare", "compress"])
@pytest.mark.parametrize("seeds", [(), (0, 0), (-1, 2), (1, 2**32), (0,) * 9])
def test_odd_seeds(command, seeds, begun, texts):
    check_message(started(command, {"seeds": seeds}, texts), seeds)


TRANSFERS = [
    *("augment:1000000000000", "augment:-1", "augment:0", "augment:1.5"),
    *("augment:", ":", "augment:inf", "augment:²", "augment:" + "9" * 5000),
    *("augment:1e3", " augment:2", "augment:10000", "\0", "", "a" * 10**5),
]


@pytest.mark.parametrize("command", [*COMMANDS][:-1])
def test_odd_transfer_sets(command, begun, texts):
    for value in TRANSFERS:
        message = started(command, {"transfer": value}, texts)
        assert message is not None, value
        check_message(message, value)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("value", ODD_STRINGS)
def test_odd_strings(command, value, begun, texts):
    """Paths and names that are none, each refused or a folder that is there."""
    for name, kind in text_options(command):
        message = started(command, {name: kind(value)}, texts)
        if message is not None:
            check_message(message, value)
        else:
            # Columns, and names of presets, are looked up in the data and in
            # KerasHub, before anything is trained.
            assert (
                name.endswith("_column")
                or (name in ("teacher", "student") and value == "none\nat all")
                or (
                    name in ("data", "unlabelled")
                    and pathlib.Path(value).is_dir()
                )
            ), name


TYPED = {
    "--temperature": ("inf", "1e-30", "nan", "", "\0", "four", "1" * 5000),
    "--batch-size": ("10000000000000000000", "1.5", "inf", "-1", "0x10"),
    "--width": ("1000000000", "", "1e3"),
    "--soft-weight": ("1e300", "-inf", "1e999"),
    "--seeds": ("4294967296", "-1", "a", ""),
    "--output": ("a\0b", "x" * 5000, "/proc/none"),
}


@pytest.mark.parametrize("option", TYPED)
def test_what_is_typed(option, texts, tmp_path, capsys):
    """Exit code 2 and no folder, whoever refuses it: the parser or the run."""
    output = str(tmp_path / "out")
    for value in TYPED[option]:
        arguments = ["--data", str(texts), "--output", output, option, value]
        with _as_code() as code:
            code.append(main(["distill", *arguments]))
        told = capsys.readouterr().err
        assert code == [2], (option, value, told)
        assert "Traceback" not in told
        assert len(told) < 8000
    assert not (tmp_path / "out").exists()


class _as_code:
    """The exit code, whether it is returned or raised."""

    def __enter__(self):
        self.code = []
        return self.code

    def __exit__(self, kind, error, trace):
        if kind is SystemExit:
            self.code.append(error.code)
            return True
        return False
