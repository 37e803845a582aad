"""`kd.compress`: a teacher within a budget, its controls, its files."""

import dataclasses
import json
import types

import keras
import keras_hub
import numpy as np
import pytest
import tiny_images
import tiny_text
import variants

import keras_distill as kd
from keras_distill import _files
from keras_distill._errors import UsageError
from keras_distill.cli import main
from keras_distill.experiments import Teacher
from keras_distill.experiments import cuts
from keras_distill.experiments import exports
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.compressing import front
from keras_distill.experiments.phases import fingerprints
from keras_distill.pruning import budgets

HALF = "multiplications=70%"


@pytest.fixture(scope="module")
def task():
    return tiny_text.task(transfer=())


@pytest.fixture(scope="module")
def teacher(task):
    keras.utils.set_random_seed(1)
    return tiny_text.network(filters=8)


@pytest.fixture(scope="module")
def run(task, teacher, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compressed")
    return folder, compressed(task, teacher, folder)


def compressed(task, teacher, folder, budget=HALF, **options):
    options = {"epochs": 1, "batch_size": 8, "export": False} | options
    return kd.compress(task, teacher, budget, folder, **options)


@pytest.mark.large
def test_students_are_within_the_budget(run, teacher):
    folder, found = run
    cuts = {cut["student"]: cut for cut in found["cuts"]}
    assert set(cuts) == {"pruned", "pruned by chance"}
    assert all(cut["share"] <= 0.7 for cut in found["cuts"])
    model = keras.models.load_model(folder / "cuts" / "taylor.keras")
    assert model.count_params() == cuts["pruned"]["parameters"]
    assert model.count_params() < teacher.count_params()


def test_what_each_is_compared_with(run):
    _, found = run
    arms = {}
    for row in found["rows"]:
        arms.setdefault(row["student"], []).append(row["arm"])
    assert all(
        names == ["cut alone", "hard labels", "KD"] for names in arms.values()
    )
    assert set(found["against"]) == set(arms) - {"pruned"}
    assert {verdict["student"] for verdict in found["verdicts"]} == set(arms)
    assert len(found["told"]) >= len(found["against"])


def test_cut_alone_is_the_cut(run, task):
    """Its score is that of the model in `cuts`, before any training."""
    folder, found = run
    model = keras.models.load_model(folder / "cuts" / "taylor.keras")
    rows = task.encoded["test"]
    names = [tensor.name for tensor in model.inputs]
    logits = model.predict({n: rows.inputs[n] for n in names}, verbose=0)
    (row,) = (
        row
        for row in found["rows"]
        if (row["student"], row["arm"]) == ("pruned", "cut alone")
    )
    score = np.mean(logits.argmax(-1) == rows.labels)
    assert np.isclose(row["test_score"]["mean"], score)


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_an_encoder_and_its_files(task, tmp_path):
    backbone = keras_hub.models.BertBackbone(
        len(tiny_text.VOCABULARY), 2, 2, 16, 32, max_sequence_length=8
    )
    teacher = keras_hub.models.BertTextClassifier(backbone, 2, None)
    found = compressed(task, teacher, tmp_path, export=True)
    cuts = {cut["student"]: cut for cut in found["cuts"]}
    assert set(cuts) == {"pruned", "pruned by chance", "fewer layers"}
    assert cuts["fewer layers"]["layers"] == 1
    pruned = keras.models.load_model(tmp_path / "cuts" / "taylor.keras")
    layer = pruned.get_layer(backbone.name).get_layer("transformer_layer_0")
    assert isinstance(layer, keras.layers.LayerNormalization)
    assert set(found["against"]) == set(cuts) - {"pruned"}
    forms = {(row["model"], row["form"]) for row in found["front"]}
    refused = {
        (name, form)
        for name, entry in found["exports"].items()
        for form, file in entry["files"].items()
        if "refused" in file
    }
    every = {"float32", "int8", "int4"}
    assert {("pruned", form) for form in every} <= forms | refused
    assert any(row["best_for"] for row in found["front"])
    assert (tmp_path / "export" / "pruned" / "README.md").exists()
    assert _files.read_json(tmp_path / "report.json")["budget"] == {
        "multiplications": 0.7
    }


def test_cuts_and_teachers_of_other_labels_are_others(task, teacher, tmp_path):
    """The same texts and the same teacher, which is not trained on them."""
    other = tiny_text.task(transfer=())
    for part, rows in other.encoded.items():
        other.encoded[part] = dataclasses.replace(rows, labels=1 - rows.labels)
    made = []
    for each in (task, other):
        taught = Teacher.of(each, teacher)
        between = types.SimpleNamespace(steps=1, made_with=lambda model: {})
        folder = types.SimpleNamespace(path=tmp_path)
        phases = [
            *cuts.Cuts(each, taught, {"size_bytes": 1}, folder, between).phases,
            exports.teacher_phase(taught, each, tmp_path, tmp_path, ()),
        ]
        made.append(fingerprints(phases))
    assert made[0].keys() == made[1].keys() > {"export_teacher", "cut_layers"}
    assert not {*made[0].values()} & {*made[1].values()}


def test_nothing_is_made_twice(run, task, teacher):
    folder, found = run
    stamps = {
        path: path.stat().st_mtime_ns
        for place in ("cuts", "cells")
        for path in (folder / place).rglob("*.*")
        if path.suffix != ".md"
    }
    again = compressed(task, teacher, folder)
    assert again["rows"] == found["rows"]
    assert stamps == {path: path.stat().st_mtime_ns for path in stamps}


@pytest.fixture
def between(monkeypatch):
    """The models that are taught between two cuts."""
    found, train = [], cuts.Between.train

    def counted(self, model):
        before = model.get_weights()
        train(self, model)
        found.append((model.count_params(), before, model.get_weights()))

    monkeypatch.setattr(cuts.Between, "train", counted)
    return found


@pytest.mark.large
@pytest.mark.usefixtures("eager")
def test_in_several_cuts(task, teacher, between, tmp_path):
    budget = {"parameters": 0.4}
    found = compressed(task, teacher, tmp_path, budget, steps=3)
    pruned, by_chance = found["cuts"]
    assert pruned["share"] <= 0.4
    assert by_chance["share"] <= 0.4
    # Of both, after the first and the second cut; they have learnt.
    assert len(between) == 4
    whole = teacher.count_params()
    for (count, before, after), share in zip(between, [0.74, 0.54] * 2):
        assert 0.4 < count / whole <= share + 0.01
        assert not all(np.array_equal(a, b) for a, b in zip(before, after))
    assert any("Cut in 3 steps" in told for told in found["told"])
    again = compressed(task, teacher, tmp_path, budget, steps=3)
    assert again["rows"] == found["rows"]
    assert len(between) == 4
    with pytest.raises(UsageError, match="steps"):
        compressed(task, teacher, tmp_path, budget, steps=2)


def test_a_model_that_breaks_between_two_cuts(
    task, teacher, monkeypatch, tmp_path
):
    best = types.SimpleNamespace(failure="its logits are not finite")
    monkeypatch.setattr(
        Bench, "fit", lambda *args: types.SimpleNamespace(best=best)
    )
    with pytest.raises(UsageError, match="between two cuts broke: its logits"):
        compressed(task, teacher, tmp_path, {"parameters": 0.4}, steps=2)
    assert not list(tmp_path.rglob("*.keras"))


@pytest.mark.parametrize("steps", [0, 1.5, 10**9])
def test_steps_that_cannot_be(task, teacher, steps, tmp_path):
    with pytest.raises(UsageError, match="steps"):
        compressed(task, teacher, tmp_path / "new", steps=steps)
    assert not (tmp_path / "new").exists()


def test_another_budget_is_told(run, task, teacher):
    folder, _ = run
    with pytest.raises(UsageError, match="budget"):
        compressed(task, teacher, folder, "multiplications=80%")


def test_the_front():
    def file(score, size, latency):
        return {
            "test_score": score,
            "size_bytes": size,
            "latency_ms": latency,
        }

    files = {
        "teacher": {"files": {"float32": file(0.9, 100, 4.0)}},
        "pruned": {
            "files": {
                "float32": file(0.8, 50, 2.0),
                "int8": file(0.8, 20, 3.0),
                "int4": {"refused": "it disagrees"},
                "SavedModel": {"size_bytes": 1, "latency_ms": 1},
            }
        },
        "worse": {"files": {"float32": file(0.7, 50, 2.0)}},
    }
    best = {
        (row["model"], row["form"]): row["best_for"] for row in front(files)
    }
    assert best == {
        ("teacher", "float32"): ["size_bytes", "latency_ms"],
        ("pruned", "float32"): ["latency_ms"],
        ("pruned", "int8"): ["size_bytes"],
        ("worse", "float32"): [],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latency=2ms", {"latency_ms": 2}),
        ("latency=0.5s", {"latency_ms": 500}),
        ("size=1.5MB", {"size_bytes": 1.5e6}),
        ("size = 40%", {"size_bytes": 0.4}),
        ("parameters=200000", {"parameters": 200000}),
        ("multiplications=50%", {"multiplications": 0.5}),
    ],
)
def test_budgets_as_people_type_them(text, expected):
    assert budgets.parse(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "50%", "latency", "latency=2", "latency=50%", "size=1"),
        *("parameters=1MB", "flops=3", "size=-1MB", "size=0MB", "size=1e9MB"),
        *("latency=inf", "latency=nanms", "multiplications=²%"),
    ],
)
def test_budgets_that_are_none(text):
    with pytest.raises(ValueError, match="A budget must be such as"):
        budgets.parse(text)


def subclassed(teacher):
    class Plain(keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = teacher

        def call(self, inputs, training=None):
            return self.inner(inputs, training=training)

    return Plain()


def test_images_are_augmented_for_importance():
    model = tiny_images.network()
    raw, moved, again = (
        cuts.sample(tiny_images.task(how), model)[0]
        for how in ("none", "shift", "shift")
    )
    np.testing.assert_array_equal(moved, again)
    assert moved.shape == raw.shape
    assert np.any(moved != raw)


def test_messages(task, teacher, tmp_path):
    for budget, message in {
        "multiplications=1%": "must be what can be reached",
        "speed=3": "A budget must be such as",
    }.items():
        with pytest.raises(UsageError, match=message):
            compressed(task, teacher, tmp_path / "a", budget)
    with pytest.raises(UsageError, match="functional or Sequential"):
        compressed(task, subclassed(teacher), tmp_path / "a")
    with pytest.raises(UsageError, match="must learn from the teacher"):
        compressed(task, teacher, tmp_path / "a", recipe=kd.recipes.hard())
    with pytest.raises(UsageError, match="must learn from logits"):
        compressed(task, teacher, tmp_path / "a", recipe=kd.recipes.hidden())
    with pytest.raises(UsageError, match="must learn from logits"):
        compressed(task, teacher, tmp_path / "a", recipe=kd.recipes.pooled())
    with pytest.raises(UsageError, match="epochs"):
        compressed(task, teacher, tmp_path / "a", epochs=0)
    assert not (tmp_path / "a" / "cells").exists()


@pytest.mark.large
@pytest.mark.parametrize(
    "options",
    [
        [],
        variants.exhaustive(["--data", "digits", "--budget", "latency=100ms"]),
        variants.exhaustive(
            ["--data", "digits", "--budget", "size=60%", "--html"]
        ),
    ],
)
@pytest.mark.usefixtures("eager")
def test_the_command(tmp_path, options, capfd):
    arguments = ["compress", *options, "--smoke", "--output", str(tmp_path)]
    assert main(arguments) == 0
    told = capfd.readouterr()
    assert "Within" in told.out + told.err
    found = json.loads((tmp_path / "report.json").read_text())
    assert found["command"] == "compress"
    assert found["front"]
    assert main(arguments) == 0


@pytest.mark.large
def test_the_command_refuses_before_it_trains(tmp_path, capfd):
    arguments = ["compress", "--smoke", "--output", str(tmp_path / "a")]
    assert main([*arguments, "--budget", "multiplications=1%"]) == 2
    assert "what can be reached" in capfd.readouterr().err
    assert not list((tmp_path / "a").rglob("teacher*"))
    short = ["--method", "annealing", "--epochs", "2"]
    for wrong in (["--method", "hidden"], short):
        assert main([*arguments, *wrong, "--output", str(tmp_path / "b")]) == 2
    assert not (tmp_path / "b").exists()


def test_students_of_runs_are_plain(task, teacher, tmp_path):
    def rounded(task, teacher):
        return kd.quantization.QuantizationAware(tiny_text.network())

    with pytest.raises(UsageError, match="built as a plain model"):
        kd.distill(task, teacher, rounded, tmp_path)
