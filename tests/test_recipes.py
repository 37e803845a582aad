"""Recipes by name, students by name: each fits each, or says why not."""

import inspect

import keras
import numpy as np
import pytest
import tiny_text
import variants

from keras_distill import _kinds
from keras_distill import recipes
from keras_distill import students
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import Cell
from keras_distill.students import BiLSTM
from keras_distill.students import Custom
from keras_distill.students import NGram
from keras_distill.students import Shrink
from keras_distill.students import Student
from keras_distill.students import TextCNN

STATES = ("hidden", "attention")
OF_TEXTS = [name for name in _kinds.RECIPES if name != "attention"]
TRAINED = [name for name in OF_TEXTS if name != "untrained"]
SCHEDULED = ("annealing", "two_stage", "continuation")


def make(name, **arguments):
    return getattr(recipes, name)(**arguments)


@pytest.mark.parametrize("name", _kinds.RECIPES)
def test_every_recipe_is_made(name):
    recipe = make(name)
    assert isinstance(recipe, recipes.Recipe)
    assert recipe.is_distilled is (name not in _kinds.CONTROLS)
    assert recipe.is_control is (name in _kinds.CONTROLS)
    assert recipe.trains is (name != "untrained")
    assert recipe.needs_states is (name in STATES)
    assert name in dir(recipes)


def test_names_of_recipes_differ():
    names = [make(name).name for name in _kinds.RECIPES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("further", [0, 1, 2, 5, 30])
@pytest.mark.parametrize("start", [1, 2, 7])
@pytest.mark.parametrize("name", SCHEDULED)
def test_a_schedule_fits_its_epochs(name, start, further):
    recipe = make(name, max_temperature=start)
    epochs = recipe.fewest_epochs + further
    assert recipe.schedule(epochs)
    if recipe.stages:
        lengths = [stage.epochs for stage in recipe.stages(epochs)]
        assert sum(lengths) == epochs
        assert min(lengths) >= 1


@pytest.mark.parametrize("name", SCHEDULED)
def test_too_few_epochs_are_refused(name):
    recipe = make(name)
    few = recipe.fewest_epochs - 1
    with pytest.raises(ValueError, match=f"more epochs.*epochs={few}"):
        recipe.schedule(few)
    with pytest.raises(ValueError, match=f"more epochs.*epochs={few}"):
        recipe.check_student(TextCNN(epochs=few))
    recipe.check_student(TextCNN(epochs=few + 1))


@pytest.mark.parametrize("name", sorted({*_kinds.RECIPES} - {*SCHEDULED}))
def test_no_schedule_needs_one_epoch(name):
    recipe = make(name)
    assert (recipe.fewest_epochs, recipe.schedule(1)) == (1, [])


def test_a_student_without_states_is_refused():
    recipe = make("hidden")
    for student in (BiLSTM(), Shrink()):
        recipe.check_student(student)
    for student in (TextCNN(), Custom(builder=tiny_text.cnn)):
        with pytest.raises(ValueError, match=f"student={student.title}"):
            recipe.check_student(student)


@pytest.mark.parametrize("name", _kinds.RECIPES)
def test_with_transfer_changes_nothing_else(name):
    recipe = make(name)
    further = recipe.with_transfer()
    assert not recipe.transfer
    assert further.transfer
    assert not further.is_control
    assert further.is_distilled is recipe.is_distilled
    changed = {"name": recipe.name, "transfer": False}
    assert vars(further) | changed == vars(recipe)
    assert further.name == f"{recipe.name} + transfer"


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("kd", {"temperature": 0}, "temperature=0"),
        ("kd", {"temperature": float("inf")}, "temperature=inf"),
        ("mse", {"temperature": -1}, "temperature=-1"),
        ("kd", {"soft_weight": 0}, "nothing would be distilled"),
        ("hidden", {"hard_weight": -1}, "hard_weight=-1"),
        ("mse", {"soft_weight": 1e300}, "soft_weight=1e"),
        ("annealing", {"max_temperature": 2.5}, "integer"),
        ("two_stage", {"max_temperature": 0}, "max_temperature=0"),
        ("continuation", {"max_temperature": 10**9}, "max_temperature="),
    ],
)
def test_wrong_arguments_of_recipes(name, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(name, **arguments)


KINDS = [
    kind
    for kind in map(_kinds.load, _kinds.STUDENTS.values())
    if kind.builds("of_text")
]


@pytest.fixture(scope="module")
def task():
    return tiny_text.task()


@pytest.fixture(scope="module")
def teacher(task):
    keras.utils.set_random_seed(3)
    return tiny_text.teacher(task, tiny_text.encoder(task))


@pytest.mark.parametrize("kind", KINDS)
def test_every_student_builds(kind, task, teacher):
    student = kind(width=4)
    assert issubclass(kind, Student)
    assert getattr(students, kind.__name__) is kind
    models = []
    for seed in (0, 0, 1):
        keras.utils.set_random_seed(seed)
        models.append(student.build(task, teacher.model))
    logits = models[0](task.encoded["dev"].take(slice(4)).inputs)
    assert tuple(logits.shape) == (4, task.num_outputs)
    same, again, other = (model.get_weights() for model in models)
    assert all(map(np.array_equal, same, again))
    assert not all(map(np.array_equal, same, other))
    assert bool(student.hidden_states(models[0])) is student.has_hidden_states


def test_an_encoder_of_the_teachers_width_starts_from_it(task, teacher):
    model = Shrink().build(task, teacher.model)
    assert model.count_params() == teacher.model.count_params()
    for ours, theirs in zip(model.get_weights(), teacher.model.get_weights()):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("kind", [TextCNN, BiLSTM, NGram])
def test_embeddings_of_the_teacher(kind, task, teacher):
    table = next(
        w for w in teacher.model.weights if w.path.endswith("embeddings")
    )
    model = kind(width=4, embeddings="teacher").build(task, teacher.model)
    found = [w for w in model.get_weights() if w.shape == tuple(table.shape)]
    assert any(np.array_equal(w, table) for w in found)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 0},
        {"batch_size": 10**19},
        {"learning_rate": float("inf")},
        {"width": 10**9},
    ],
    ids=str,
)
def test_wrong_sizes_of_students(kind, change):
    (name,) = change
    with pytest.raises(ValueError, match=name):
        kind(**change)


def test_what_students_have_in_common_is_named_once():
    """Options of the command line are fields of students."""
    common = set(inspect.signature(Student).parameters)
    for kind in KINDS:
        assert common < set(inspect.signature(kind).parameters)


@pytest.mark.large
@pytest.mark.parametrize("transfer", variants.in_ci([False, True], True))
@pytest.mark.parametrize("name", TRAINED)
def test_every_recipe_trains(name, transfer, task, teacher, tmp_path):
    recipe = make(name)
    if (
        "max_temperature"
        in inspect.signature(getattr(recipes, name)).parameters
    ):
        recipe = make(name, max_temperature=2)
    if transfer:
        recipe = recipe.with_transfer()
    student = BiLSTM(width=4, epochs=recipe.fewest_epochs, batch_size=8)
    cell = Cell("a", "A", "BiLSTM", student, recipe.name, recipe, 0)
    result = Bench(task, teacher).train(cell, tmp_path)
    assert len(result["curves"]["val_score"]) == student.epochs
    assert result["texts"] == 24 + transfer * len(tiny_text.TRANSFER)
    assert 0 <= result["test_accuracy"] <= 1
    assert set(cell.predictions(tmp_path)) == {"dev", "test"}
