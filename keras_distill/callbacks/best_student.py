"""The best student of each stage so far, on disk: it survives a kill."""

import math
import pathlib

from keras_distill._backend.adapters import as_they_are
from keras_distill._files import complete_file
from keras_distill._files import read_json
from keras_distill._files import write_json


class BestStudent:
    """Keeps the weights of the best student of each stage in a directory.

    `stage_<n>.json` names the weights file it belongs to and is replaced in
    one step, so a kill at any moment leaves a matching pair.

    Args:
        directory: Path, made where it is missing.
    """

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)

    def _record_path(self, stage):
        return self.directory / f"stage_{stage}.json"

    def record(self, stage):
        """Dict of `epoch`, `value` and `weights`, or None if there is none."""
        path = self._record_path(stage)
        if not path.exists():
            return None
        return read_json(path)

    def forget(self, stage):
        """Removes what a former training left for this stage."""
        record = self.record(stage)
        if record is not None:
            self._record_path(stage).unlink()
            (self.directory / record["weights"]).unlink(missing_ok=True)

    def update(self, stage, epoch, value, mode, student):
        """Saves `student` if `value` is better than the record's.

        Args:
            stage: Integer, the index of the stage.
            epoch: Integer, the epoch that has ended.
            value: Float, the value of the metric. NaN is never better.
            mode: `"max"` or `"min"`.
            student: `keras.Model`.
        """
        old = self.record(stage)
        sign = 1 if mode == "max" else -1
        if math.isnan(value):
            return
        if old is not None and sign * value <= sign * old["value"]:
            return
        weights = f"stage_{stage}_epoch_{epoch}.weights.h5"
        draft = complete_file(self.directory / weights)
        with draft as path, as_they_are(student):
            student.save_weights(path)
        new = {"epoch": epoch, "value": value, "weights": weights}
        write_json(self._record_path(stage), new)
        if old is not None and old["weights"] != weights:
            (self.directory / old["weights"]).unlink(missing_ok=True)

    def require(self, stage):
        """The record of the stage.

        Raises:
            ValueError: if no student of the stage was kept.
        """
        record = self.record(stage)
        if record is None:
            raise ValueError(
                f"The best student of stage {stage + 1} is not in "
                f"{str(self.directory)!r}: the metric was NaN in each epoch, "
                "or the training resumed with another `directory`, or with "
                "`directory=None`, whose files do not outlive the process. "
                "Pass the directory of the first run, or stages without "
                "`restore_best`"
            )
        return record

    def restore(self, stage, student):
        """Loads the weights of the stage's best student into `student`."""
        path = self.directory / self.require(stage)["weights"]
        with as_they_are(student):
            student.load_weights(path)
