"""What a language model is distilled with; checked before anything starts."""

import dataclasses
import functools

from keras_distill._checks import check_between
from keras_distill._checks import check_integer
from keras_distill._checks import check_learning_rate
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.experiments import places
from keras_distill.experiments.preparation import DOCSTRINGS
from keras_distill.experiments.preparation import packages

EMBEDDED, SHRINK = places.EMBEDDED, "shrink"
AUTO = "auto"
SMOKE_ROWS = {"train": 96, "dev": 16}
MOST = 10**6
INTEGERS = {
    "prompt_tokens": (1, MOST),
    "max_completion_length": (1, MOST),
    "steps": (1, MOST),
    "batch_size": (1, MOST),
    "layers": (1, MOST),
    "max_prompt_length": (1, MOST),
    "teacher_epochs": (0, MOST),
    "start_epochs": (0, MOST),
    "seed": (0, 2**32 - 1),
}
OPTIONAL = (
    "layers",
    "prompt_tokens",
    "max_prompt_length",
    "max_completion_length",
)
NUMBERS = {
    "beta": (0, 1),
    "lmbda": (0, 1),
    "temperature": (0.001, 1000),
    "loss_temperature": (0.001, 1000),
    "sft_weight": (0, 1e6),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Models, data and method. `"auto"` is replaced by what is decided.

    Args:
        teacher: String: `"embedded"`, a small GPT-2 trained here; a KerasHub
            preset name; a folder with a preset or a Hugging Face model; a
            `.keras` file.
        student: String: `"embedded"`, `"shrink"` (the teacher with some of its
            layers), or as `teacher`. `"auto"`: embedded for an embedded
            teacher, else shrink.
        layers: Integer, of `"shrink"`, or None for half of the teacher's.
        data: String, as `data.load_prompts` takes it.
        prompt_tokens: Integer, how many tokens at the start of a text are its
            prompt. None: a third of the median text, at most 16.
        max_prompt_length: Integer; longer prompts are cut from the left. None:
            as long as the longest, as far as the models read.
        max_completion_length: Integer. None: as long as the longest of the
            data, at most 512, as far as the models read.
        beta: As of `GKDDistiller`, like the next five.
        lmbda: Float.
        seq_kd: Boolean.
        temperature: Float.
        loss_temperature: Float.
        sft_weight: Float.
        teacher_epochs: Integer, passes over the texts.
        start_epochs: Integer, passes of the student before it is distilled.
        steps: Integer, of the distillation.
        learning_rate: Float, peak of teacher and start.
        gkd_learning_rate: Float, peak of the distillation. None: half of it.
        batch_size: Integer, prompts in each step.
        seed: Integer.
        smoke: Boolean. Tiny models on a few texts.

    Raises:
        UsageError: An argument is out of range or fits no other.

    Example:

    >>> Settings().steps
    1000
    """

    teacher: str = EMBEDDED
    student: str = AUTO
    layers: int | str | None = AUTO
    data: str = DOCSTRINGS
    prompt_tokens: int | str | None = AUTO
    max_prompt_length: int | str | None = AUTO
    max_completion_length: int | str | None = AUTO
    beta: float = 0.5
    lmbda: float = 0.5
    seq_kd: bool = False
    temperature: float = 0.9
    loss_temperature: float = 1.0
    sft_weight: float = 0.0
    teacher_epochs: int | str = AUTO
    start_epochs: int | str = AUTO
    steps: int | str = AUTO
    learning_rate: float | str = AUTO
    gkd_learning_rate: float | str | None = AUTO
    batch_size: int = 32
    seed: int = 0
    smoke: bool = False

    def __post_init__(self):
        embedded = self.teacher == EMBEDDED
        if self.student == AUTO:
            self._set("student", EMBEDDED if embedded else SHRINK)
        self._check_combination()
        for name, value in self._defaults().items():
            if getattr(self, name) == AUTO:
                self._set(name, value)
        if self.gkd_learning_rate is None:
            self._set("gkd_learning_rate", self.learning_rate / 2)
        with as_usage_error(ValueError, advice="See `--help`."):
            self._check_ranges()
        places.model_kind(self.teacher)
        if self.has_own_student:
            places.model_kind(self.student, "student")
        if self.data != DOCSTRINGS:
            places.check_exists(
                self.data,
                "data",
                "'docstrings', a .txt, .jsonl, .tsv or .csv file, or a folder "
                "with train as such a file",
            )

    def _set(self, name, value):
        object.__setattr__(self, name, value)

    @property
    def has_own_student(self):
        """Whether the student is a model of its own."""
        return self.student not in (EMBEDDED, SHRINK)

    def of(self, *names):
        """Some of the settings, as a dict that JSON can hold."""
        return {name: getattr(self, name) for name in names}

    def all(self):
        """All of them, as a dict that JSON can hold."""
        return self.of(*(f.name for f in dataclasses.fields(self)))

    def inputs(self):
        """The files and folders that are read, by name."""
        student = None
        if self.has_own_student:
            student = places.path_of(self.student, "student")
        return {
            "teacher": places.path_of(self.teacher),
            "student": student,
            "data": None if self.data == DOCSTRINGS else self.data,
        }

    @functools.cached_property
    def identities(self):
        """Dict from each input to what tells it from a changed one."""
        found = {
            name: places.contents({name: path})
            for name, path in self.inputs().items()
        }
        if self.data == DOCSTRINGS:
            found["data"] = {"installed packages": packages()}
        return found

    def _defaults(self):
        embedded = self.teacher == EMBEDDED
        docstrings = self.data == DOCSTRINGS
        start = {EMBEDDED: 2, SHRINK: 1}.get(self.student, 0)
        defaults = {
            "layers": None,
            "prompt_tokens": 4 if docstrings else None,
            "max_prompt_length": None,
            "max_completion_length": 20 if docstrings else None,
            "teacher_epochs": 4 if embedded else 0,
            "start_epochs": start,
            "steps": 1000,
            "learning_rate": 1e-3 if embedded else 5e-5,
            "gkd_learning_rate": None,
        }
        if self.smoke:
            defaults |= {
                "max_completion_length": 8,
                "teacher_epochs": int(embedded),
                "start_epochs": min(start, 1),
                "steps": 3,
            }
        return defaults

    def _check_combination(self):
        if self.student == EMBEDDED and self.teacher != EMBEDDED:
            raise UsageError(
                "`--student embedded` has the vocabulary of the embedded "
                "teacher only; use `--student shrink`, or a folder with a "
                "model that has the teacher's vocabulary. Received: teacher="
                f"{self.teacher}"
            )
        if self.layers != AUTO and self.student != SHRINK:
            raise UsageError(
                "`--layers` is for `--student shrink`; leave it out. "
                f"Received: layers={self.layers}, student={self.student}"
            )

    def _check_ranges(self):
        for name, (low, high) in INTEGERS.items():
            value = getattr(self, name)
            if value is not None or name not in OPTIONAL:
                check_integer(name, value, low, high)
        for name, (low, high) in NUMBERS.items():
            check_between(name, getattr(self, name), low, high)
        for name in ("learning_rate", "gkd_learning_rate"):
            check_learning_rate(name, getattr(self, name))
        if self.teacher == EMBEDDED and not self.teacher_epochs:
            raise ValueError(
                "The embedded teacher must be trained: it starts from scratch. "
                "Received: teacher_epochs=0"
            )
