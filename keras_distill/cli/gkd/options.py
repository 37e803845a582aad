"""The options of `keras-distill gkd`, as their `--help` shows them."""

import dataclasses
import pathlib
from typing import Annotated
from typing import Literal

import tyro

from keras_distill.cli.shared.options import Repeated

Auto = Literal["auto"]


@dataclasses.dataclass(frozen=True)
class Models:
    """What is distilled into what, and where the results go.

    Args:
        teacher: The large model. 'embedded': a 4-layer GPT-2, trained here on
            the data from scratch, no download. Or a KerasHub preset name
            (gpt2_medium_en), or a local folder with a KerasHub preset or a
            Hugging Face model.
        student: The small model. 'shrink': the teacher with some of its layers,
            copied (see layers). 'embedded': a 2-layer GPT-2 from scratch, for
            the embedded teacher, and its default. Or a preset name or a folder
            with a model that has the teacher's vocabulary.
        layers: Layers of the student 'shrink'. auto: half of the teacher's.
        data: The prompts. 'docstrings': summaries of the installed packages'
            functions, no download. Or a .txt file, one text a line; a .tsv,
            .csv or .jsonl file with prompt and completion, or with text; or a
            folder with train and dev as such files.
        output: Folder for models and report. The same command, run again,
            continues there after the last finished phase.
    """

    teacher: Annotated[str, tyro.conf.arg(aliases=["--teacher-model"])] = (
        "embedded"
    )
    student: str = "auto"
    layers: int | Auto = "auto"
    data: str = "docstrings"
    output: pathlib.Path = pathlib.Path("distilled")


@dataclasses.dataclass(frozen=True)
class Lengths:
    """How texts become prompts and completions.

    Args:
        prompt_tokens: Where the data has texts and no prompts: how many tokens
            at the start of a text are its prompt. auto: 4 for docstrings, else
            a third of the median text, at most 16.
        max_prompt_length: Longest prompt in tokens, longer ones are cut from
            the left. auto: as long as the longest, within the models' limit.
        max_completion_length: Longest completion in tokens. auto: 20 for
            docstrings, else as long as the longest of the data, at most 512,
            within the models' limit.
    """

    prompt_tokens: int | Auto = "auto"
    max_prompt_length: int | Auto = "auto"
    max_completion_length: int | Auto = "auto"


@dataclasses.dataclass(frozen=True)
class Method:
    """Generalised knowledge distillation.

    Args:
        beta: Interpolates the divergence. 0: KL(teacher || student), which
            covers the teacher's modes. 1: KL(student || teacher), which seeks
            one. Between: the generalised Jensen-Shannon divergence.
        lmbda: Probability that a completion is the student's own.
        seq_kd: Other completions come from the teacher instead of the data.
        temperature: Of the sampling.
        loss_temperature: Divides both models' logits in the divergence.
        sft_weight: Weight of the cross-entropy with the data's responses, added
            to the divergence.
    """

    beta: float = 0.5
    lmbda: float = 0.5
    seq_kd: bool = False
    temperature: float = 0.9
    loss_temperature: float = 1.0
    sft_weight: float = 0.0


@dataclasses.dataclass(frozen=True)
class Training:
    """How the models are trained: AdamW with warm-up.

    Args:
        teacher_epochs: Passes over the texts for the teacher. auto: 4 for the
            embedded teacher, else 0.
        start_epochs: Passes over the texts for the student, before it is
            distilled: it must write something that can be corrected. auto: 2
            for the embedded student, 1 for shrink, else 0.
        steps: Steps of the distillation.
        learning_rate: Peak learning rate of teacher and start. auto: 1e-3 for
            embedded models, else 5e-5.
        gkd_learning_rate: Peak learning rate of the distillation. auto: half of
            the learning rate.
        batch_size: Prompts in each step.
        seed: Seeds everything that is drawn.
    """

    teacher_epochs: int | Auto = "auto"
    start_epochs: int | Auto = "auto"
    steps: int | Auto = "auto"
    learning_rate: float | Auto = "auto"
    gkd_learning_rate: float | Auto = "auto"
    batch_size: int = 32
    seed: int = 0


@dataclasses.dataclass(frozen=True)
class GKD:
    """Distil a causal language model on what the student writes itself.

    Starts the student on the texts, lets it complete prompts, and moves it
    towards the teacher at every token of them. Ends with sample texts of both,
    and with the divergence to the teacher on held-out prompts, before and
    after.
    """

    models: Models = Models()
    lengths: Lengths = Lengths()
    method: Method = Method()
    training: Training = Training()
    run: Repeated = Repeated()
