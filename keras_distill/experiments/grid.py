"""Cells on many machines or in many processes, as an Apache Beam pipeline."""

import dataclasses
import functools
from collections.abc import Callable

from keras_distill import _beam
from keras_distill._errors import UsageError
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.prepared import Prepared
from keras_distill.experiments.records import Records


@dataclasses.dataclass(frozen=True)
class Grid:
    """Where cells are trained: in the workers of a pipeline.

    The workers write to the run's folder, which they must share. A cell that
    is finished stays so, whatever becomes of the pipeline: the same call again
    trains the others.

    Args:
        make: Callable without arguments that gives a worker the `Task` and the
            `Teacher` of the run; Beam pickles it. Each worker calls it once.
            `Grid.of` has one for a prepared run.
        flags: Tuple of Beam's own flags, see `kd.cache.write_with_beam`.

    """

    make: Callable
    flags: tuple = ()

    @classmethod
    def of(cls, prepared, flags=()):
        """The `Grid` whose workers restore task and teacher from a folder.

        Args:
            prepared: `Prepared`, whose phases are finished.
            flags: As of `Grid`.
        """
        path = str(prepared.folder.path)
        make = functools.partial(restored, prepared.preparation, path)
        return cls(make, tuple(flags))

    def train(self, cells, phases, folder, redo, watcher):
        """Trains the cells that are not finished.

        Args:
            cells: List of `Cell`.
            phases: Dict from the cells' names to their `Phase`.
            folder: `RunFolder`.
            redo: Boolean. Cells of other options are trained anew.
            watcher: `Watcher`.

        Raises:
            UsageError: The pipeline ended before its work was done.
        """
        missing = folder.missing([phases[cell.name] for cell in cells])
        if not missing:
            return
        names = {phase.name for phase in missing}
        missing = [cell for cell in cells if cell.name in names]
        watcher.line(f"{len(missing)} trainings in the workers of a pipeline")
        trainer = CellTrainer(self.make, missing, str(folder.path), redo)
        try:
            _beam.run(trainer, range(len(missing)), self.flags)
        except RuntimeError as error:
            left = len(folder.missing([phases[c.name] for c in missing]))
            raise UsageError(
                f"The pipeline ended early: {_first_line(error)}. Of "
                f"{len(missing)} trainings {len(missing) - left} are finished "
                "and stay so. Run the same again for the others"
            ) from error


class CellTrainer:
    """Trains single cells; each process makes task and teacher once.

    Args:
        make: As of `Grid`.
        cells: List of `Cell`.
        path: String, the run's folder.
        redo: Boolean, as of `Records.execute`.
    """

    def __init__(self, make, cells, path, redo):
        self.make = make
        self.cells = cells
        self.path = path
        self.redo = redo

    def __getstate__(self):
        return {k: v for k, v in vars(self).items() if k != "bench"}

    @functools.cached_property
    def bench(self):
        task, teacher = self.make()
        return Bench(task.judged_by(teacher.logits), teacher)

    def __call__(self, number):
        """Trains a cell, and leaves its record."""
        records = Records(self.path)
        phase = self.bench.phase(self.cells[number], records.path, None)
        self.bench.forget()
        records.execute([phase], redo=self.redo)


def restored(preparation, path):
    """Task and teacher of a run whose phases before the students are there.

    Args:
        preparation: `Preparation`.
        path: Path of the run's folder.
    """
    prepared = Prepared(preparation, Records(path))
    return prepared.task, prepared.teacher


def _first_line(error):
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
