"""What comes before the students: data, transfer set, teacher, its logits."""

import contextlib
import functools
import pathlib

import keras

from keras_distill import _files
from keras_distill._watcher import Watcher
from keras_distill.experiments import places
from keras_distill.experiments import reading
from keras_distill.experiments import teachers
from keras_distill.experiments import teaching
from keras_distill.experiments import training
from keras_distill.experiments import transfer as transfer_set
from keras_distill.experiments.phases import Phase
from keras_distill.experiments.predicting import seconds_per_row
from keras_distill.experiments.preparation import AUTO
from keras_distill.experiments.preparation import Preparation
from keras_distill.experiments.run_folder import RunFolder
from keras_distill.tasks.base import TRANSFER

MODEL = pathlib.Path("teacher.keras")
ALL_READ = ("teacher", "data", "smoke", "task")
LOGITS = pathlib.Path("data") / "teacher_logits.npz"
TRANSFER_TEXTS = pathlib.Path("data") / "transfer_texts.json"
LABELLING = "seconds_per_row"


class Prepared:
    """Task and teacher of a run, loaded from its folder when asked for.

    Args:
        preparation: `Preparation`.
        folder: `RunFolder`.
    """

    def __init__(self, preparation, folder):
        self.preparation = preparation
        self.folder = folder

    @functools.cached_property
    def task(self):
        """`Task`, with the transfer set."""
        found = self._task_without_transfer()
        texts, left_out = self._transfer_texts()
        if texts:
            found.add_transfer(texts)
            found.notes += (self._transfer_note(len(texts), left_out),)
        return found

    def _transfer_texts(self):
        """Texts for the teacher to label, and how many it has no time for."""
        if not self.preparation.has_transfer_set:
            return [], 0
        texts = _files.read_json(self.folder.path / TRANSFER_TEXTS)
        teacher = self.folder.record("teacher") or {"result": {}}
        seconds = teacher["result"].get(LABELLING)
        # The same teacher may have been taken over from a run with "auto".
        if seconds is None or self.preparation.transfer != AUTO:
            return texts, 0
        minutes = self.preparation.teacher_minutes
        kept = transfer_set.within(texts, seconds, minutes)
        return kept, len(texts) - len(kept)

    def _task_without_transfer(self):
        facts = self.folder.result("data")
        return reading.restore(self.preparation, self.folder.path, facts)

    @property
    def decided(self):
        """Dict of the options that the data may decide, once they are read."""
        kind = self.preparation.task_kind
        found = self.preparation.of(*kind.decides)
        if AUTO not in found.values():
            return found
        decided = kind.decided(self.folder.result("data"))
        return {
            name: decided[name] if value == AUTO else value
            for name, value in found.items()
        }

    def settings(self):
        """Those of the preparation, with what was decided by the data."""
        times = self._variations
        transfer = {"transfer": times and f"augment:{times}"}
        return self.preparation.settings() | self.decided | transfer

    @property
    def _variations(self):
        chosen = self.preparation.transfer
        if chosen == AUTO:
            return transfer_set.for_rows(
                self.folder.result("data")["rows"]["train"]
            )
        return transfer_set.variations(chosen)

    def _transfer_note(self, count, left_out):
        unlabelled = self.preparation.unlabelled
        return transfer_set.note(count, self._variations, unlabelled, left_out)

    @functools.cached_property
    def model(self):
        """The teacher's `keras.Model`."""
        return training.load(self.folder.path / MODEL)

    @functools.cached_property
    def teacher(self):
        """`Teacher`: its logits, and the model."""
        return teaching.Teacher.restore(
            self.folder.path / LOGITS, self.model, self.preparation.teacher
        )

    def phases(self, watcher=None, check=None, signal=True):
        """The phases of a run before the students.

        Args:
            watcher: `Watcher`, or None.
            check: Callable from task and teacher that raises for a teacher
                that is of no use, before it is fine-tuned.
            signal: Boolean. Whether the teacher's logits are wanted.

        Returns:
            List of `Phase`.
        """
        chosen = self.preparation
        watcher = watcher or Watcher()
        columns = ", ".join(filter(None, chosen.columns.values()))
        found = [
            Phase(
                name="data",
                title=f"data: {chosen.data}" + (columns and f" ({columns})"),
                options=chosen.of(
                    "teacher",
                    "data",
                    "smoke",
                    "task",
                    *chosen.task_kind.options,
                )
                | chosen.identities(),
                run=self._read,
                summary=chosen.task_kind.summary,
                files=lambda _: chosen.task_kind.files_for(chosen),
            )
        ]
        if chosen.has_transfer_set:
            file = {"unlabelled file": chosen.unlabelled}
            found.append(
                Phase(
                    name=TRANSFER,
                    title="transfer: further text for the student",
                    options=chosen.of("transfer", "unlabelled")
                    | places.contents(file),
                    needs=("data",),
                    run=self._make_transfer_set,
                    summary="{texts:,} texts".format_map,
                    files=(TRANSFER_TEXTS,),
                )
            )
        found.append(
            Phase(
                name="teacher",
                title=f"teacher: {chosen.teacher}, fine-tuned if need be",
                options=chosen.of(
                    "teacher_start",
                    "teacher_epochs",
                    "teacher_learning_rate",
                    "teacher_batch_size",
                    "teacher_minutes",
                    *self._few_labels(),
                ),
                needs=("data",),
                run=functools.partial(self._teach, watcher, check),
                summary=teachers.summary,
                files=(MODEL,),
            )
        )
        if signal:
            found.append(
                Phase(
                    name="signal",
                    title="signal: the teacher's logits",
                    options={},
                    needs=tuple(phase.name for phase in found),
                    run=self._label,
                    summary="{rows:,} rows".format_map,
                    files=(LOGITS,),
                )
            )
        return found

    def _few_labels(self):
        few = self.preparation.teacher_labels == teachers.SAME
        return ("teacher_labels", "labels") if few else ()

    def _forget(self):
        """What was loaded is loaded again, from what is written now."""
        for name in ("task", "model", "teacher"):
            vars(self).pop(name, None)

    def _read(self):
        self._forget()
        return reading.read(self.preparation, self.folder.path)

    def _make_transfer_set(self):
        self._forget()
        chosen = self.preparation
        texts, given = transfer_set.make(
            self._task_without_transfer().splits,
            self._variations,
            chosen.unlabelled,
            chosen.columns,
            chosen.smoke,
        )
        _files.write_json(self.folder.path / TRANSFER_TEXTS, texts)
        return {"texts": len(texts), "unlabelled": given}

    def _teach(self, watcher, check):
        self._forget()
        chosen, task = self.preparation, self.task
        # All that draws numbers while it loads is loaded: a run that goes on
        # here must draw as one that came from the phase before.
        keras.utils.set_random_seed(teaching.SEED)
        model, tuned = teachers.teacher_for(chosen, task, watcher, check)
        logits = {part: self._logits(model, part) for part in ("dev", "test")}
        if chosen.transfer == AUTO and TRANSFER in task.encoded:
            tuned[LABELLING] = seconds_per_row(model, task.encoded["train"])
        self._save_teacher(model, task)
        return {
            **tuned,
            "parameters": model.count_params(),
            **task.judged_by(logits).scores(logits),
        }

    def _logits(self, model, part):
        logits = training.predict(model, self.task.encoded[part])
        training.check_finite_logits(logits, f"The teacher's logits for {part}")
        return logits

    def _save_teacher(self, model, task):
        """Saves a teacher, a KerasHub task with its preprocessor."""
        is_task = training.is_hub_task(model)
        if is_task:
            model.preprocessor = task.preprocessor
        training.save(model, self.folder.path / MODEL, task)
        if is_task:
            model.preprocessor = None

    def _label(self):
        self._forget()
        task = self.task
        taught = training.predict(self.model, task.taught()).astype("float32")
        logits = teaching.split_logits(taught, task) | {
            part: training.predict(self.model, task.encoded[part]).astype(
                "float32"
            )
            for part in ("dev", "test")
        }
        teaching.Teacher(logits).save(self.folder.path / LOGITS)
        return {
            "rows": len(taught),
            "train_score": task.judged_by(logits).score(logits, "train"),
        }


def prepare(output, command="experiment", watcher=None, redo=False, **chosen):
    """Reads the data, fine-tunes the teacher, and labels the data with it.

    All of it is kept in the folder `output`: the same call continues there,
    and gives at once what is finished.

    Args:
        output: Path of a folder.
        command: String, what makes the run; another one is refused.
        watcher: `Watcher`, or None.
        redo: Boolean. Makes again what was made with other arguments.
        **chosen: Fields of `Preparation`.

    Returns:
        `Prepared`, whose `task`, `teacher` and `folder` go to `kd.distill` and
        `kd.compare`.

    Raises:
        UsageError: An argument, a file or a folder is wrong.
    """
    preparation = Preparation(**chosen)
    folder = open_folder(output, command, preparation)
    prepared = Prepared(preparation, folder)
    with contextlib.ExitStack() as held:
        # Its user closes the folder, unless there is nothing to use.
        held.callback(folder.close)
        folder.execute(prepared.phases(watcher), watcher, redo)
        held.pop_all()
    return prepared


def open_folder(output, command, preparation):
    """The `RunFolder` of a run with this preparation."""
    inputs = [path for path in preparation.inputs().values() if path]
    return RunFolder(output, command, inputs)
