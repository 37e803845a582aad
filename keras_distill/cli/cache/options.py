"""The options of `keras-distill cache`, as their `--help` shows them."""

import dataclasses
import pathlib
from typing import Literal

from keras_distill.cli.shared.options import Images
from keras_distill.cli.shared.options import Teaching
from keras_distill.cli.shared.options import Texts
from keras_distill.cli.shared.options import Transfer


@dataclasses.dataclass(frozen=True)
class What:
    """What is labelled, by whom, and where the labels go.

    Args:
        teacher: The large model. 'embedded': a 2-layer BERT, or of images a
            residual network, trained here from scratch, no download. Or a
            KerasHub preset name (bert_base_en_uncased), a local folder with a
            KerasHub preset or a Hugging Face model, or a saved .keras file. It
            is fine-tuned on the labels, unless it classifies already.
        data: The texts, or images. 'docstrings': summaries of the installed
            packages' functions, labelled by library, no download. Or a .tsv or
            .csv file, a folder with train, dev and test as such files, or
            'tfds:NAME', such as tfds:glue/sst2. Images: 'digits', an .npz file,
            or a folder with a folder for each class. The train part is
            labelled.
        output: Folder for the rows, the teacher and the cache. The same
            command, run again, continues there.
        dtype: In what the logits are stored.
    """

    teacher: str = "embedded"
    data: str = "docstrings"
    output: pathlib.Path = pathlib.Path("cached")
    dtype: Literal["float16", "bfloat16", "float32"] = "float16"


@dataclasses.dataclass(frozen=True)
class Beam:
    """Where the teacher runs. All runners write the same bytes.

    Args:
        runner: None: in this process. Or the name of a runner of Apache Beam:
            DirectRunner, DataflowRunner, FlinkRunner, SparkRunner. The output
            folder must be one that all workers share.
        beam_flags: Further flags of Beam, each as NAME=VALUE, such as
            direct_num_workers=4 direct_running_mode=multi_processing.
    """

    runner: str | None = None
    beam_flags: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Run:
    """How long, and what to do with an earlier run.

    Args:
        batch_size: Texts in each of the teacher's batches.
        shard_size: Texts in each file, and in a worker's memory at a time.
        smoke: Tiny models on a few texts: seconds, to see that everything runs.
        redo: Where the output folder holds phases made with other options, make
            them again, and those that follow from them.
    """

    batch_size: int = 64
    shard_size: int = 1024
    smoke: bool = False
    redo: bool = False


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
