"""The students of `compress`: a teacher cut in several ways to one budget."""

import dataclasses
import functools

import keras
import numpy as np

from keras_distill import _files
from keras_distill import pruning
from keras_distill import students
from keras_distill import taps
from keras_distill._backend import symbolic_inputs
from keras_distill._errors import UsageError
from keras_distill._errors import as_usage_error
from keras_distill.experiments.phases import Phase
from keras_distill.pruning import costs
from keras_distill.pruning import searching
from keras_distill.pruning.unfolding import has_folded
from keras_distill.pruning.unfolding import unfold
from keras_distill.recipes.base import control_of

PRUNED, BY_CHANCE, FEWER = "pruned", "pruned by chance", "fewer layers"
METHODS = {PRUNED: "taylor", BY_CHANCE: "random"}
CUTS = "cuts"
ROWS, SEEDS = 512, (0, 0)  # Of train, for importance; of their augmentation.


def check(task, model, budget):
    """Raises `UsageError` if a model cannot be cut to a budget.

    Args:
        task: `Task`.
        model: `keras.Model`, fine-tuned or not.
        budget: Dict, as of `pruning.search`.
    """
    check_graph(model)
    with as_usage_error(ValueError):
        searching.check_reachable(opened(model), budget, sample(task, model))


def opened(model):
    """The model, with all in it that can be cut."""
    return unfold(model) if has_folded(model) else model


def check_graph(model):
    """Raises `UsageError` if it is not known what a model consists of."""
    if model is None or symbolic_inputs(model) is None:
        raise UsageError(
            "The model must be a functional or Sequential `keras.Model`: what "
            "is cut must be known layer by layer. Received: "
            f"{type(model).__name__}"
        )


def sample(task, model):
    """Inputs of a model, in its structure, and labels, of train.

    Images are augmented as they are in training: a model that knows its train
    images by heart has no loss on them that could tell its units apart.
    """
    rows = task.encoded["train"].take(slice(0, ROWS))
    inputs, known = rows.inputs, symbolic_inputs(model)
    if rows.augment is not None:
        inputs = rows.augment(inputs, SEEDS)
        inputs = {name: np.asarray(x) for name, x in inputs.items()}
    if isinstance(known, dict):
        return {name: inputs[name] for name in known}, rows.labels
    if len(inputs) == 1:  # Whatever the model calls it.
        return next(iter(inputs.values())), rows.labels
    inputs = keras.tree.map_structure(lambda x: inputs[x.name], known)
    return inputs, rows.labels


class Cuts:
    """The students within a budget, and the phases that make them.

    Args:
        task: `Task`.
        teacher: `Teacher` with its model.
        budget: Dict, as of `pruning.search`.
        folder: `RunFolder`.
    """

    def __init__(self, task, teacher, budget, folder):
        self._task, self._model = task, teacher.model
        self._budget, self._folder = budget, folder
        ((self._kind, _),) = budget.items()
        self._data = sample(task, self._model)
        made_with = {"budget": budget, "teacher": teacher.hash()}
        self.phases = [
            Phase(
                name=f"cut_{method}",
                title=f"cut: {name}",
                options={**made_with, "importance": method},
                run=lambda method=method: self._cut(method),
                summary=lambda found: f"{found['share']:.0%} of the teacher",
                files=(f"{CUTS}/{method}.keras",),
            )
            for name, method in METHODS.items()
        ]
        self.phases.append(
            Phase(
                name="cut_layers",
                title=f"cut: {FEWER}",
                options=made_with,
                run=self._fewer_layers,
                summary=lambda found: (
                    found.get("left_out") or f"{found['layers']} layers"
                ),
            )
        )

    def _cut(self, method):
        values = self._importance(method)
        with as_usage_error(ValueError):
            smaller = pruning.search(
                self._opened,
                self._budget,
                self._data,
                importance=values,
                verbose=0,
            )
        path = self._folder.path / CUTS / f"{method}.keras"
        path.parent.mkdir(exist_ok=True)
        with _files.complete_file(path) as draft:
            smaller.save(draft)
        return self._cost(smaller)

    def _importance(self, method):
        if method == "taylor" and not control_of(self._task).trains:
            method = "weight"  # There are no labels.
        with as_usage_error(ValueError):
            return pruning.importance(
                self._opened,
                self._data,
                self._task.hard_loss(),
                method,
                batch_size=1,
            )

    @functools.cached_property
    def _opened(self):
        return opened(self._model)

    @functools.cached_property
    def _whole(self):
        return costs.cost(self._model, self._kind, self._data)

    def _cost(self, model):
        cost = costs.cost(model, self._kind, self._data)
        return {
            self._kind: cost,
            "share": cost / self._whole,
            "parameters": model.count_params(),
        }

    def _fewer_layers(self):
        ((kind, most),) = self._budget.items()
        limit = "share" if costs.is_share(kind, most) else kind
        try:
            whole = len(taps.encoder_layers(self._model))
            students.shrink(self._model, num_layers=1)
        except ValueError:
            return {
                "left_out": "No copied layers: the model has no encoder that "
                "`students.shrink` knows."
            }
        cost = {"share": 1.0}
        for layers in range(whole - 1, 0, -1):
            smaller = students.shrink(self._model, num_layers=layers)
            cost = self._cost(smaller)
            if cost[limit] <= most:
                return cost | {"layers": layers}
        return {
            "left_out": f"No copied layers: one of {whole} takes "
            f"{cost['share']:.0%} of the model's {kind}."
        }

    def students(self, training, quantization=None):
        """Dict from names to `Student`, from the finished phases.

        Args:
            training: Dict, their fields.
            quantization: String: the cut one under such a rounding, too.
        """
        found = {
            name: students.Saved(
                student_file=str(self._folder.path / CUTS / f"{how}.keras"),
                **training,
            )
            for name, how in METHODS.items()
        }
        layers = self._folder.result("cut_layers").get("layers")
        if layers is not None:
            found[FEWER] = students.Shrink(layers=layers, **training)
        if quantization is not None:
            found[f"{PRUNED}, {quantization}"] = dataclasses.replace(
                found[PRUNED], quantization=quantization
            )
        return found

    def left_out(self):
        """Why there is no student of fewer layers, a list of sentences."""
        found = self._folder.result("cut_layers").get("left_out")
        return [found] if found else []

    def told(self):
        """What each student takes of the budget, a list of dicts."""
        names = [*METHODS, FEWER]
        return [
            {"student": name, **self._folder.result(phase.name)}
            for name, phase in zip(names, self.phases)
            if "left_out" not in self._folder.result(phase.name)
        ]
