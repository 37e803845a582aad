"""The options of `keras-distill compare`, as their `--help` shows them."""

import dataclasses
import pathlib
from typing import Literal

from keras_distill.cli.options import Auto
from keras_distill.cli.options import Teaching
from keras_distill.cli.options import Texts
from keras_distill.cli.options import Transfer

Arm = Literal[
    "hard",
    "mse",
    "kd",
    "hidden",
    "annealing",
    "two_stage",
    "hard+transfer",
    "mse+transfer",
    "kd+transfer",
    "hidden+transfer",
    "annealing+transfer",
    "two_stage+transfer",
]


@dataclasses.dataclass(frozen=True)
class What:
    """What is compared, and where the results go.

    Args:
        teacher: The large model. 'embedded': a 2-layer BERT, trained here from
            scratch, no download. Or a KerasHub preset name
            (bert_base_en_uncased), a local folder with a KerasHub preset or a
            Hugging Face model, or a saved .keras file. It is fine-tuned on the
            labels, unless it classifies already.
        data: The texts. 'docstrings': summaries of the installed packages'
            functions, labelled by library, no download. Or a .tsv or .csv file,
            a folder with train, dev and test as such files, or 'tfds:NAME',
            such as tfds:glue/sst2.
        student: One or more small models: convolutions, a recurrent network,
            the teacher with fewer layers.
        arms: What the students learn from. hard: labels alone, the control.
            mse: labels and the teacher's logits. kd: labels and its
            probabilities (KL divergence at a temperature, times its square).
            hidden: kd, and the states between the layers (not for text_cnn).
            annealing: its logits, scaled up step by step, then the labels.
            two_stage: the same stages without the scaling, the control of
            annealing. '+transfer': the same, on unlabelled text too. auto:
            hard, mse and kd, each with and, where there is such text, also
            without it.
        output: Folder for models and reports. The same command, run again,
            continues there after the last finished training.
    """

    teacher: str = "embedded"
    data: str = "docstrings"
    student: tuple[Literal["text_cnn", "bilstm", "shrink"], ...] = ("text_cnn",)
    arms: tuple[Arm, ...] | Auto = "auto"
    output: pathlib.Path = pathlib.Path("compared")


@dataclasses.dataclass(frozen=True)
class Learning:
    """How the students are trained: in all arms alike.

    Args:
        width: Width of the students: of embeddings and filters (text_cnn),
            embeddings and states (bilstm), states (shrink). auto: 64, and the
            teacher's for shrink.
        embeddings: Where those of text_cnn and bilstm start. random: new ones.
            teacher: a copy of the teacher's, as wide as there; width is then
            that of filters or states alone.
        embedding_rank: Columns of the table of embeddings of text_cnn and
            bilstm, which a linear map then widens: smaller files, faster steps.
            None: a whole table.
        layers: Layers of the student shrink. auto: half of the teacher's.
        epochs: Passes over the train part; all arms take as many steps, and
            are scored on dev after each. auto: 10, and 4 for shrink; with
            transfer text three times as many.
        learning_rate: Peak learning rate of Adam. auto: 2e-3; for shrink the
            teacher's.
        batch_size: Texts in each step.
        temperature: Divides the logits in the arms kd and hidden.
        max_temperature: Where the arm annealing starts, an integer.
        hard_weight: Weight of the cross-entropy with the labels in the arms
            mse, kd and hidden.
        soft_weight: Weight of the imitation of the teacher there.
    """

    width: int | Auto = "auto"
    embeddings: Literal["random", "teacher"] = "random"
    embedding_rank: int | None = None
    layers: int | Auto = "auto"
    epochs: int | Auto = "auto"
    learning_rate: float | Auto = "auto"
    batch_size: int = 64
    temperature: float = 4.0
    max_temperature: int = 7
    hard_weight: float = 0.5
    soft_weight: float = 0.5


@dataclasses.dataclass(frozen=True)
class Run:
    """How often, how long, and what to do with an earlier run.

    Args:
        seeds: One number: how many seeds, counted from 0. Several: the seeds
            themselves. Each one trains every student in every arm anew, on
            labels of its own.
        cost_per_hour: What an hour on this machine costs, for the report.
        no_html: Leave report.html out, which needs jinja2 and matplotlib.
        smoke: Tiny models on a few texts, one seed unless you say how many: to
            see that everything runs.
        redo: Where the output folder holds phases or trainings made with other
            options, make them again, and those that follow from them.
    """

    seeds: tuple[int, ...] | Auto = "auto"
    cost_per_hour: float | None = None
    no_html: bool = False
    smoke: bool = False
    redo: bool = False


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
    transfer: Transfer = Transfer()
    teaching: Teaching = Teaching()
    learning: Learning = Learning()
    run: Run = Run()
