"""The options of `keras-distill compress`, as their `--help` shows them."""

import dataclasses
import pathlib
from typing import Literal

from keras_distill._kinds import METHODS
from keras_distill.cli.shared.options import AUTO
from keras_distill.cli.shared.options import Auto
from keras_distill.cli.shared.options import Images
from keras_distill.cli.shared.options import Teaching
from keras_distill.cli.shared.options import Texts
from keras_distill.cli.shared.options import Transfer


@dataclasses.dataclass(frozen=True)
class What:
    """What is cut, how far, and where the results go.

    Args:
        model: The trained model. 'embedded': a 2-layer BERT, or of images a
            residual network, trained here from scratch, no download. Or a
            KerasHub preset name (bert_base_en_uncased), a local folder with a
            KerasHub preset or a Hugging Face model, or a saved .keras file. It
            is fine-tuned on the labels, unless it classifies already.
        data: The texts, or images. 'docstrings': summaries of the installed
            packages' functions, labelled by library, no download. Or a .tsv or
            .csv file, a folder with train, dev and test as such files, or
            'tfds:NAME', such as tfds:glue/sst2. Images: 'digits', an .npz file,
            or a folder with a folder for each class.
        budget: What the result may take at most: multiplications=50% and
            parameters=50%, of the model's or as numbers; size=1MB, of the
            float32 TFLite file; latency=2ms, of that file on this machine, one
            thread.
        method: What the cut model learns from the whole one, as for distill.
        output: Folder for models and reports. The same command, run again,
            continues there after the last finished phase.
    """

    model: str = "embedded"
    data: str = "docstrings"
    budget: str = "multiplications=50%"
    method: Literal[*METHODS] = "kd"
    output: pathlib.Path = pathlib.Path("compressed")

    @property
    def teacher(self):
        """The model, as it is called in what the commands share."""
        return self.model


@dataclasses.dataclass(frozen=True)
class Learning:
    """How the cut models are trained: all alike.

    Args:
        epochs: Passes over the train part. auto: 4, and more, up to 10, where
            the rows are few.
        learning_rate: Peak learning rate of Adam. auto: the one that the model
            was fine-tuned with, or 5e-5, of images 1e-3.
        batch_size: Rows in each step.
    """

    epochs: int | Auto = AUTO
    learning_rate: float | Auto = AUTO
    batch_size: int = 64


@dataclasses.dataclass(frozen=True)
class Run:
    """How often, and what to do with an earlier run.

    Args:
        seeds: One number: how many seeds, counted from 0. Several: the seeds
            themselves. Each one trains every student anew.
        html: Write report.html, too, which needs jinja2 and matplotlib.
        smoke: Tiny models on a few texts: seconds, to see that everything runs.
        redo: Where the output folder holds phases made with other options, make
            them again, and those that follow from them.
        keep_weak_teacher: Imitate the model even where it is worse on dev than
            the linear model or than a student on labels alone. Otherwise the
            run ends with these.
    """

    seeds: tuple[int, ...] = (1,)
    html: bool = False
    smoke: bool = False
    redo: bool = False
    keep_weak_teacher: bool = False


@dataclasses.dataclass(frozen=True)
class Compress:
    """Cut a model to a budget, teach it again, and store it in few bits.

    Fine-tunes the model, cuts what is worth least, trains what is left with
    the whole model as the teacher, exports float32, int8 and int4 TFLite files
    and a SavedModel, and tells beside it what cuts by chance and as many copied
    layers come to within the same budget.
    """

    what: What = What()
    texts: Texts = Texts()
    images: Images = Images()
    transfer: Transfer = Transfer()
    teaching: Teaching = Teaching()
    learning: Learning = Learning()
    run: Run = Run()
