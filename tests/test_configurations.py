"""What tells two cells apart: all that their results depend on."""

import functools
import json
import pathlib
import types

import keras
import numpy as np
import pytest
import tiny
import tiny_text

import keras_distill as kd
from keras_distill import losses
from keras_distill import recipes
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import Cell
from keras_distill.experiments.configurations import configuration
from keras_distill.experiments.configurations import of_match
from keras_distill.experiments.configurations import of_model
from keras_distill.students import Custom

RATE = 0.1


def scaled(factor):
    return lambda epochs: epochs * factor


def with_default(factor):
    def inner(epochs, factor=factor):
        return epochs * factor

    return inner


def with_keyword(factor):
    def inner(epochs, *, factor=factor):
        return epochs * factor

    return inner


def with_inner(factor):
    """Two functions that differ in a function within a function."""
    if factor == 2:
        return lambda epochs: [(lambda e: e + 2)(e) for e in range(epochs)]
    return lambda epochs: [(lambda e: e + 3)(e) for e in range(epochs)]


def with_name(factor):
    """Two functions of the same code that call others."""
    if factor == 2:
        return lambda values: np.min(values)
    return lambda values: np.max(values)


def with_constant(factor):
    if factor == 2:
        return lambda epochs: epochs + 2
    return lambda epochs: epochs + 3


class Callable:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, epochs):
        return epochs * self.factor

    def method(self, epochs):
        return epochs * self.factor


class NoConfig(keras.losses.Loss):
    """Written as people do, without `get_config`."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def call(self, y_true, y_pred):
        return self.factor * keras.ops.mean((y_true - y_pred) ** 2, axis=-1)


def net(rate):
    """A model whose rate stands in none of its own arguments."""

    class Net(keras.Model):
        def __init__(self):
            super().__init__()
            self.drop = keras.layers.Dropout(rate)
            self.dense = keras.layers.Dense(2)

        def call(self, x):
            return self.dense(self.drop(x))

    model = Net()
    model(np.zeros((1, 3), "float32"))
    return model


MAKERS = {
    "number": lambda n: n,
    "partial": lambda n: functools.partial(round, ndigits=n),
    "positional partial": lambda n: functools.partial(pow, n),
    "partial of a function": lambda n: functools.partial(scaled(2), n),
    "function in a partial": lambda n: functools.partial(scaled(n), 2),
    "closure": scaled,
    "default": with_default,
    "keyword": with_keyword,
    "constant": with_constant,
    "inner function": with_inner,
    "called name": with_name,
    "callable": Callable,
    "method": lambda n: Callable(n).method,
    "in a container": lambda n: {"a": [scaled(n), (1, {"b": None})]},
    "array": lambda n: np.full(3, n),
    "scalar": np.float32,
    "set": lambda n: {1, n},
    "frozenset": lambda n: frozenset([1, n]),
    "range": range,
    "bytes": bytes,
    "tensor": lambda n: keras.ops.full((3,), n),
    "variable": lambda n: keras.Variable(float(n)),
    "type": lambda n: [int, float][n - 2],
    "model": lambda n: tiny.mlp(units=n),
    "path": lambda n: pathlib.Path(str(n)),
    "schedule": lambda n: kd.schedules.Linear(1.0, float(n), 3),
    "stage": lambda n: kd.Stage(3, temperature=float(n)),
    "loss": lambda n: losses.ForwardKL(float(n)),
    "another loss": lambda n: [losses.ForwardKL, losses.ReverseKL][n - 2](),
    "loss without a config": NoConfig,
    "recipe": lambda n: recipes.kd(float(n)),
    "stages": lambda n: recipes.annealing(n).stages(8),
    "callbacks": lambda n: recipes.continuation(n).callbacks,
    "optimizer": lambda n: keras.optimizers.Adam(n / 10),
    "layer": lambda n: keras.layers.Dense(n),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_other_arguments_are_told_apart(make):
    first, again, other = (configuration(make(n)) for n in (2, 2, 3))
    assert json.dumps(first) == json.dumps(again)
    assert json.dumps(first) != json.dumps(other)


def test_constants_that_are_sets_have_no_order():
    """Two orders of the same set, as two processes have them."""
    one, other = frozenset([0, 8]), frozenset([8, 0])
    assert repr(one) != repr(other)

    def function(epoch):
        return epoch in {0, 8}

    def with_constants(kept):
        code = function.__code__
        constants = (*code.co_consts[:-1], kept)
        return types.FunctionType(code.replace(co_consts=constants), {})

    told = [configuration(with_constants(kept)) for kept in (one, other)]
    assert told[0] == told[1]
    assert told[0] != configuration(with_constants(frozenset([0, 9])))


def reads_a_global(epochs):
    return epochs * RATE


def test_a_number_that_a_function_reads_from_its_module(monkeypatch):
    before = configuration(reads_a_global)
    assert configuration(reads_a_global) == before
    monkeypatch.setitem(globals(), "RATE", 0.2)
    assert configuration(reads_a_global) != before


BOUNDS = (2, 4)


def helper(epochs):
    return epochs * RATE


def reads_more(epochs):
    return [helper(epochs), BOUNDS, np.mean(epochs)]


@pytest.mark.parametrize(
    ("name", "value"),
    [("RATE", 0.2), ("BOUNDS", (1, 9)), ("BOUNDS", np.array([2, 4]))],
)
def test_what_a_function_reads_of_its_module(name, value, monkeypatch):
    before = configuration(reads_more)
    assert configuration(reads_more) == before
    monkeypatch.setitem(globals(), name, value)
    assert configuration(reads_more) != before
    json.dumps(configuration(reads_more))


def test_an_attribute_is_no_global(monkeypatch):
    before = configuration(lambda model: model.RATE)
    monkeypatch.setitem(globals(), "RATE", 0.2)
    assert configuration(lambda model: model.RATE) == before


def test_what_holds_itself():
    """Keras' callback has a function that reads the callback."""

    def told(patience):
        return configuration(
            keras.callbacks.ReduceLROnPlateau(patience=patience)
        )

    assert told(2) == told(2) != told(3)
    assert json.dumps(told(2), allow_nan=False)


MODELS = {
    "functional": lambda rate: tiny.mlp(dropout=rate),
    "text_cnn": lambda rate: tiny_text.network(dropout=rate),
    "bilstm": lambda rate: kd.students.bilstm(2, (9, 4), units=4, dropout=rate),
    "ngram": lambda rate: kd.students.ngram(2, (9, 4), buckets=8, dropout=rate),
    "KerasHub": lambda rate: tiny.bert(num_layers=1, dropout=rate),
    "subclassed": net,
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_other_dropout_is_another_model(make):
    """The names that Keras counts up in a process are not."""
    keras.utils.set_random_seed(0)
    first = of_model(make(0.1))
    keras.utils.set_random_seed(0)
    again = of_model(make(0.1))
    keras.utils.set_random_seed(0)
    other = of_model(make(0.2))
    assert first == again
    assert first["initial weights"] == other["initial weights"]
    assert first["model"] != other["model"]


class Broken(keras.layers.Dense):
    def get_config(self):
        return {"units": self.not_there}


def test_a_configuration_that_fails_is_told_by_its_class():
    def built(layer):
        model = keras.Sequential([keras.Input((3,)), layer])
        return of_model(model)["model"]

    assert built(Broken(2)) == built(Broken(2))
    assert built(Broken(2)) != built(keras.layers.Dense(2))


def test_other_weights_are_another_start():
    first, other = of_model(tiny.mlp(seed=1)), of_model(tiny.mlp(seed=2))
    assert first["initial weights"] != other["initial weights"]


MATCH = {"loss": losses.HiddenMSE(), "weight": 1.0}


@pytest.mark.parametrize(
    "change",
    [
        {"weight": 2.0},
        {"loss": losses.HiddenCosine()},
        {"student": "logits"},
        {"teacher": "logits"},
        {"projection": "linear"},
        {"learning_rate_multiplier": 10.0},
    ],
    ids=lambda change: next(iter(change)),
)
def test_other_matches_are_told_apart(change):
    teacher, student = tiny.mlp(seed=1), tiny.mlp(seed=2)

    def told(**options):
        options = {"teacher": "hidden", "student": "hidden"} | MATCH | options
        return of_match(kd.Match(**options), teacher, student)

    assert told() == told()
    assert told(**change) != told()


def test_matches_of_two_builds_are_the_same():
    def told():
        teacher, student = (
            tiny.bert(num_layers=2, dropout=0.0) for _ in range(2)
        )
        match = kd.Match(
            kd.hidden_states(teacher)[1],
            kd.hidden_states(student)[2],
            losses.HiddenMSE(),
        )
        return of_match(match, teacher, student)

    assert told() == told()


def test_cells_of_other_builders_and_matches():
    """The same names, another result: the cell is trained again."""
    task = tiny_text.task()
    teacher = tiny_text.teacher(task)

    def made(rate=0.1, weight=1.0, patience=2):
        def builder(task, teacher):
            return tiny_text.network(dropout=rate)

        def matches(student, teacher, model):
            tap = teacher.layers[1].name, model.layers[1].name
            return [kd.Match(*tap, losses.HiddenMSE(), weight=weight)]

        def callbacks(epochs):
            return [keras.callbacks.ReduceLROnPlateau(patience=patience)]

        recipe = recipes.Recipe(
            "KD", losses.ForwardKL(), matches=matches, callbacks=callbacks
        )
        student = Custom(builder=builder)
        cell = Cell("name", "title", "CNN", student, "KD", recipe, 0)
        return Bench(task, teacher).made_with(cell)

    assert made() == made()
    assert made() != made(rate=0.2)
    assert made() != made(weight=2.0)
    assert made() != made(patience=3)
