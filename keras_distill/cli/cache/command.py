"""`keras-distill cache`: texts, teacher, and what it says of them."""

import functools
import pathlib
import shutil

import tensorflow as tf

from keras_distill import cache
from keras_distill._checks import check_integer
from keras_distill.cache import beam
from keras_distill.cli import corpus as texts
from keras_distill.cli import distill
from keras_distill.cli import options as distill_options
from keras_distill.cli import teaching
from keras_distill.cli import training
from keras_distill.cli.problems import UsageProblem
from keras_distill.cli.problems import as_usage_problem
from keras_distill.cli.run_folder import Phase
from keras_distill.cli.run_folder import RunFolder
from keras_distill.cli.settings import settle

ROWS = pathlib.Path("rows")
CACHE = pathlib.Path("cache")


def run(options, screen):
    """Runs the command.

    Args:
        options: `Cache`.
        screen: `Screen`.

    Raises:
        UsageProblem: The options, the data or the teacher are wrong.
    """
    settings = settle(_as_distill(options))
    flags = beam_flags(options.beam)
    with as_usage_problem(ValueError, advice="See `--help`."):
        check_integer("batch_size", options.run.batch_size, minimum=1)
        check_integer("shard_size", options.run.shard_size, minimum=1)
    distill.check_inputs(settings)
    identities = distill.input_identities(settings)
    folder = RunFolder(settings.output, "cache")
    corpus = texts.Corpus(folder.path, settings)
    first = distill.teacher_phases(settings, identities, corpus, folder, screen)
    phases = [*first, *_phases(options, flags, corpus, folder.path, first)]
    folder.execute(phases, screen, options.run.redo)
    screen.phase = None
    rows, signals = (str(folder.path / name) for name in (ROWS, CACHE))
    screen.line(
        "To train on it: kd.cache.attach("
        f"tf.data.Dataset.load({rows!r}), {signals!r})"
    )


def beam_flags(options):
    """Beam's own flags, or None without Beam.

    Args:
        options: `Beam`.

    Raises:
        UsageProblem: A flag is not as described, or Beam is not installed.
    """
    if options.runner is None:
        if options.beam_flags:
            raise UsageProblem(
                "`--beam-flags` are for a runner of Beam: add `--runner "
                "DirectRunner`, or leave them out. "
                f"Received: beam_flags={list(options.beam_flags)}"
            )
        return None
    for flag in options.beam_flags:
        name, _, value = flag.partition("=")
        if not name.isidentifier() or not value:
            raise UsageProblem(
                "`--beam-flags` must be of the form NAME=VALUE, such as "
                f"direct_num_workers=4. Received: {flag!r}"
            )
    with as_usage_problem(ImportError, advice="Or leave `--runner` out."):
        beam.require()
    further = [f"--{flag}" for flag in options.beam_flags]
    return [f"--runner={options.runner}", *further]


def _as_distill(options):
    """The same as options of `keras-distill distill`."""
    what = options.what
    return distill_options.Distill(
        what=distill_options.What(what.teacher, what.data, output=what.output),
        texts=options.texts,
        transfer=options.transfer,
        teaching=options.teaching,
        run=distill_options.Run(smoke=options.run.smoke),
    )


def _phases(options, flags, corpus, folder, first):
    of_the_texts = tuple(p.name for p in first if p.name != "teacher")
    return [
        Phase(
            name="rows",
            title="rows: all texts as token ids",
            options={},
            needs=of_the_texts,
            run=functools.partial(_save_rows, corpus, folder / ROWS),
            summary="{rows:,} texts".format_map,
            files=(ROWS,),
        ),
        Phase(
            name="cache",
            title="cache: the teacher's logits for the texts",
            options={
                "dtype": options.what.dtype,
                "batch_size": options.run.batch_size,
                "shard_size": options.run.shard_size,
            },
            needs=("rows", "teacher"),
            run=functools.partial(_label, options, flags, corpus, folder),
            summary=_summary,
            files=(CACHE,),
        ),
    ]


def _save_rows(corpus, path):
    taught = corpus.taught
    shutil.rmtree(path, ignore_errors=True)
    rows = tf.data.Dataset.from_tensor_slices((taught.inputs, taught.labels))
    rows.save(str(path))
    return {"rows": len(taught)}


def _summary(result):
    files = "file" if result["shards"] == 1 else "files"
    return f"{result['shards']:,} {files}, {result['bytes']:,} bytes"


def _label(options, flags, corpus, folder):
    if options.run.redo:
        shutil.rmtree(folder / CACHE, ignore_errors=True)
    make_teacher = functools.partial(training.load, folder / teaching.MODEL)
    make_rows = functools.partial(tf.data.Dataset.load, str(folder / ROWS))
    arguments = {
        "dtype": options.what.dtype,
        "settings": {
            "data": options.what.data,
            "sequence_length": corpus.settings.sequence_length,
        },
        "layout": cache.Layout(
            options.run.batch_size,
            options.run.shard_size,
            lengths=training.lengths(corpus.taught),
            batched=False,
        ),
    }
    path = folder / CACHE
    with as_usage_problem(cache.CacheError, advice="Or add `--redo`."):
        if flags is None:
            manifest = cache.write(
                make_teacher(), make_rows(), path, **arguments
            )
        else:
            manifest = cache.write_with_beam(
                make_teacher, make_rows, path, flags, **arguments
            )
    return {
        "texts": manifest.examples,
        "shards": len(manifest.shards),
        "bytes": sum(shard["bytes"] for shard in manifest.shards),
    }
