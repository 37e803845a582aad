"""The options of `keras-distill compress`, as their `--help` shows them."""

import dataclasses
import pathlib
from typing import Annotated
from typing import Literal

import tyro

from keras_distill._kinds import METHODS
from keras_distill.cli.shared.options import AUTO
from keras_distill.cli.shared.options import Auto
from keras_distill.cli.shared.options import Compared
from keras_distill.cli.shared.options import Images
from keras_distill.cli.shared.options import Source
from keras_distill.cli.shared.options import Teaching
from keras_distill.cli.shared.options import Texts
from keras_distill.cli.shared.options import Transfer


@dataclasses.dataclass(frozen=True)
class What(Source):
    """What is cut, how far, and where the results go.

    Args:
        budget: What the result may take at most: multiplications=50% and
            parameters=50%, of the model's or as numbers; size=1MB, of the
            float32 TFLite file; latency=2ms, of that file on this machine, one
            thread.
        steps: How many cuts the budget is reached in. Between two of them the
            model learns again, for as many epochs: slower, and less is lost
            where much is cut.
        method: What the cut model learns from the whole one, as for distill.
        output: Folder for models and reports. The same command, run again,
            continues there after the last finished phase.
    """

    teacher: Annotated[str, tyro.conf.arg(name="model")] = "embedded"
    budget: str = "multiplications=50%"
    steps: int = 1
    method: Literal[*METHODS] = "kd"
    output: pathlib.Path = pathlib.Path("compressed")


@dataclasses.dataclass(frozen=True)
class Learning:
    """How the cut models are trained: all alike.

    Args:
        epochs: Passes over the train part. auto: 4, and more, up to 10, where
            the rows are few.
        learning_rate: Peak learning rate of Adam. auto: the one that the model
            was fine-tuned with, or 5e-5, of images 1e-3.
        batch_size: Rows in each step.
        quantization: int4: a further student is the cut one, trained under the
            rounding of an int4 file, the half of int8. int8: under that of
            weights and activations. None: none; files are rounded afterwards.
    """

    epochs: int | Auto = AUTO
    learning_rate: float | Auto = AUTO
    batch_size: int = 64
    quantization: Literal["int4", "int8"] | None = None


@dataclasses.dataclass(frozen=True)
class Run(Compared):
    """How often, and what to do with an earlier run.

    Args:
        html: Write report.html, too, which needs jinja2 and matplotlib.
    """

    html: bool = False


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
