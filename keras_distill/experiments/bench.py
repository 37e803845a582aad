"""A bench: the task and the teacher that cells are trained on."""

import contextlib
import dataclasses
import functools
import time

import keras
import numpy as np

from keras_distill import data
from keras_distill import pruning
from keras_distill._errors import UsageError
from keras_distill.distiller import Distiller
from keras_distill.experiments import configurations
from keras_distill.experiments import linear_parts
from keras_distill.experiments import teaching
from keras_distill.experiments import training
from keras_distill.experiments.cells import PREDICTIONS
from keras_distill.experiments.cells import write_predictions
from keras_distill.experiments.phases import Phase
from keras_distill.experiments.signals import Signals
from keras_distill.quantization.aware import plain_student


@dataclasses.dataclass(frozen=True)
class Trained:
    """A student after its training, with the weights of the best epoch.

    Args:
        student: `keras.Model`.
        best: `training.BestEpoch`, which has found that epoch, or not.
        curves: Dict of lists, one value an epoch.
        labels: Integer, how many labels it saw.
        texts: Integer, how many rows.
        steps: Integer, of all epochs.
        seconds: Float, what they took.
    """

    student: keras.Model
    best: training.BestEpoch
    curves: dict
    labels: int
    texts: int
    steps: int
    seconds: float


class Bench:
    """The task and the teacher that cells are trained on.

    Args:
        task: `Task`.
        teacher: `Teacher`.
    """

    def __init__(self, task, teacher):
        self.task = task
        self.teacher = teacher
        self._built = {}
        self.signals = Signals(task, teacher)
        self._linear_parts = linear_parts.LinearParts(task)

    @functools.cached_property
    def hashes(self):
        """Dict from `texts`, `transfer`, `teacher` to what tells changes."""
        return {**self.task.hashes(), "teacher": self.teacher.hash()}

    def new_student(self, cell):
        """The student of a cell, from its seed."""
        task, teacher = self.task, self.teacher.model
        keras.utils.set_random_seed(cell.seed)
        return cell.student.made(task, teacher)

    def made_with(self, cell):
        """All that the cell's result depends on, as JSON holds it."""
        recipe, student = cell.recipe, cell.student
        model, of_model = self._initial(cell)
        matches = []
        if recipe.matches:
            matches = recipe.matches(
                student, self.teacher.model, plain_student(model)
            )
        epochs = student.epochs
        distilled = recipe.is_distilled
        return {
            "recipe": {
                "soft_loss": configurations.configuration(recipe.soft_loss),
                "hard_weight": recipe.hard_weight
                if distilled or not recipe.trains
                else 1.0,
                "soft_weight": recipe.soft_weight if distilled else 0.0,
                "matches": [
                    configurations.of_match(match, self.teacher.model, model)
                    for match in matches
                ],
                "stages": _made(recipe.stages, epochs),
                "callbacks": _made(recipe.callbacks, epochs),
                "transfer": recipe.transfer,
                **_signals_of(recipe),
            },
            "student": {
                "epochs": epochs,
                "batch_size": student.batch_size,
                "learning_rate": student.learning_rate,
                **of_model,
                **linear_parts.of_cell(cell, self.task),
            },
            "seed": cell.seed,
            "measure": self.task.measure,
            "labels": cell.labels,
            "texts": self.hashes["texts"],
            "transfer texts": recipe.transfer and self.hashes["transfer"],
            "teacher": self.hashes["teacher"]
            if distilled or recipe.transfer
            else None,
        }

    def _initial(self, cell):
        """The student before training, built once for all its recipes."""
        key = cell.student_name, cell.seed
        if key not in self._built:
            model = self.new_student(cell)
            if not isinstance(model, keras.Model) or not model.built:
                raise UsageError(
                    "A student's `build` must give a built `keras.Model`. "
                    f"Received: {model!r}"
                )
            self._built[key] = model, configurations.of_model(model)
        return self._built[key]

    def forget(self):
        """Lets go of the students that `made_with` has built."""
        self._built.clear()

    def phase(self, cell, folder, watcher):
        """The `Phase` that trains a cell in a run's folder."""
        files = [
            path.relative_to(folder)
            for path in (
                cell.model_file(folder),
                cell.file(folder, PREDICTIONS),
            )
        ]
        return Phase(
            name=cell.name,
            title=cell.title,
            label=cell.label,
            options=self.made_with(cell),
            run=functools.partial(self.train, cell, folder, watcher),
            summary=summary,
            files=lambda result: () if "failed" in result else files,
        )

    def fit(self, cell, watcher=None):
        """Trains a cell, and chooses its epoch on dev.

        Args:
            cell: `Cell`.
            watcher: `Watcher`, or None.

        Returns:
            `Trained`.
        """
        task = self.task
        student = self.new_student(cell)
        if not cell.recipe.trains:
            best = training.BestEpoch(student, task)
            # Its epoch is the one before the first.
            best.on_epoch_end(-1, {})
            curves = {training.VALUE: [best.score]}
            return Trained(student, best, curves, 0, 0, 0, 0.0)
        labels = task.labels(cell.labels, cell.seed)
        rows, signal = self.signals.rows(cell.recipe, labels)
        steps = cell.steps(task)
        start = time.perf_counter()
        read = rows.inputs, task.encoded["dev"].inputs
        with pruning.occurring(student, *read) as small:
            best = training.BestEpoch(small, task)
            model = self._trained(cell, small)
            asked = self.signals.in_each_step(cell)
            if asked or not isinstance(model, Distiller):
                signal = None
            _compile(model, cell, task, steps)
            with self._context(cell, small):
                curves = training.fit(
                    model,
                    self.signals.batches(cell, rows, signal),
                    (cell.student.epochs, steps),
                    # Its score is in the logs before a schedule looks for it.
                    [best, *cell.recipe.schedule(cell.student.epochs)],
                    watcher,
                )
        return Trained(
            student=student,
            best=best,
            curves=curves,
            labels=int(data.has_label(labels).sum()),
            texts=len(rows),
            steps=steps * cell.student.epochs,
            seconds=round(time.perf_counter() - start, 2),
        )

    def train(self, cell, folder, watcher=None):
        """Trains a cell, scores it on test once, and writes its files.

        Args:
            cell: `Cell`.
            folder: Path of the run's folder.
            watcher: `Watcher`, or None.

        Returns:
            Dict that JSON can hold; with `failed`, why, where the student is
            of no use.
        """
        task, trained = self.task, self.fit(cell, watcher)
        best = trained.best
        student, further = self._finished(cell, trained)
        result = {
            "labels": trained.labels,
            "texts": trained.texts,
            "steps": trained.steps,
            "best_epoch": best.epoch,
            "parameters": student.count_params(),
            "seconds": trained.seconds,
            **further,
        }
        if best.failure:
            return {**result, "failed": best.failure}
        predicted = {
            part: training.predict(student, task.encoded[part])
            for part in ("dev", "test")
        }
        if not all(np.isfinite(held).all() for held in predicted.values()):
            return {**result, "failed": "its logits for test are not finite"}
        training.save(student, cell.model_file(folder), task)
        write_predictions(cell.file(folder, PREDICTIONS), predicted)
        scores = self._scores(predicted)
        return {**result, "curves": trained.curves, **scores}

    def _finished(self, cell, trained):
        """What ships of a student, and a dict of what there is to say of it."""
        student = cell.student.finished(trained.student, self.task)
        if trained.best.failure or not linear_parts.of_cell(cell, self.task):
            return student, {}
        labels = self.signals.train_labels(
            cell.recipe, self.task.labels(cell.labels, cell.seed)
        )
        student, weight = self._linear_parts.beside(student, labels)
        return student, {"linear_part": weight}

    def _context(self, cell, student):
        # What is matched are the states of the model's own layers.
        if cell.recipe.matches_layers:
            return contextlib.nullcontext()
        return cell.student.in_training(student)

    def _trained(self, cell, student):
        """What `fit` trains."""
        recipe = cell.recipe
        if not recipe.is_distilled:
            return student
        teacher, matches = self.teacher.model, ()
        if recipe.matches is not None:
            plain = plain_student(student)
            matches = recipe.matches(cell.student, teacher, plain)
        if not self.signals.in_each_step(cell):
            teacher = None
        return Distiller(teacher, student, matches=matches)

    def _scores(self, predicted):
        task = self.task
        reliability = task.reliability(predicted, "test")
        return {
            **task.scores(predicted),
            **task.further_scores(predicted),
            "ece": reliability and reliability["ece"],
            "agreement": task.agreement(
                self.teacher.logits["test"], predicted["test"]
            ),
            "details": task.details(predicted),
        }


def summary(result):
    """One line on the result of a cell."""
    if "failed" in result:
        return f"failed: {result['failed']}"
    return f"{teaching.scores(result)}, {result['seconds']:.0f} s"


def _made(make, epochs):
    return configurations.configuration(make and make(epochs))


def _signals_of(recipe):
    # Only where there are any: cells of other recipes keep their fingerprints.
    held = configurations.configuration(recipe.signals)
    return {} if held is None else {"signals": held}


def _compile(model, cell, task, steps):
    optimizer = keras.optimizers.Adam(
        training.warm_up_and_decay(
            cell.student.learning_rate, steps * cell.student.epochs
        )
    )
    further = {}
    if isinstance(model, Distiller):
        further = {
            "soft_loss": cell.recipe.soft_loss,
            "hard_weight": cell.recipe.hard_weight,
            "soft_weight": cell.recipe.soft_weight,
        }
    training.compile_for(model, task, optimizer, **further)
