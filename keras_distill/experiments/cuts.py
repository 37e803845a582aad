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
from keras_distill.experiments.cells import Cell
from keras_distill.experiments.phases import Phase
from keras_distill.experiments.report.numbers import count
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


class Between:
    """Several cuts, each of what has learnt again after the one before.

    Args:
        steps: Integer, how many cuts.
        bench: `Bench`.
        recipe: `Recipe`.
        labels: Integer or None, as of `Cell`.
        training: Dict, fields of `Student`.
        watcher: `Watcher`, or None.
    """

    def __init__(self, steps, bench, recipe, labels, training, watcher=None):
        self.steps, self._watcher = steps, watcher
        self._bench, self._recipe, self._labels = bench, recipe, labels
        self._training = training

    def train(self, model):
        """Teaches a cut model, in place.

        Raises:
            UsageError: What it has learnt is of no use.
        """
        best = self._bench.fit(self._cell(model), self._watcher).best
        if best.failure:
            raise UsageError(
                f"The model between two cuts broke: {best.failure}. Lower "
                "`learning_rate`, or cut in one step."
            )

    def made_with(self, model):
        """What its trainings depend on, beside a model to be cut."""
        if self.steps == 1:
            return {}
        made = self._bench.made_with(self._cell(model))
        self._bench.forget()
        return {"steps": self.steps, "between": made}

    def told(self):
        """What was done, a sentence, or None."""
        if self.steps == 1:
            return None
        return (
            f"Cut in {self.steps} steps, after each but the last of which the "
            f"model learnt by {self._recipe.name} for "
            f"{count(self._training['epochs'], 'epoch')}."
        )

    def _cell(self, model):
        def builder(task, teacher):
            del task, teacher
            return model

        student = students.Custom(builder=builder, **self._training)
        return Cell(
            name="between",
            title="between two cuts",
            student_name="between",
            student=student,
            arm=self._recipe.name,
            recipe=self._recipe,
            seed=0,
            labels=self._labels,
        ).for_task(self._bench.task)


class Cuts:
    """The students within a budget, and the phases that make them.

    Args:
        task: `Task`.
        teacher: `Teacher` with its model.
        budget: Dict, as of `pruning.search`.
        folder: `RunFolder`.
        between: `Between`, the cuts and what is done between them.
    """

    def __init__(self, task, teacher, budget, folder, between):
        self._task, self._model = task, teacher.model
        self._budget, self._folder = budget, folder
        self._between = between
        ((self._kind, self._most),) = budget.items()
        self._data = sample(task, self._model)
        made_with = {
            "budget": budget,
            "teacher": teacher.hash(),
            "texts": task.hashes()["texts"],  # Taylor's importance is of them.
        }
        self._in_steps = made_with | between.made_with(self._opened)
        self.phases = [
            Phase(
                name=f"cut_{method}",
                title=f"cut: {name}",
                options={**self._in_steps, "importance": method},
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
        steps = self._between.steps
        # Of other options another one: it holds steps that are done.
        made = _files.json_hash([method, self._in_steps])[:12]
        done = self._folder.path / CUTS / f"{method}-{made}"
        with as_usage_error(ValueError):
            smaller = pruning.search(
                self._opened,
                self._budget,
                self._data,
                importance=functools.partial(self._importance, method),
                steps=steps,
                train=self._train,
                folder=done if steps > 1 else None,
                verbose=0,
            )
        path = self._folder.path / CUTS / f"{method}.keras"
        path.parent.mkdir(exist_ok=True)
        with _files.complete_file(path) as draft:
            smaller.save(draft)
        return self._cost(smaller)

    def _train(self, model):
        """Teaches a model between two cuts, not after the last one."""
        limit = self._most
        if costs.is_share(self._kind, limit):
            limit *= self._whole
        half_a_step = (self._whole / limit) ** (0.5 / self._between.steps)
        if costs.cost(model, self._kind, self._data) > limit * half_a_step:
            self._between.train(model)

    def _importance(self, method, model):
        if method == "taylor" and not control_of(self._task).trains:
            method = "weight"  # There are no labels.
        with as_usage_error(ValueError):
            return pruning.importance(
                model,
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
        kind, most = self._kind, self._most
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

    def notes(self):
        """How it was cut, and why there are no fewer layers, in sentences."""
        left_out = self._folder.result("cut_layers").get("left_out")
        told = [self._between.told(), left_out]
        return [sentence for sentence in told if sentence]

    def told(self):
        """What each student takes of the budget, a list of dicts."""
        names = [*METHODS, FEWER]
        return [
            {"student": name, **self._folder.result(phase.name)}
            for name, phase in zip(names, self.phases)
            if "left_out" not in self._folder.result(phase.name)
        ]
