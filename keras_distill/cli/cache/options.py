"""The options of `keras-distill cache`, as their `--help` shows them."""

import dataclasses
import pathlib
from typing import Literal

from keras_distill.cli.shared.options import Beam
from keras_distill.cli.shared.options import Images
from keras_distill.cli.shared.options import Repeated
from keras_distill.cli.shared.options import Source
from keras_distill.cli.shared.options import Teaching
from keras_distill.cli.shared.options import Texts
from keras_distill.cli.shared.options import Transfer


@dataclasses.dataclass(frozen=True)
class What(Source):
    """What is labelled, by whom, and where the labels go.

    Args:
        output: Folder for the rows, the teacher and the cache. The same
            command, run again, continues there.
        dtype: In what the logits are stored.
    """

    output: pathlib.Path = pathlib.Path("cached")
    dtype: Literal["float16", "bfloat16", "float32"] = "float16"


@dataclasses.dataclass(frozen=True)
class Run(Repeated):
    """How long, and what to do with an earlier run.

    Args:
        batch_size: Texts in each of the teacher's batches.
        shard_size: Texts in each file, and in a worker's memory at a time.
    """

    batch_size: int = 64
    shard_size: int = 1024


@dataclasses.dataclass(frozen=True)
class Cache:
    """Label texts with a teacher, once, and keep its logits on disk.

    Fine-tunes the teacher if need be, runs it over the train part and the
    transfer text, and leaves rows and cache that belong together:
    `kd.cache.attach(tf.data.Dataset.load("cached/rows"), "cached/cache")`.
    """

    what: What = What()
    texts: Texts = Texts()
    images: Images = Images()
    transfer: Transfer = Transfer()
    teaching: Teaching = Teaching()
    beam: Beam = Beam()
    run: Run = Run()
