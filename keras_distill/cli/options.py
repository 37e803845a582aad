"""The options of `keras-distill distill`, as their `--help` shows them."""

import dataclasses
import pathlib
from typing import Literal

Auto = Literal["auto"]


@dataclasses.dataclass(frozen=True)
class What:
    """What is distilled into what, and where the results go.

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
        student: The small model: convolutions, a recurrent network, or the
            teacher with fewer layers.
        method: What the student imitates. kd: the teacher's probabilities (KL
            divergence at a temperature). mse: its logits. annealing: its
            logits, scaled up step by step, then the labels. hidden: kd, and the
            states between the layers (students bilstm and shrink).
        output: Folder for models and report. The same command, run again,
            continues there after the last finished phase.
    """

    teacher: str = "embedded"
    data: str = "docstrings"
    student: Literal["text_cnn", "bilstm", "shrink"] = "text_cnn"
    method: Literal["kd", "mse", "annealing", "hidden"] = "kd"
    output: pathlib.Path = pathlib.Path("distilled")


@dataclasses.dataclass(frozen=True)
class Texts:
    """How texts become numbers.

    Args:
        text_column: Column (or TFDS feature) with the text. None: 'text'.
        label_column: Column (or TFDS feature) with the label. None: 'label'.
        labels: Rows whose label the student may see; the others are text
            without label for it. auto: 1000 for docstrings, all for other data.
        sequence_length: Tokens per text, longer ones are cut. auto: 32 for
            docstrings, else 64.
        vocabulary: WordPiece vocabulary (vocab.txt) of a teacher in a .keras
            file that holds no tokenizer. None: a vocab.txt beside the file.
    """

    text_column: str | None = None
    label_column: str | None = None
    labels: int | Literal["auto", "all"] = "auto"
    sequence_length: int | Auto = "auto"
    vocabulary: pathlib.Path | None = None


@dataclasses.dataclass(frozen=True)
class Transfer:
    """Further text for the student to imitate the teacher on.

    None of it occurs in train, dev or test; the teacher labels all of it.

    Args:
        transfer: 'augment:20': 20 variations of each train text, with words
            masked, replaced, left out or cut. None: no such text.
        unlabelled: File with texts without labels: a .txt file, one text a
            line, or a .tsv or .csv file with the text column. None: none.
    """

    transfer: str | None = None
    unlabelled: pathlib.Path | None = None


@dataclasses.dataclass(frozen=True)
class Teaching:
    """How the teacher is fine-tuned: AdamW with warm-up.

    Args:
        teacher_epochs: Passes over the labelled rows. auto: 2 for the embedded
            teacher, 3 for a pretrained one, 0 for one that classifies already.
        teacher_learning_rate: Peak learning rate. auto: 5e-4 for the embedded
            teacher, else 5e-5.
        teacher_batch_size: Texts in each step.
    """

    teacher_epochs: int | Auto = "auto"
    teacher_learning_rate: float | Auto = "auto"
    teacher_batch_size: int = 32


@dataclasses.dataclass(frozen=True)
class Learning:
    """How the students are trained: with and without the teacher alike.

    Args:
        width: Width of the student: of embeddings and filters (text_cnn),
            embeddings and states (bilstm), states (shrink). auto: 64, and the
            teacher's for shrink.
        embeddings: Where those of text_cnn and bilstm start. random: new ones.
            teacher: a copy of the teacher's, as wide as there; width is then
            that of filters or states alone.
        embedding_rank: Columns of the table of embeddings of text_cnn and
            bilstm, which a linear map then widens: smaller files, faster steps.
            None: a whole table.
        layers: Layers of the student shrink. auto: half of the teacher's.
        epochs: Passes over the train part; a student that sees fewer or more
            texts takes as many steps. auto: 10, and 4 for shrink; with transfer
            text three times as many.
        learning_rate: Peak learning rate of Adam. auto: 2e-3; for shrink the
            teacher's.
        batch_size: Texts in each step.
        temperature: Divides logits before they are compared; for annealing the
            integer that it starts from. auto: 4 for kd and hidden, 1 for mse, 7
            for annealing.
        hard_weight: Weight of the cross-entropy with the labels. auto: 0.5. Not
            for annealing.
        soft_weight: Weight of the imitation of the teacher. auto: 0.5. Not for
            annealing.
    """

    width: int | Auto = "auto"
    embeddings: Literal["random", "teacher"] = "random"
    embedding_rank: int | None = None
    layers: int | Auto = "auto"
    epochs: int | Auto = "auto"
    learning_rate: float | Auto = "auto"
    batch_size: int = 64
    temperature: float | Auto = "auto"
    hard_weight: float | Auto = "auto"
    soft_weight: float | Auto = "auto"


@dataclasses.dataclass(frozen=True)
class Run:
    """How often, how long, and what to do with an earlier run.

    Args:
        seeds: One number: how many seeds, counted from 0. Several: the seeds
            themselves. Each one trains every student anew, on labels of its
            own.
        smoke: Tiny models on a few texts: seconds, to see that everything runs.
        redo: Where the output folder holds phases made with other options, make
            them again, and those that follow from them.
    """

    seeds: tuple[int, ...] = (1,)
    smoke: bool = False
    redo: bool = False


@dataclasses.dataclass(frozen=True)
class Distill:
    """Distil a text classifier into a small one, and show what it is worth.

    Fine-tunes the teacher, trains the student with it and, as the control,
    without it, exports SavedModel and TFLite files, and writes report.json
    with accuracy, parameters, file size and latency of each.
    """

    what: What = What()
    texts: Texts = Texts()
    transfer: Transfer = Transfer()
    teaching: Teaching = Teaching()
    learning: Learning = Learning()
    run: Run = Run()
