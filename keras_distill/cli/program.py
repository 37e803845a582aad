"""Arguments in, exit code out."""

import importlib
import os
import shlex
import sys

import tyro

from keras_distill.cli import quiet
from keras_distill.cli.cache.options import Cache
from keras_distill.cli.compare.options import Compare
from keras_distill.cli.gkd.options import GKD
from keras_distill.cli.options import Distill
from keras_distill.cli.problems import UsageProblem
from keras_distill.cli.screen import Screen

# A subcommand is a dataclass of options and the module that runs it, with
# `run(options, screen)`; it is imported when the options are understood.
COMMANDS = {
    "distill": (Distill, "keras_distill.cli.distill"),
    "compare": (Compare, "keras_distill.cli.compare.command"),
    "cache": (Cache, "keras_distill.cli.cache.command"),
    "gkd": (GKD, "keras_distill.cli.gkd.command"),
}
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
    options = tyro.extras.subcommand_cli_from_dict(
        {name: kind for name, (kind, _) in COMMANDS.items()},
        prog="keras-distill",
        description="Knowledge distillation for Keras 3 and TensorFlow.",
        args=arguments,
        config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
    )
    screen = Screen()
    module = next(m for kind, m in COMMANDS.values() if type(options) is kind)
    quiet.before_import()
    try:
        with quiet.native_messages_to(os.devnull):
            importlib.import_module(module).run(options, screen)
    except UsageProblem as problem:
        screen.problem(f"keras-distill: {problem}")
        return WRONG_USE
    except KeyboardInterrupt:
        command = shlex.join(["keras-distill", *arguments])
        during = f" during {screen.phase}" if screen.phase else ""
        screen.problem(f"Stopped{during}. To continue: {command}")
        return INTERRUPTED
    return 0
