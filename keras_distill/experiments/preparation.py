"""Which data and which teacher: every choice, checked before anything runs."""

import dataclasses
import functools
import pathlib
import platform

from keras_distill import _files
from keras_distill import _kinds
from keras_distill._checks import check_between
from keras_distill._checks import check_choice
from keras_distill._checks import check_integer
from keras_distill._checks import check_learning_rate
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.data import lengths
from keras_distill.data.sources import names_file
from keras_distill.experiments import places
from keras_distill.experiments import sources
from keras_distill.experiments import teachers
from keras_distill.experiments import telling
from keras_distill.experiments import transfer as transfer_set

AUTO = "auto"
DOCSTRINGS, DIGITS = "docstrings", "digits"
BUILT_IN = (DOCSTRINGS, DIGITS)
TRANSFER = ("transfer", "unlabelled")
PACKAGES = ("numpy", "keras", "tensorflow", "keras-hub", "tensorflow-datasets")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Preparation:
    """Which data, which teacher, and how it is taught; checked at once.

    `"auto"` is replaced by what is decided, but for a length and a transfer
    set that the data decide: `Prepared` knows them once they are read.

    Args:
        teacher: String, as `TeacherSource` takes it. It is fine-tuned on the
            labels, unless it knows the task's classes already.
        data: String, as `data.load` takes it, or `data.load_images`; with the
            task `"images"`, `"docstrings"` means `"digits"`.
        text_column: String, the column with the text, or None for `text`. A
            file that has none may have one column, or the two of a pair, that
            are called as in public sets (`review`; `sentence1`, `sentence2`),
            or one beside that of the label.
        label_column: String, the column with the label, or None for `label`,
            and where there is none such `score`, `similarity` or `labels`, or
            that called as classes are (`sentiment`), or of two the one beside
            the text, or whose fields repeat. In several: `"toxic,insult"`.
        text_pair_column: String, the column with the second text of a pair, or
            None: one text in each row, unless `text_column` is None, too.
        labels: Integer, how many train labels a student may see, `"all"`, or
            `"auto"`: 1000 for docstrings, else all. None: all.
        sequence_length: Integer, tokens of each text, or `"auto"`: 32 for
            docstrings, else what holds 99 % of the train texts, a multiple of
            8 from 16 to 512, with a pretrained teacher to 256 or what it can
            read.
        vocabulary: As of `TeacherSource`.
        min_count: Integer: of the teacher's tokens those stay that the train
            texts need so often, as of `pruning.vocabulary`. None: all.
        transfer: String such as `"augment:20"`: so many variations of each
            train text are further text without labels. `"auto"`: up to 20, for
            40,000 texts in all, and none with the embedded teacher or with
            `unlabelled`. None: none.
        unlabelled: Path of a file with texts without labels. None: none.
        teacher_epochs: Integer, passes over the labelled rows, or `"auto"`: as
            long as dev improves, and not at all for a teacher that knows the
            classes (None here).
        teacher_learning_rate: Float, or `"auto"`: of three the one that does
            best on dev (None here); with a number of epochs 5e-4 for the
            embedded teacher, else 5e-5.
        teacher_minutes: Float, the most for its epochs, and for a transfer set.
        teacher_batch_size: Integer.
        teacher_start: String, as what a pretrained one starts: `"encoder"`;
            `"contrastive"`, see there; or `"auto"`: so for 1,000 labels.
        teacher_labels: String, whose labels it sees: `"all"`, or `"student"`,
            no more than a student of the seed 0, as where there are no others.
        smoke: Boolean. Tiny models on a few rows.
        task: String, a name in `_kinds.TASKS`, or `"auto"`: what files,
            columns and their labels tell, else `"text"`.
        image_size: Integer, height and width that images are brought to, or
            `"auto"`: what a `.keras` teacher takes, else as they are, which
            must all be of one size.
        augmentation: String, what is done to train images anew in each step:
            `"none"`, `"shift"`, `"flip+shift"`, or `"auto"`: shifts, and flips
            where a linear model knows mirrored images of dev as well.

    Raises:
        UsageError: An argument is out of range or fits no other.

    Example:

    >>> Preparation(teacher="embedded", data="docstrings").labels
    1000
    """

    teacher: str = places.EMBEDDED
    data: str = DOCSTRINGS
    text_column: str | None = None
    label_column: str | None = None
    text_pair_column: str | None = None
    labels: int | str | None = AUTO
    sequence_length: int | str = AUTO
    vocabulary: str | None = None
    min_count: int | None = None
    transfer: str | None = None
    unlabelled: str | None = None
    teacher_epochs: int | str | None = AUTO
    teacher_learning_rate: float | str | None = AUTO
    teacher_minutes: float = 10.0
    teacher_batch_size: int = 32
    teacher_start: str = AUTO
    teacher_labels: str = "all"
    smoke: bool = False
    task: str = AUTO
    image_size: int | str = AUTO
    augmentation: str = AUTO

    def __post_init__(self):
        for name in ("data", "vocabulary", "unlabelled"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, str(getattr(self, name)))
        for name, value in telling.told(self).items():
            object.__setattr__(self, name, value)
        if self.task == "images" and self.data == DOCSTRINGS:
            object.__setattr__(self, "data", DIGITS)
        with as_usage_error(ValueError, advice="See `--help`."):
            check_choice("task", self.task, tuple(_kinds.TASKS))
        self._check_foreign()
        for name, value in self._defaults().items():
            if getattr(self, name) == AUTO:
                object.__setattr__(self, name, value)
        if self.labels == "all":
            object.__setattr__(self, "labels", None)
        self._check_combination()
        with as_usage_error(ValueError, advice="See `--help`."):
            self._check_ranges()
        self.source  # noqa: B018 - a teacher that is not there is told now.
        self._check_paths()

    def _defaults(self):
        embedded = self.teacher == places.EMBEDDED
        docstrings = self.data == DOCSTRINGS
        no_texts = embedded or self.smoke or self.unlabelled is not None
        kind = self.task_kind
        no_texts = no_texts or not (kind.makes_transfer and kind.wants_transfer)
        found = {
            "transfer": None if no_texts else AUTO,
            "labels": 1000 if docstrings else None,
            "sequence_length": 32 if docstrings else AUTO,
            "teacher_epochs": None,
        }
        if self.smoke:
            found |= {
                "labels": 60 if docstrings else None,
                "sequence_length": 16,
                "teacher_epochs": 1 if embedded else None,
            }
        if not self.task_kind.fine_tunes_teacher:
            found |= {"labels": None, "teacher_epochs": 0}
        epochs = found["teacher_epochs"]
        if self.teacher_epochs != AUTO:
            epochs = self.teacher_epochs
        rate = None if epochs is None else self.usual_learning_rate
        return found | {"teacher_learning_rate": rate}

    def _foreign(self):
        """The options that are for other kinds of tasks."""
        kinds = [_kinds.load(place) for place in _kinds.TASKS.values()]
        found = dict.fromkeys(name for kind in kinds for name in kind.options)
        if not self.task_kind.makes_transfer:
            found |= dict.fromkeys(TRANSFER)
        return [name for name in found if name not in self.task_kind.options]

    def _check_foreign(self):
        # What the command line leaves out is auto, and what Python does None.
        usual = {f.name: {f.default, None} for f in dataclasses.fields(self)}
        usual["transfer"].add(AUTO)
        for name in self._foreign():
            value = getattr(self, name)
            if value not in usual[name]:
                raise UsageError(
                    f"`--{name.replace('_', '-')}` is not for `--task "
                    f"{self.task}`: leave it out. Received: {name}={value}"
                )

    def _check_combination(self):
        named = [name for name, column in self.columns.items() if column]
        if self.data == DOCSTRINGS and named:
            raise UsageError(
                f"`--{named[0].replace('_', '-')}` is for files and TFDS; the "
                f"set docstrings has no columns. Received: {named[0]}="
                f"{getattr(self, named[0])}"
            )
        self.task_kind.check_chosen(self)
        learns = self.task_kind.fine_tunes_teacher
        if self.source.is_new and learns and self.teacher_epochs == 0:
            raise UsageError(
                "The embedded teacher must be trained: it starts from "
                "scratch. Received: teacher_epochs=0"
            )
        teachers.check_start(self)
        transfer_set.variations(self.transfer)

    def _check_ranges(self):
        # Positions of tokens are a table in most encoders.
        if self.sequence_length != AUTO:
            check_integer("sequence_length", self.sequence_length, 4, 10**6)
        if self.image_size != AUTO:
            check_integer("image_size", self.image_size, 4, 4096)
        check_choice(
            "augmentation", self.augmentation, (AUTO, *_kinds.AUGMENTATIONS)
        )
        check_integer("teacher_batch_size", self.teacher_batch_size, 1, 10**6)
        if self.labels is not None:
            check_integer("labels", self.labels, minimum=1)
        if self.teacher_epochs is not None:
            check_integer("teacher_epochs", self.teacher_epochs, 0, 10**6)
        check_choice("teacher_start", self.teacher_start, teachers.STARTS)
        check_choice("teacher_labels", self.teacher_labels, ("all", "student"))
        check_between("teacher_minutes", self.teacher_minutes, 0.01, 10**6)
        if self.teacher_learning_rate is not None:
            check_learning_rate(
                "teacher_learning_rate", self.teacher_learning_rate
            )

    def _check_paths(self):
        if self._is_path:
            places.check_exists(
                self.data,
                "data",
                "'docstrings', 'digits', 'tfds:NAME', a .tsv, .csv, .jsonl or "
                ".npz file, or a folder with train as such a file, or with "
                "images",
            )
        if self.unlabelled is not None:
            places.check_exists(
                self.unlabelled,
                "unlabelled",
                "a .txt, .tsv, .csv or .jsonl file",
            )

    @property
    def usual_learning_rate(self):
        """Float, for layers of the teacher where none is chosen on dev."""
        return 5e-4 if self.teacher == places.EMBEDDED else 5e-5

    @functools.cached_property
    def source(self):
        """`TeacherSource`."""
        length = self.sequence_length
        if length == AUTO:
            length = lengths.LONGEST
        return sources.TeacherSource(
            self.teacher, length, self.vocabulary, self.smoke
        )

    @property
    def task_kind(self):
        """Subclass of `Task`."""
        return _kinds.load(_kinds.TASKS[self.task])

    @property
    def columns(self):
        """Dict of the columns, as `data.load` takes them."""
        return self.of("text_column", "label_column", "text_pair_column")

    @property
    def has_transfer_set(self):
        """Whether there may be text that is in none of the data's parts."""
        return self.transfer is not None or self.unlabelled is not None

    def of(self, *names):
        """Some of the settings, as a dict that JSON can hold."""
        return {name: getattr(self, name) for name in names}

    def settings(self):
        """All that are for the task, as a dict that JSON can hold."""
        names = [f.name for f in dataclasses.fields(self)]
        foreign = self._foreign()
        return self.of(*(name for name in names if name not in foreign))

    @property
    def _is_path(self):
        return not self.data.startswith("tfds:") and self.data not in BUILT_IN

    def inputs(self):
        """The files and folders that are read, by name."""
        names = names_file(self.data) if self._is_path else None
        return {
            **self.source.paths(),
            "data": self.data if self._is_path else None,
            "class names": names and str(names),
            "unlabelled file": self.unlabelled,
        }

    def identities(self):
        """What tells the data and the teacher from changed ones."""
        paths = self.inputs()
        del paths["unlabelled file"]
        found = places.contents(paths)
        if self.data == DOCSTRINGS:
            found["installed packages"] = packages()
        return found

    def name(self):
        """What to call the data: of a path the last part."""
        path = self.inputs()["data"]
        return self.data if path is None else pathlib.Path(path).name


def packages():
    """Versions of Python and of the packages whose docstrings are read."""
    return {"python": platform.python_version(), **_files.versions(PACKAGES)}
