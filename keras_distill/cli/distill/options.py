"""The options of `keras-distill distill`, as their `--help` shows them."""

import dataclasses
import pathlib
from typing import Literal

from keras_distill._kinds import METHODS
from keras_distill._kinds import STUDENTS
from keras_distill.cli.shared.options import Auto
from keras_distill.cli.shared.options import Compared
from keras_distill.cli.shared.options import Images
from keras_distill.cli.shared.options import Learning
from keras_distill.cli.shared.options import Source
from keras_distill.cli.shared.options import Teaching
from keras_distill.cli.shared.options import Texts
from keras_distill.cli.shared.options import Transfer


@dataclasses.dataclass(frozen=True)
class What(Source):
    """What is distilled into what, and where the results go.

    Args:
        student: The small model: convolutions, a recurrent network, averaged
            n-grams, or the teacher with fewer layers; of images a residual
            network; of vectors the mean of the tokens' own; or a model in a
            file. auto: text_cnn, conv_net or static.
        method: What the student imitates. kd: the teacher's probabilities (KL
            divergence at a temperature). mse: its logits. annealing: its
            logits, scaled up step by step, then the labels. two_stage: the same
            stages without the scaling. continuation: from the logits to the
            labels without a step. hidden: kd, and the states between the layers
            (students bilstm and shrink), or feature maps (conv_net). pooled:
            kd, and the teacher's states averaged over a text (text_cnn, bilstm,
            ngram). attention: kd, and where in an image the feature maps are
            active.
            neighbours: its vectors, and which texts they bring together. auto:
            pooled for classes of texts, text_cnn or bilstm, beside a pretrained
            encoder of KerasHub; else kd.
        output: Folder for models and report. The same command, run again,
            continues there after the last finished phase.
    """

    student: Literal["auto", *STUDENTS] = "auto"
    method: Literal["auto", *METHODS] = "auto"
    output: pathlib.Path = pathlib.Path("distilled")


@dataclasses.dataclass(frozen=True)
class Imitation:
    """How the student is taught.

    Args:
        temperature: Divides logits before they are compared; for the methods
            with stages the integer that it starts from. auto: 4 for kd,
            hidden, pooled and attention, 1 for mse and for tags, 7 for the
            others.
        hard_weight: Weight of the cross-entropy with the labels. auto: 0.5. Not
            for methods with stages.
        soft_weight: Weight of the imitation of the teacher. auto: 0.5. Not for
            methods with stages.
    """

    temperature: float | Auto = "auto"
    hard_weight: float | Auto = "auto"
    soft_weight: float | Auto = "auto"


@dataclasses.dataclass(frozen=True)
class Run(Compared):
    """How often, how long, and what to do with an earlier run.

    Args:
        tune: How long learning rate, temperature and weights are chosen on dev
            before, such as 10m, 90s or 1h. What is given stays. None: as it is.
    """

    tune: str | None = None


@dataclasses.dataclass(frozen=True)
class Distill:
    """Distil a model of texts into a small one, and show what it is worth.

    Fine-tunes the teacher, trains the student with it and, as the control,
    without it, exports SavedModel and TFLite files, and writes report.json
    with score, parameters, file size and latency of each.
    """

    what: What = What()
    texts: Texts = Texts()
    images: Images = Images()
    transfer: Transfer = Transfer()
    teaching: Teaching = Teaching()
    learning: Learning = Learning()
    imitation: Imitation = Imitation()
    run: Run = Run()
