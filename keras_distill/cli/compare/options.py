"""The options of `keras-distill compare`, as their `--help` shows them."""

import dataclasses
import pathlib
from typing import Literal

from keras_distill._kinds import HARD
from keras_distill._kinds import METHODS
from keras_distill._kinds import RECIPES
from keras_distill._kinds import STUDENTS
from keras_distill.cli.shared.options import Auto
from keras_distill.cli.shared.options import Beam
from keras_distill.cli.shared.options import Compared
from keras_distill.cli.shared.options import Images
from keras_distill.cli.shared.options import Learning
from keras_distill.cli.shared.options import Source
from keras_distill.cli.shared.options import Teaching
from keras_distill.cli.shared.options import Texts
from keras_distill.cli.shared.options import Transfer

TRANSFER = "+transfer"
Arm = Literal[*RECIPES, *(f"{name}{TRANSFER}" for name in (HARD, *METHODS))]


@dataclasses.dataclass(frozen=True)
class What(Source):
    """What is compared, and where the results go.

    Args:
        student: One or more small models: convolutions, a recurrent network,
            averaged n-grams, the teacher with fewer layers; of images a
            residual network; of vectors the mean of the tokens' own; or a model
            in a file. auto: text_cnn, conv_net or static.
        arms: What the students learn from. hard: labels alone, the control.
            mse: labels and the teacher's logits. kd: labels and its
            probabilities (KL divergence at a temperature, times its square).
            hidden: kd, and the states between the layers, or feature maps (not
            for text_cnn and ngram). pooled: kd, and the teacher's states
            averaged over a text (text_cnn, bilstm, ngram). attention: kd, and
            where in an image the feature maps are active (conv_net).
            annealing: its logits, scaled up step by step, then the labels.
            two_stage: the same stages without the scaling, the control of
            annealing. continuation: from the logits to the labels without a
            step. untrained: nothing, the control of vectors, which have no
            labels. neighbours: the teacher's vectors, and which texts they
            bring together. '+transfer': the same, on unlabelled text too.
            auto: hard, mse and kd, or what the task has for them, each with
            and, where there is such text, also without it.
        output: Folder for models and reports. The same command, run again,
            continues there after the last finished training.
    """

    student: tuple[Literal["auto", *STUDENTS], ...] = ("auto",)
    arms: tuple[Arm, ...] | Auto = "auto"
    output: pathlib.Path = pathlib.Path("compared")


@dataclasses.dataclass(frozen=True)
class Imitation:
    """How the arms with a teacher are taught.

    Args:
        temperature: Divides the logits in the arms kd, hidden, pooled and
            attention. auto: 4, and 1 for tags.
        max_temperature: Where the arms with stages start, an integer.
        hard_weight: Weight of the cross-entropy with the labels in the arms
            mse, kd and hidden.
        soft_weight: Weight of the imitation of the teacher there.
    """

    temperature: float | Auto = "auto"
    max_temperature: int = 7
    hard_weight: float = 0.5
    soft_weight: float = 0.5


@dataclasses.dataclass(frozen=True)
class Run(Compared):
    """How often, and what to do with an earlier run.

    Args:
        seeds: One number: how many seeds, counted from 0. Several: the seeds
            themselves. Each one trains every student in every arm anew, on
            labels of its own. auto: 3, and 1 with --smoke.
        cost_per_hour: What an hour on this machine costs, for the report.
        no_html: Leave report.html out, which needs jinja2 and matplotlib.
    """

    seeds: tuple[int, ...] | Auto = "auto"
    cost_per_hour: float | None = None
    no_html: bool = False


@dataclasses.dataclass(frozen=True)
class Compare:
    """Train students with and without a teacher, and say whether it helps.

    Fine-tunes the teacher, trains every student in every arm with every seed,
    chooses on dev, scores on test, and writes report.html, report.md and
    report.json: a verdict in words, differences with intervals, learning
    curves, calibration, accuracy against latency. The best students are
    exported, each with a model card.
    """

    what: What = What()
    texts: Texts = Texts()
    images: Images = Images()
    transfer: Transfer = Transfer()
    teaching: Teaching = Teaching()
    learning: Learning = Learning()
    imitation: Imitation = Imitation()
    beam: Beam = Beam()
    run: Run = Run()
