"""Arguments in, exit code out."""

import dataclasses
import importlib
import shlex
import sys

import tyro

from keras_distill._errors import UsageError
from keras_distill.cli.cache.options import Cache
from keras_distill.cli.compare.options import Compare
from keras_distill.cli.compress.options import Compress
from keras_distill.cli.distill.options import Distill
from keras_distill.cli.gkd.options import GKD
from keras_distill.cli.shared import native_log
from keras_distill.cli.shared.screen import Screen

# A subcommand is a dataclass of options, and the module `command` beside it,
# with `run(options, screen)`; it is imported when the options are understood.
COMMANDS = {
    "distill": Distill,
    "compare": Compare,
    "compress": Compress,
    "cache": Cache,
    "gkd": GKD,
}
VALUES = {"true": True, "false": False}
WRONG_USE = 2
INTERRUPTED = 130


def main(arguments=None):
    """Runs the command line.

    Args:
        arguments: List of strings. Defaults to those of the process.

    Returns:
        The exit code: 0; 2 for what the user can put right; 130 after Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    options = parse(arguments)
    screen = Screen()
    native_log.before_import()
    try:
        with native_log.kept() as log:
            native_log.call(lambda: _run(options, screen, log), log)
    except UsageError as problem:
        screen.problem(f"keras-distill: {problem}")
        log.unlink()
        return WRONG_USE
    except KeyboardInterrupt:
        command = shlex.join(["keras-distill", *arguments])
        during = f" during {screen.phase}" if screen.phase else ""
        screen.problem(f"Stopped{during}. To continue: {command}")
        log.unlink()
        return INTERRUPTED
    return 0


def parse(arguments):
    """The options of a command, of its arguments.

    Args:
        arguments: List of strings. A switch may be followed by `True` or
            `False`, as in TRL.
    """
    return tyro.extras.subcommand_cli_from_dict(
        COMMANDS,
        prog="keras-distill",
        description="Knowledge distillation for Keras 3 and TensorFlow.",
        args=_plain_switches(arguments),
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )


def _plain_switches(arguments):
    """The arguments with each switch alone, where it changes anything."""
    switches = _switches(COMMANDS.get(next(iter(arguments), None)))
    found, left = [], [*arguments]
    while left:
        typed = left.pop(0)
        name, equals, value = typed.partition("=")
        forms = switches.get(name.replace("_", "-"))
        if forms and not equals:
            value = left.pop(0) if _is_value(left[:1]) else "true"
        found += forms[VALUES[value.lower()]] if _is_value([value]) else [typed]
    return found


def _is_value(arguments):
    return any(argument.lower() in VALUES for argument in arguments)


def _switches(command):
    """Of each option that is on or off, what stands for `True` and `False`.

    What is on by default can only be left out.
    """
    groups = dataclasses.fields(command) if command else ()
    found = {}
    for group in groups:
        for field in dataclasses.fields(group.type):
            if field.type is not bool:
                continue
            name = field.name.replace("_", "-")
            on, off = f"--{name}", f"--no-{name}"
            if field.default:
                found[on] = {True: [], False: [off]}
                found[off] = {True: [off], False: []}
            else:
                found[on] = {True: [on], False: []}
    return found


def _run(options, screen, log):
    name = next(n for n, kind in COMMANDS.items() if type(options) is kind)
    module = importlib.import_module(f"keras_distill.cli.{name}.command")
    try:
        module.run(options, screen)
    except UsageError:
        raise
    except Exception as error:
        error.add_note(f"What TensorFlow wrote before is in {log}")
        raise
