"""The linear model in every report, and teachers that are worse than it."""

import dataclasses
import types

import numpy as np
import pytest
import test_compare_report as compare_report
import tiny_text
from sklearn.linear_model import LogisticRegression

import keras_distill as kd
from keras_distill import data
from keras_distill.experiments import Teacher
from keras_distill.experiments import Watcher
from keras_distill.experiments import weakness
from keras_distill.experiments.cells import ARM
from keras_distill.experiments.cells import CONTROL
from keras_distill.experiments.engine import Finished
from keras_distill.experiments.floor import ALL_LABELS
from keras_distill.experiments.floor import LINEAR
from keras_distill.experiments.floor import Floor
from keras_distill.experiments.report import html as page
from keras_distill.experiments.report import tables
from keras_distill.tasks import TextClassification
from keras_distill.tasks import linear

CLASSES = {
    "film": "movie actor scene plot",
    "food": "bread soup taste cook",
    "sport": "goal team match coach",
}


def texts(rows, seed, classes=CLASSES):
    rng = np.random.default_rng(seed)
    words = [kinds.split() for kinds in classes.values()]
    labels = np.arange(rows) % len(words)
    held = [" ".join(rng.choice(words[label], 3)) for label in labels]
    return held, labels


def fitted(rows, labels, dev, dev_labels, classes):
    """The linear model whose choice is made by the accuracy on dev."""

    def accuracy(logits):
        return float((logits.argmax(axis=-1) == dev_labels).mean())

    heads = linear.Classes(classes)
    return linear.fit(rows, np.asarray(labels), dev, accuracy, heads)


@pytest.fixture(scope="module")
def task():
    return tiny_text.task(transfer=())


def of_logits(task, right):
    """A teacher that is right everywhere, or nowhere."""
    sign = 5.0 if right else -5.0
    return Teacher(
        {
            part: (sign * np.eye(2)[rows.labels]).astype("float32")
            for part, rows in task.encoded.items()
        }
    )


def small(task, teacher, weak, folder, **options):
    return kd.distill(
        task,
        of_logits(task, teacher),
        tiny_text.SMALL,
        folder,
        export=False,
        keep_weak_teacher=weak,
        **options,
    )


@pytest.mark.parametrize("features", [linear.WORDS, linear.CHARACTERS])
@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_those_of_logistic_regressions(features, classes):
    """One against the rest, each fitted here by another solver."""
    train, labels = texts(30, 0, dict(list(CLASSES.items())[:classes]))
    vectorizer = linear.vectorizer_of(features, pairs=False).fit(train)
    heads = linear.Classes(classes)
    fitted = heads.fit(vectorizer.transform(train), labels, 3.0)
    model = linear.LinearText(vectorizer, fitted, heads, features, 3.0)
    found = model.logits(train)
    matrix = vectorizer.transform(train).toarray()
    bias = np.ones((len(matrix), 1))
    for label in range(classes):
        # Liblinear penalises the bias as it does the weights.
        expected = LogisticRegression(
            C=3.0, fit_intercept=False, tol=1e-8, max_iter=2000
        ).fit(np.hstack([matrix, bias]), labels == label)
        scores = expected.decision_function(np.hstack([matrix, bias]))
        told = found[:, label]
        if classes == 2:
            told = found[:, label] - found[:, 1 - label]
        np.testing.assert_allclose(told, scores, atol=0.1)


def test_what_is_chosen_is_best_on_dev():
    """Words are new in dev, their beginnings are not."""
    train = ["unhappy", "unkind", "kindly", "happily"] * 3
    labels = np.array([0, 0, 1, 1] * 3)
    model = fitted(train, labels, ["unfair", "fairly"], [0, 1], 2)
    assert model.features == linear.CHARACTERS
    assert model.logits(["unlucky", "luckily"]).argmax(-1).tolist() == [0, 1]


def test_many_rows_choose_on_a_part_and_fit_on_all(monkeypatch):
    monkeypatch.setattr(linear, "SEARCH_ROWS", 12)
    train, labels = texts(30, 0)
    train[29], labels[29] = "zebra", 2
    model = fitted(train, labels, train, labels, 3)
    assert "zebra" in model.vectorizer.get_feature_names_out().tolist()
    assert model.logits(train).argmax(-1).tolist() == labels.tolist()


def test_a_class_without_a_text_is_never_the_answer():
    train, labels = texts(12, 0, {"a": CLASSES["film"], "b": CLASSES["food"]})
    model = fitted(train, labels * 2, train, labels * 2, 4)
    logits = model.logits(train)
    assert logits.shape == (12, 4)
    assert np.isfinite(logits).all()
    assert set(logits.argmax(-1)) == {0, 2}


def test_size_counts_weights_and_ngrams():
    model = fitted(["ab cd", "ef"] * 3, [0, 1] * 3, ["ab"], [0], 2)
    names = model.vectorizer.get_feature_names_out()
    facts = model.scored(["ab"], ["ef"]).facts
    assert facts["parameters"] == len(names) + 1
    letters = sum(len(name) + 1 for name in names)
    assert facts["size_bytes"] == 4 * (2 * len(names) + 1) + letters


def test_one_class_has_no_linear_model(task):
    assert task.linear_model(np.zeros(24, "int32")) is None
    labels = np.full(24, data.UNLABELLED)
    assert task.linear_model(labels) is None


def test_every_report_has_the_floor(task, tmp_path):
    found = small(task, True, False, tmp_path)
    names = [model["name"] for model in found["models"]]
    assert names == ["teacher", "linear", "control", "distilled"]
    floor = found["models"][1]
    expected = task.linear_model(task.splits.train.labels)
    for part in ("dev", "test"):
        score = task.score(expected.logits, part)
        assert floor[f"{part}_accuracy"] == [score]
    assert floor["size_bytes"] == expected.facts["size_bytes"]
    assert found["weak_teacher"] is None
    text = (tmp_path / "report.md").read_text()
    assert "| linear | 24 labels, n-grams of words" in text


@pytest.mark.large
def test_with_few_labels_the_floor_sees_as_few(task, tmp_path):
    found = small(task, True, False, tmp_path, labels=8, seeds=[3, 5])
    floors = found["floors"]
    assert floors["linear"]["labels"] == 8
    assert floors["linear"]["seeds"] == [3, 5]
    assert floors["linear_all_labels"]["labels"] == 24
    labels = task.labels(8, 5)
    score = task.score(task.linear_model(labels).logits, "test")
    assert floors["linear"]["test_accuracy"]["values"][1] == score


@pytest.mark.large
def test_a_better_linear_model_is_told(task, tmp_path):
    """The student is trained for an epoch; the linear model is right."""
    found = small(task, True, True, tmp_path)
    (told,) = found["verdicts"]
    floor = np.mean(found["models"][1]["test_accuracy"])
    student = {m["name"]: m for m in found["models"]}[found_arm(found)]
    better = floor > np.mean(student["test_accuracy"])
    sentences = [s for s in told["warnings"] if "linear model" in s]
    assert len(sentences) == int(better)
    assert any("linear model on the same labels" in s for s in told["details"])


def found_arm(found):
    rows = [row for row in found["rows"] if row["role"] != "reference"]
    best = max(rows, key=lambda row: row["dev_accuracy"]["mean"])
    return best["arm"]


@pytest.mark.large
@pytest.mark.parametrize("keep", [False, True])
def test_a_weak_teacher_is_imitated_only_if_asked(keep, task, tmp_path):
    lines = []
    watcher = Watcher()
    watcher.line = lines.append
    found = small(task, False, keep, tmp_path, watcher=watcher)
    arms = [row["arm"] for row in found["rows"]]
    assert arms == (["control", "distilled"] if keep else ["control"])
    assert any(line.startswith("weak teacher: ") for line in lines)
    assert "accuracy on dev, 0.0 %" in found["weak_teacher"]
    assert "--keep-weak-teacher" in found["weak_teacher"]
    (told,) = found["verdicts"]
    assert told["warnings"][0].startswith("Weak teacher: ")
    assert told["answer"] == ("not tried" if not keep else told["answer"])
    assert len(found["skipped"]) == int(not keep)


def test_what_saw_more_labels_does_not_end_a_run(task):
    """As the teacher itself has; where the students see few, it has enough."""

    def floor_of(labels, accuracy):
        return Floor([{"labels": labels, "dev_score": accuracy}], None, [])

    teacher = of_logits(task, True)
    teacher.logits["dev"][0] *= -1
    floors = {LINEAR: floor_of(2, 0.8), ALL_LABELS: floor_of(24, 1.0)}
    found = weakness.of(task, teacher, floors, [])
    assert not found.ends
    assert "90.0 %, is below that of the linear model (24 labels)" in found.told
    assert "--keep-weak-teacher" not in found.told
    floors[LINEAR] = floor_of(2, 1.0)
    found = weakness.of(task, teacher, floors, [])
    assert found.ends
    assert "(2 labels), 100.0 %" in found.told
    assert "Fine-tune it longer" in found.told
    embedded = dataclasses.replace(teacher, source="embedded")
    told = weakness.of(task, embedded, floors, []).told
    assert "name a pretrained one (`--teacher`" in told
    assert "Fine-tune it longer" not in told
    assert weakness.of(task, of_logits(task, True), floors, []) is None


@pytest.mark.parametrize(("role", "told"), [(CONTROL, True), (ARM, False)])
def test_a_model_that_has_seen_no_label_is_no_rival(task, role, told):
    """What `compress` has cut is a control of its own, better by chance."""
    teacher = of_logits(task, True)
    teacher.logits["dev"][0] *= -1
    cell = types.SimpleNamespace(student_name="cut", arm="alone", role=role)
    cell = Finished(cell, {"labels": 0, "dev_score": 0.95})
    assert (weakness.of(task, teacher, {}, [cell]) is not None) is told


@pytest.mark.parametrize(("accuracy", "ends"), [(0.99, False), (1.0, True)])
def test_what_chance_explains_does_not_end_a_run(task, accuracy, ends):
    """9 of 10 rows are right; the standard error of that is 0.095."""
    teacher = of_logits(task, True)
    teacher.logits["dev"][0] *= -1
    results = [{"labels": 24, "dev_score": accuracy}]
    found = weakness.of(task, teacher, {LINEAR: Floor(results, None, [])}, [])
    assert found.ends is ends
    assert "90.0 %, is below that of the linear model" in found.told
    assert ("--keep-weak-teacher" in found.told) is ends


@pytest.mark.large
def test_comparisons_have_it_too(task, tmp_path):
    found = kd.compare(
        task,
        of_logits(task, False),
        {"CNN": tiny_text.SMALL},
        tmp_path,
        recipes=[kd.recipes.hard(), kd.recipes.kd()],
        seeds=1,
        export=False,
        html=False,
        keep_weak_teacher=False,
    )
    names = [model["name"] for model in found["models"]]
    assert names == ["teacher", "linear", "CNN, hard labels"]


@pytest.mark.large
def test_a_task_without_a_linear_model(task, tmp_path, monkeypatch):
    monkeypatch.setattr(
        TextClassification, "linear_model", lambda self, labels: None
    )
    found = small(task, True, False, tmp_path)
    assert found["floors"] == {}
    assert [m["name"] for m in found["models"]] == [
        "teacher",
        "control",
        "distilled",
    ]


def facts_of(accuracy):
    return {
        "labels": 40,
        **dict.fromkeys(("dev_score", "test_score"), accuracy),
        **dict.fromkeys(("macro_f1", "matthews", "seconds"), 0.5),
        **dict.fromkeys(("parameters", "size_bytes"), 1200),
        "latency_ms": 1.5,
        "model": "TF-IDF, logistic regression",
        "features": "n-grams of words",
    }


@pytest.mark.parametrize(
    ("accuracy", "told"),
    [(0.5, "reaches"), (0.85, "may be better:"), (0.95, "does better:")],
)
def test_reports_tell_where_it_does_better(accuracy, told):
    """Against “KD + transfer”, the best on dev, which reaches 84 %."""
    rows = compare_report.ROWS["test"]
    right = np.arange(rows) < accuracy * rows
    floor = Floor([facts_of(accuracy)], right[None], [])
    found = compare_report.build(
        exports=compare_report.EXPORTS, floors={LINEAR: floor}
    )
    (verdict,) = found["verdicts"]
    words = f"A linear model on the same labels {told} {100 * accuracy:.1f} %"
    ahead = accuracy > 0.84
    assert any(words in s for s in verdict["warnings"]) == ahead
    assert any(words in s for s in verdict["details"])
    linear_row = "| linear | 40 labels, n-grams of words |"
    for text in (tables.markdown(found), page.page(found)):
        assert "40 labels, n-grams of words" in text
        assert f"{100 * accuracy:.1f}" in text
        assert words in text
    assert linear_row in tables.markdown(found)
    assert "<span>linear</span>" in page.page(found)
