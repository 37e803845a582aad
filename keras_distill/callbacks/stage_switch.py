"""`StageSwitch`: a training in stages."""

# ruff: noqa: ARG002 - Keras fixes the arguments of a callback's methods.

import bisect
import itertools
import pathlib
import shutil
import tempfile
import weakref

import keras

from keras_distill._replicas import number
from keras_distill._replicas import worker
from keras_distill._stage import Stage
from keras_distill._stage import direction
from keras_distill._stage import inherited
from keras_distill.callbacks.annealing import state_of
from keras_distill.callbacks.best_student import BestStudent
from keras_distill.callbacks.freezing import Freezer
from keras_distill.callbacks.stage_checks import check_stages

TERMS = {"hard": "hard_weight", "soft": "soft_weight"}


class StageSwitch(keras.callbacks.Callback):
    """Runs a training in stages, one after the other in a single `fit`.

    At the start of a stage the losses, weights, matches, frozen layers,
    temperature and learning rate become those of the stage, at the price of
    one retrace where losses, terms or layers change. After the training,
    layers are trainable as before; losses and weights stay those of the last
    stage. The optimizer's moments are kept between stages.

    `fit` may be longer than the stages together: the last one goes on. The
    logs get `stage`, counted from 0, and where stages set them `temperature`
    and `learning_rate`.

    The stage follows from the epoch, so a training that is killed and resumed
    (`BackupAndRestore`, or `load_weights` and `fit(initial_epoch=...)`) goes
    on in its stage. A stage with `restore_best` needs `directory` for that.

    Args:
        stages: List of `Stage`.
        directory: Path where the best student of each stage is kept, for
            `restore_best`. Each training needs its own. Files stay after the
            training. `None` keeps them in a temporary directory, which
            does not outlive the process. Of several workers each but the first
            has a folder `worker_<n>` of its own in it.

    Raises:
        ValueError: if an argument is not as described; when `fit` starts, if
            it is shorter than the stages together or if a stage names a match
            or a layer that is not there, leaves nothing to train, or sets a
            temperature or learning rate where none can be set.

    Example:

    >>> from keras_distill.stages import Stage
    >>> callback = StageSwitch([
    ...     Stage(epochs=6, hard_weight=0.0, temperature=4.0),
    ...     Stage(epochs=2, hard_weight=1.0, soft_weight=0.0,
    ...           restore_best="val_accuracy")])
    >>> callback.locate(5), callback.locate(6), callback.locate(9)
    ((0, 5), (1, 0), (1, 3))
    """

    def __init__(self, stages, directory=None):
        super().__init__()
        if not isinstance(stages, (list, tuple)) or not stages:
            raise ValueError(
                "`stages` must be a list of at least one `kd.Stage`. "
                f"Received: stages={stages!r}"
            )
        for stage in stages:
            if not isinstance(stage, Stage):
                raise ValueError(
                    "`stages` must hold instances of `kd.Stage`. "
                    f"Received: {stage!r}"
                )
        if stages[0].restore_best is not None:
            raise ValueError(
                "The first stage has no previous stage to restore from. "
                f"Received: restore_best={stages[0].restore_best!r}"
            )
        self.stages = list(stages)
        self.directory = directory
        ends = list(itertools.accumulate(stage.epochs for stage in stages))
        self._starts = [0, *ends[:-1]]
        self.total_epochs = ends[-1]
        self._current = None
        self._applied = {}
        self._freezer = None
        self._best = None
        self._remove_temporary = None

    def locate(self, epoch):
        """The index of the stage at `epoch`, and the epoch within it."""
        index = bisect.bisect_right(self._starts, epoch) - 1
        return index, epoch - self._starts[index]

    def on_train_begin(self, logs=None):
        state_of(self)
        if self._freezer is not None:  # An exception ended the last `fit`.
            self._freezer.thaw()
        check_stages(self.stages, self.model, self.params.get("epochs"))
        self._current = None
        self._applied = {}
        self._freezer = Freezer(self.model.student)
        if any(stage.restore_best is not None for stage in self.stages):
            self._best = BestStudent(self._directory())

    def _directory(self):
        """A place of this worker's own, which nobody else writes to."""
        if self.directory is not None:
            number = worker(self.model)
            own = [f"worker_{number}"] if number else []
            return pathlib.Path(self.directory, *own)
        path = tempfile.mkdtemp()
        self._remove_temporary = weakref.finalize(
            self, shutil.rmtree, path, ignore_errors=True
        )
        return path

    def on_epoch_begin(self, epoch, logs=None):
        index, position = self.locate(epoch)
        state = state_of(self)
        if index != self._current:
            if position > 0 and self._monitored(index):
                self._best.require(index)
            # A checkpoint from within this epoch has entered the stage before.
            new = position == 0 and (epoch == 0 or number(state.stage) != index)
            self._apply(index, new)
            if new:
                self._enter(index)
            self._current = index
        state.stage_epoch.assign(position)
        self._set_temperature(position)

    def _apply(self, index, new):
        """Puts the settings of a stage in force that checkpoints lack."""
        model = self.model
        settings = inherited(self.stages, index)
        state = model.schedules
        for term, name in TERMS.items():
            if name in settings:
                state.weights_by_term[term].assign(settings[name])
        losses = {
            name: settings[name]
            for name in ("loss", "soft_loss")
            if name in settings
            and settings[name] is not self._applied.get(name)
        }
        if losses:
            self._set_losses(losses, new and self._brings_soft_loss(index))
        active = {
            term: number(state.weights_by_term[term]) > 0
            for term, name in TERMS.items()
            if name in settings
        }
        if "matches" in settings:
            active["matches"] = list(settings["matches"])
        if active != self._applied.get("active"):
            model.set_active(**active)
        self._applied = {**self._applied, **losses, "active": active}
        self._freeze(index)
        model.reset_metrics()

    def _brings_soft_loss(self, index):
        before = inherited(self.stages, index - 1) if index else {}
        now = inherited(self.stages, index)
        return now.get("soft_loss") is not before.get("soft_loss")

    def _set_losses(self, losses, first):
        model = self.model
        temperatures = model.schedules.temperatures.values()
        held = [(variable, number(variable)) for variable in temperatures]
        model.set_losses(**losses)
        if first or not number(model.optimizer.iterations):
            return
        # A loss that a checkpoint has had in force before: what the checkpoint
        # holds is the temperature that it had come to, not its first one.
        for variable, temperature in held:
            variable.assign(temperature)

    def _freeze(self, index):
        frozen = self.stages[index].freeze
        started = self._current is not None
        if not frozen and not (started and self.stages[self._current].freeze):
            return
        self._freezer.thaw()
        self._freezer.freeze(frozen)
        self.model.retrace()

    def _enter(self, index):
        """Does once, at the start of a stage, what checkpoints then hold."""
        model, stage = self.model, self.stages[index]
        if stage.restore_best is not None:
            self._best.restore(index - 1, model.student)
        if self._best is not None:
            self._best.forget(index)
        rate = stage.learning_rate
        if rate is not None and not callable(rate):
            model.optimizer.learning_rate.assign(rate)
        state = model.schedules
        state.stage.assign(index)
        state.stage_start.assign(number(model.optimizer.iterations))

    def _set_temperature(self, position):
        temperature = self.stages[self._current].temperature
        if temperature is None:
            return
        if callable(temperature):
            temperature = float(temperature(position))
        for variable in self.model.bound_temperatures.values():
            variable.assign(temperature)

    def on_train_batch_begin(self, batch, logs=None):
        rate = self.stages[self._current].learning_rate
        if callable(rate):
            model = self.model
            step = number(model.optimizer.iterations)
            step -= number(model.schedules.stage_start)
            model.optimizer.learning_rate.assign(float(rate(step)))

    def on_epoch_end(self, epoch, logs=None):
        logs = {} if logs is None else logs
        index, position = self.locate(epoch)
        self.model.schedules.stage_epoch.assign(position + 1)
        self._keep_best(index, epoch, logs)
        logs["stage"] = index
        temperatures = list(self.model.bound_temperatures.values())
        if temperatures and any(
            stage.temperature is not None for stage in self.stages
        ):
            logs["temperature"] = number(temperatures[0])
        if any(stage.learning_rate is not None for stage in self.stages):
            logs["learning_rate"] = number(self.model.optimizer.learning_rate)

    def _monitored(self, index):
        """The stage after `index`, if it restores a student of `index`."""
        following = self.stages[index + 1 : index + 2]
        restores = following and following[0].restore_best is not None
        return following[0] if restores else None

    def _keep_best(self, index, epoch, logs):
        following = self._monitored(index)
        if following is None:
            return
        monitor = following.restore_best
        if monitor not in logs:
            raise ValueError(
                "`restore_best` must be in the logs of each epoch; metrics "
                "that start with 'val_' need `fit(validation_data=...)` with "
                f"`validation_freq=1`. Received: restore_best={monitor!r}, "
                f"logs: {sorted(logs)}"
            )
        mode = direction(monitor, following.mode)
        value = float(logs[monitor])
        self._best.update(index, epoch, value, mode, self.model.student)

    def on_train_end(self, logs=None):
        if self.stages[self._current or 0].freeze:
            self._freezer.thaw()
            self.model.retrace()
        self.model.schedules.stage.assign(-1)
        if self._remove_temporary is not None:
            self._remove_temporary()
