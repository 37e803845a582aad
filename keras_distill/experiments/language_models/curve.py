"""How near a student's own text comes to its teacher, and if it still does.

A run that is too short says little of what is better in the end: after 150
updates on-policy distillation and supervised look alike, after 1,500 they do
not (docs/gkd.md).
"""

import dataclasses
import functools

import keras
import numpy as np

from keras_distill._sealed import read_sealed
from keras_distill._sealed import write_sealed
from keras_distill.experiments.significance import paired_bootstrap
from keras_distill.gkd.evaluation import WritingScorer

MEASURE = "jsd"
PARTS = 4
ROWS = 256
# Of fewer batches there is no interval to speak of.
FEWEST_BATCHES = 4


def scorer(teacher, student, settings, corpus):
    """A callable that scores what one of two models writes on held-out prompts.

    Args:
        teacher: `keras_hub.models.CausalLM`.
        student: `keras_hub.models.CausalLM`.
        settings: `Settings`.
        corpus: `Corpus`.

    Returns:
        Callable of the writer (by default the student), which gives a list of
        `WritingScores`, one for each batch of prompts.
    """
    compared = WritingScorer(
        teacher,
        student,
        max_completion_length=corpus.completion_length,
        stop_token_ids=(corpus.preprocessor.stop_token_id,),
    )
    dev = corpus.batches("dev", rows=ROWS)
    return functools.partial(compared.by_batch, dev, seed=settings.seed)


class Curve(keras.callbacks.Callback):
    """Scores the student when a quarter, a half and three quarters are done.

    The scores are in a file before the epoch counts as done (put this callback
    in front of `Backup`), and a training that goes on keeps them.

    Args:
        score: Callable without arguments, gives a list of `WritingScores`, one
            for each batch of held-out prompts.
        path: Path of that file.
        epochs: Integer, how many the training has.
        steps_per_epoch: Integer.
    """

    def __init__(self, score, path, epochs, steps_per_epoch):
        super().__init__()
        self._score = score
        self._path = path
        self._marks = {epochs * part // PARTS for part in range(1, PARTS)}
        self._size = steps_per_epoch
        self._held = read_sealed(path) or {}

    def on_epoch_end(self, epoch, logs=None):  # noqa: ARG002
        if epoch + 1 in self._marks:
            steps = str((epoch + 1) * self._size)
            self._held[steps] = list(map(dataclasses.asdict, self._score()))
            write_sealed(self._path, self._held)

    def points(self):
        """Dict from the steps that are done to the scores of each batch."""
        return {int(steps): held for steps, held in self._held.items()}


def told(points):
    """What the points of a training say about its length.

    Args:
        points: Dict from steps to the scores of each batch of prompts, dicts,
            of the start (0) and the end, too.

    Returns:
        Dict: `"points"`, pairs of steps and the divergence; where there are
        enough of them `"second_half"`, the change from the middle to the end
        with its interval, `"still_falls"` and `"sentence"`.
    """
    steps = sorted(points)
    statistics = np.array([[_sums(one) for one in points[k]] for k in steps])
    values = _ratio(statistics.mean(axis=1))
    found = {"points": [[k, float(v)] for k, v in zip(steps, values)]}
    if len(steps) < 3 or statistics.shape[1] < FEWEST_BATCHES:
        return found
    within = range(1, len(steps) - 1)
    middle = min(within, key=lambda k: abs(steps[k] - steps[-1] / 2))
    change = paired_bootstrap(statistics[middle], statistics[-1], _ratio)
    falls = change.high < 0
    sentence = (
        f"From step {steps[middle]} to {steps[-1]} the Jensen-Shannon "
        f"divergence on the student's own text went from {values[middle]:.4f} "
        f"to {values[-1]:.4f} nats per token ({change.value:+.4f}, 95 % "
        f"interval {change.low:+.4f} to {change.high:+.4f}): "
    )
    sentence += (
        "it still falls. Which setting is better in the end, runs of this "
        f"length do not tell; try `--steps {4 * steps[-1]}`."
        if falls
        else "that it still falls cannot be shown."
    )
    return found | {
        "second_half": dataclasses.asdict(change),
        "still_falls": bool(falls),
        "sentence": sentence,
    }


def _sums(scores):
    return scores[MEASURE] * scores["tokens"], scores["tokens"]


def _ratio(means):
    return means[..., 0] / np.maximum(means[..., 1], 1e-9)
