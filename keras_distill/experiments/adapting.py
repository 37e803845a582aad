"""Fine-tuning a teacher by what dev says: the rate, and how long."""

import dataclasses
import math
import time

import keras

from keras_distill.experiments import teaching
from keras_distill.experiments import training
from keras_distill.experiments.host_schedule import HostSchedule
from keras_distill.experiments.host_schedule import Limit

# Peaks to choose from: of pretrained weights, and of new ones.
FINE_TUNING_RATES = (5e-5, 1e-4, 2e-4)
NEW_RATES = (5e-4, 1e-3, 2e-3)
TRIAL_STEPS = 100
# All trials together take so much of the time, with fewer steps where need be;
# on fewer than that the choice would be chance, and the middle rate is taken.
TRIAL_TIME = 0.25
FEWEST_TRIAL_STEPS = 30
# What tells how long a step takes, where there is nothing to choose.
TIMED_STEPS = 8
UNLIMITED = Limit()
# A trial is noisy: of rates that are about equally good, the lowest.
ABOUT_EQUAL = 0.005
# The first cycle takes so many passes, but not fewer steps than that, unless
# they are more passes than the third, and more steps than the last: a few dozen
# labels are not learnt in a few dozen steps (Mosbach et al., 2021,
# https://arxiv.org/abs/2006.04884, section 6).
PASSES, FEWEST_STEPS, MOST_PASSES, ENOUGH_STEPS = 3, 1500, 20, 300
SCORINGS = 8
CYCLES = 2
WORTH_A_CYCLE = 0.003


@dataclasses.dataclass(frozen=True)
class Adapted:
    """How a teacher was fine-tuned.

    Args:
        learning_rate: Float, the peak that was chosen.
        tried: Dict from each rate that was tried to its score on dev.
        steps: Integer, of all cycles.
        epochs: Float, passes over the rows with a label.
        best_epoch: Float, the passes of the weights that were kept.
        cut: Boolean. Whether the time was up before dev stopped improving.
    """

    learning_rate: float
    tried: dict
    steps: int
    epochs: float
    best_epoch: float
    cut: bool


def fine_tune_adaptively(
    model,
    task,
    rates,
    batch_size=32,
    minutes=10.0,
    seed=0,
    watcher=None,
    labels=None,
):
    """Fine-tunes a model for as long as dev improves; AdamW with warm-up.

    Each rate is tried for a hundred steps, or as many as a quarter of the time
    allows; where that is not enough to tell them apart, the middle one is
    taken. The best one then gets a cycle of three passes, of at least 1,500
    steps, or of 20 passes or 300 steps where that is less; a further, shorter
    cycle follows from the best weights where the score on dev was still
    rising.

    Args:
        model: `keras.Model` from the task's inputs to logits, changed in
            place: it ends with the weights that were best on dev.
        task: `Task`.
        rates: Tuple of floats, the peaks of the learning rate to choose from.
        batch_size: Integer.
        minutes: Float, the most that all of it may take, about.
        seed: Integer, of the order of the rows and of dropped units.
        watcher: `Watcher`, or None.
        labels: Array, the train labels that it may see, as `Task.labels`
            gives them. None: all.

    Returns:
        `Adapted`.

    Raises:
        UsageError: No epoch gave finite logits.

    Example:

    >>> import keras_distill as kd
    >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"]
    >>> part = kd.data.TextDataset(["good", "bad"] * 8, [1, 0] * 8)
    >>> splits = kd.data.TextSplits(part, part, part, ["no", "yes"])
    >>> task = kd.tasks.TextClassification.from_texts(
    ...     splits, kd.data.bert_preprocessor(words, 8))
    >>> model = kd.students.text_cnn(2, (6, 4), filters=4)
    >>> fine_tune_adaptively(model, task, (0.01,), batch_size=8).learning_rate
    0.01
    """
    rows = teaching.labelled_rows(task, labels)
    run = _Run(model, task, rows, batch_size, minutes, seed, watcher)
    rate, tried = run.choose(rates)
    run.restart()
    wanted = min(max(PASSES * run.pass_steps, FEWEST_STEPS), run.most)
    for cycle in range(CYCLES):
        before = run.best.score or 0.0
        if cycle == 0:
            # Where the trials took all of the time, a trial's length.
            steps = max(run.affordable(wanted), min(TRIAL_STEPS, wanted))
        else:
            steps = run.affordable(wanted // 2)
        if not steps:
            break
        run.cycle(rate / 2**cycle, steps)
        if not run.rises or run.best.score < before + WORTH_A_CYCLE:
            break
    teaching.check_tuned(run.best, rate)
    return Adapted(
        learning_rate=rate,
        tried={f"{r:g}": round(value, 4) for r, value in tried.items()},
        steps=run.steps,
        epochs=round(run.steps / run.pass_steps, 1),
        best_epoch=round(run.best_steps / run.pass_steps, 1),
        cut=run.cut,
    )


class _Run:
    """A model, its rows, the time that is left, and the best weights so far."""

    def __init__(self, model, task, rows, batch_size, minutes, seed, watcher):
        self.pass_steps = math.ceil(len(rows) / batch_size)
        self.most = max(MOST_PASSES * self.pass_steps, ENOUGH_STEPS)
        self.steps = self.best_steps = 0
        # Whether the last scoring of the last cycle was the best one.
        self.rises = False
        self.cut = False
        self._model, self._task, self._seed = model, task, seed
        self._rows, self._batch_size = rows, batch_size
        self._watcher = watcher
        self._seconds = 60 * minutes
        self._deadline = time.perf_counter() + self._seconds
        self._step_seconds, self._scoring_seconds = None, 0.0
        # One optimizer, set back for every cycle: another one would have the
        # step traced anew.
        self._optimizer = keras.optimizers.AdamW(
            0.0, weight_decay=0.01, clipnorm=1.0
        )
        training.compile_for(model, task, self._optimizer)
        self._optimizer.build(model.trainable_variables)
        self._start = model.get_weights()
        self._fresh = [
            keras.ops.convert_to_numpy(v) for v in self._optimizer.variables
        ]
        self.best = training.BestEpoch(model, task)

    def choose(self, rates):
        """The lowest of the best rates, after a short cycle with each.

        Of one rate the cycle tells how long a step takes.

        Returns:
            Pair of the rate and a dict from each that was tried to its score
            on dev.
        """
        wanted = min(TRIAL_STEPS, self.most)
        if len(rates) == 1:
            self.cycle(*rates, wanted, 1, Limit(TIMED_STEPS))
            return rates[0], {}
        tried, enough = {}, min(FEWEST_TRIAL_STEPS, wanted)
        # The first one finds how many steps there is time for.
        limit = Limit(wanted, TRIAL_TIME * self._seconds / len(rates))
        for rate in rates:
            self.restart()
            taken = self.cycle(rate, wanted, scorings=1, limit=limit)
            if taken < enough:
                return rates[len(rates) // 2], {}
            tried[rate] = self.best.score or 0.0
            limit = Limit(taken)
        good = max(tried.values()) - ABOUT_EQUAL
        return next(rate for rate in rates if tried[rate] >= good), tried

    def restart(self):
        """Back to the weights that the model came with."""
        self._model.set_weights(self._start)
        self.best = training.BestEpoch(self._model, self._task)
        self.steps = self.best_steps = 0

    def affordable(self, wanted):
        """As many steps as the time allows, at most `wanted`."""
        left = self._deadline - time.perf_counter()
        left -= SCORINGS * self._scoring_seconds
        most = max(0, int(left / self._step_seconds))
        if most < wanted:
            self.cut = True
        return min(most, wanted)

    def cycle(self, rate, steps, scorings=SCORINGS, limit=UNLIMITED):
        """Trains with a rate that rises and falls.

        Args:
            rate: Float, its peak.
            steps: Integer.
            scorings: Integer, how often dev is scored.
            limit: `Limit`.

        Returns:
            Integer, the steps that were taken.
        """
        keras.utils.set_random_seed(self._seed)
        for variable, value in zip(self._optimizer.variables, self._fresh):
            variable.assign(value)
        scorings = min(scorings, steps)
        each = steps // scorings
        schedule = HostSchedule(rate, each * scorings, limit)
        before = self.best.score
        training.fit(
            self._model,
            training.batches(self._rows, self._batch_size, self._seed),
            (scorings, each),
            [schedule, self.best],
            self._watcher,
        )
        self._step_seconds = schedule.step_seconds
        self._scoring_seconds = time.perf_counter() - schedule.end
        self.rises = self.best.score != before and self.best.epoch == scorings
        if self.best.score != before:
            self.best_steps = self.steps + self.best.epoch * each
        self.steps += schedule.steps
        return schedule.steps
