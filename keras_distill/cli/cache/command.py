"""`keras-distill cache`: texts, teacher, and what it says of them."""

import functools
import pathlib
import shutil

import tensorflow as tf

from keras_distill import cache
from keras_distill._checks import check_integer
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill._files import complete_folder
from keras_distill.cli.shared import choices
from keras_distill.experiments import training
from keras_distill.experiments.phases import Phase
from keras_distill.experiments.prepared import MODEL
from keras_distill.experiments.prepared import Prepared
from keras_distill.experiments.prepared import open_folder

ROWS = pathlib.Path("rows")
CACHE = pathlib.Path("cache")


def run(options, screen):
    """Runs the command.

    Args:
        options: `Cache`.
        screen: `Screen`.

    Raises:
        UsageError: The options, the data or the teacher are wrong.
    """
    chosen = choices.preparation(options)
    if "augmentation" in chosen.task_kind.options and (
        chosen.augmentation != "none"
    ):
        raise UsageError(
            "A cache holds what the teacher says of images as they are; where "
            "they change in each step it must look again. Add "
            "`--augmentation none`. Received: "
            f"augmentation={chosen.augmentation}"
        )
    flags = choices.beam_flags(options.beam)
    with as_usage_error(ValueError, advice="See `--help`."):
        check_integer("batch_size", options.run.batch_size, 1, 10**6)
        check_integer("shard_size", options.run.shard_size, 1, 10**9)
    with open_folder(options.what.output, "cache", chosen) as folder:
        prepared = Prepared(chosen, folder)
        phases = [
            *prepared.phases(screen, signal=False),
            *_phases(options, flags, prepared),
        ]
        folder.execute(phases, screen, options.run.redo)
    rows, signals = (str(folder.path / name) for name in (ROWS, CACHE))
    screen.line(
        "To train on it: kd.cache.attach("
        f"tf.data.Dataset.load({rows!r}), {signals!r})"
    )


def _phases(options, flags, prepared):
    of_the_texts = ["data"]
    if prepared.preparation.has_transfer_set:
        of_the_texts.append("transfer")
    return [
        Phase(
            name="rows",
            title="rows: all that the teacher reads",
            options={},
            needs=tuple(of_the_texts),
            run=functools.partial(_save_rows, prepared),
            summary="{rows:,} rows".format_map,
            files=(ROWS,),
        ),
        Phase(
            name="cache",
            title="cache: the teacher's logits",
            options={
                "dtype": options.what.dtype,
                "batch_size": options.run.batch_size,
                "shard_size": options.run.shard_size,
            },
            needs=("rows", "teacher"),
            run=functools.partial(_label, options, flags, prepared),
            summary=_summary,
            files=(CACHE,),
        ),
    ]


def _save_rows(prepared):
    taught = prepared.task.taught()
    rows = tf.data.Dataset.from_tensor_slices((taught.inputs, taught.labels))
    with complete_folder(prepared.folder.path / ROWS) as draft:
        rows.save(str(draft))
    return {"rows": len(taught)}


def _summary(result):
    files = "file" if result["shards"] == 1 else "files"
    return f"{result['shards']:,} {files}, {result['bytes']:,} bytes"


def _label(options, flags, prepared):
    folder, task = prepared.folder.path, prepared.task
    path = folder / CACHE
    if options.run.redo:
        shutil.rmtree(path, ignore_errors=True)
    make_teacher = functools.partial(training.load, folder / MODEL)
    make_rows = functools.partial(tf.data.Dataset.load, str(folder / ROWS))
    arguments = {
        "dtype": options.what.dtype,
        "settings": {"data": options.what.data, **prepared.decided},
        "layout": cache.Layout(
            options.run.batch_size,
            options.run.shard_size,
            lengths=training.lengths(task.taught()),
            batched=False,
        ),
    }
    with as_usage_error(cache.CacheError, advice="Or add `--redo`."):
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
