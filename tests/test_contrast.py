"""Few labels: vectors that learn which texts are of one class, then a head."""

import functools
import json

import keras
import keras_hub
import numpy as np
import pytest
import tiny_runs
import tiny_text
from keras import ops
from sklearn.linear_model import LogisticRegression

from keras_distill import data
from keras_distill import experiments
from keras_distill._errors import UsageError
from keras_distill.experiments import Preparation
from keras_distill.experiments import adapting
from keras_distill.experiments import contrast
from keras_distill.experiments import teachers
from keras_distill.experiments import teaching
from keras_distill.experiments import training
from keras_distill.students import Shrink
from keras_distill.tasks import embedders
from keras_distill.tasks.linear_heads import DenseClasses


def encoder(folder, vocabulary=tiny_text.VOCABULARY):
    """A folder with an encoder that knows no classes."""
    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.BertBackbone(
        len(vocabulary), 1, 2, 16, 16, dropout=0.0
    )
    backbone.save_to_preset(str(folder))
    tokenizer = data.bert_preprocessor(vocabulary, 16).tokenizer
    tokenizer.save_to_preset(str(folder))
    return str(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return encoder(tmp_path_factory.mktemp("encoder") / "preset")


@pytest.fixture(scope="module")
def task():
    return tiny_text.task(transfer=())


def model_for(task, folder):
    keras.utils.set_random_seed(0)
    return task.contrastive_teacher(folder)


def vectors_of(model, rows):
    found = keras.Model(model.input, model.get_layer("unit").output)
    return training.predict(found, rows)


# The loss.


def reference(classes, vectors):
    vectors = np.asarray(vectors, "float64")
    found = {True: [], False: []}
    for i, u in enumerate(vectors):
        for j, v in enumerate(vectors):
            if i == j:
                continue
            cosine = u @ v / np.sqrt((u @ u) * (v @ v))
            same = bool(classes[i] == classes[j])
            found[same].append((cosine - same) ** 2)
    return sum(np.mean(held) for held in found.values() if held) / 2


@pytest.mark.parametrize("classes", [[0, 1, 1, 0, 2], [3] * 5, [0, 1, 2, 3, 4]])
def test_pairs_of_one_class_and_of_two_weigh_the_same(classes):
    vectors = np.random.default_rng(0).normal(size=(5, 3)).astype("float32")
    found = contrast.SameClass()(ops.array(classes), ops.array(vectors))
    assert float(found) == pytest.approx(reference(classes, vectors), rel=1e-5)
    # Labels of a batch may come as a column.
    column = ops.array(classes)[:, None]
    again = contrast.SameClass()(column, ops.array(7 * vectors))
    assert float(again) == pytest.approx(float(found), rel=1e-5)


def test_one_text_alone_is_no_pair():
    assert float(contrast.SameClass()(ops.array([0]), ops.ones((1, 3)))) == 0.0


# The training.


@pytest.mark.large
def test_texts_of_a_class_come_together(task, folder):
    model, rows = model_for(task, folder), task.encoded["train"]
    before = reference(rows.labels, vectors_of(model, rows))
    found = experiments.fine_tune_contrastively(
        model, task, steps=30, batch_size=8
    )
    assert found["steps"] == 30
    assert not found["cut"]
    assert found["strength"] in contrast.STRENGTHS
    assert reference(rows.labels, vectors_of(model, rows)) < before
    logits = {"dev": training.predict(model, task.encoded["dev"])}
    assert task.score(logits, "dev") > 0.8


@pytest.mark.large
def test_the_head_is_the_logistic_regression_on_the_vectors(task, folder):
    model, rows = model_for(task, folder), task.encoded["train"]
    found = experiments.fine_tune_contrastively(model, task, steps=1)
    known, dev = (vectors_of(model, task.encoded[x]) for x in ("train", "dev"))
    fitted = LogisticRegression(C=found["strength"], max_iter=300)
    fitted.fit(known, rows.labels)
    logits = training.predict(model, task.encoded["dev"])
    np.testing.assert_allclose(
        logits[:, 1] - logits[:, 0], fitted.decision_function(dev), atol=1e-4
    )


@pytest.mark.parametrize("present", [[0, 1, 2], [0, 2], [1, 3]])
def test_weights_of_a_head_say_what_the_classifier_says(present):
    rng = np.random.default_rng(1)
    matrix, labels = rng.normal(size=(30, 5)), np.resize(present, 30)
    heads = DenseClasses(4)
    fitted = heads.fit(matrix, labels, 1.0)
    kernel, bias = heads.weights(fitted)
    logits = matrix @ kernel + bias
    np.testing.assert_array_equal(logits.argmax(1), fitted.predict(matrix))
    expected = heads.logits(fitted, matrix)
    np.testing.assert_allclose(logits, expected, rtol=1e-5)


@pytest.mark.large
def test_no_label_is_seen_but_those_that_are_given(task, folder, monkeypatch):
    seen, batches = [], data.batches

    def spy(rows, *arguments, **named):
        seen.append(rows)
        return batches(rows, *arguments, **named)

    monkeypatch.setattr(data, "batches", spy)
    labels = np.full(24, -1)
    labels[[0, 2, 4, 5]] = [0, 0, 0, 1]
    experiments.fine_tune_contrastively(
        model_for(task, folder), task, labels, steps=16, batch_size=16
    )
    drawn = seen[0]  # Then come those that are predicted.
    ids = task.encoded["train"].inputs["token_ids"]
    known = {ids[row].tobytes() for row in (0, 2, 4, 5)}
    rows = {row.tobytes() for row in drawn.inputs["token_ids"]}
    assert rows <= known
    # Each class as often as the others, however rare.
    assert np.mean(drawn.labels) == pytest.approx(0.5, abs=0.1)


@pytest.mark.large
def test_the_time_ends_it(task, folder):
    found = experiments.fine_tune_contrastively(
        model_for(task, folder), task, steps=50, minutes=1e-9
    )
    assert found["steps"] == 1
    assert found["cut"]


@pytest.mark.large
def test_broken_vectors_are_told(task, folder):
    model = model_for(task, folder)
    model.set_weights([w * np.nan for w in model.get_weights()])
    with pytest.raises(UsageError, match="vectors of train"):
        experiments.fine_tune_contrastively(model, task, steps=1)


# Which teachers start so.


def chosen(folder, **further):
    further = {"sequence_length": 16, "teacher_minutes": 0.01} | further
    return Preparation(teacher=folder, **further)


TUNED = adapting.Adapted(1.0, {}, 1, 1.0, 1.0, False)


def without_training(monkeypatch, adapt=lambda *_: TUNED):
    """Which teacher starts how is known before it learns anything."""

    def no_start(model, *_, **__):
        head = model.get_layer("logits")
        head.set_weights([np.zeros_like(w) for w in head.get_weights()])
        return {"steps": 0, "cut": False}

    monkeypatch.setattr(contrast, "fine_tune_contrastively", no_start)
    monkeypatch.setattr(adapting, "fine_tune_adaptively", adapt)
    monkeypatch.setattr(teaching, "fine_tune", lambda *_, **__: 1)


@pytest.mark.parametrize(
    ("further", "contrasts"),
    [
        ({}, True),
        ({"teacher_start": "encoder"}, False),
        ({"teacher_start": "contrastive"}, True),
        ({"teacher_epochs": 1}, False),
        ({"teacher_epochs": 0, "teacher_start": "contrastive"}, True),
    ],
)
def test_few_labels_start_with_a_contrast(
    task, folder, tmp_path, monkeypatch, further, contrasts
):
    without_training(monkeypatch)
    path = tiny_text.write(tmp_path / "texts", tiny_text.SIZES)
    preparation = chosen(folder, data=path, **further)
    model, found = teachers.teacher_for(preparation, task)
    assert ("contrast" in found) == contrasts
    assert isinstance(model, keras_hub.models.Task) != contrasts


def test_many_labels_need_no_contrast(task, folder, tmp_path, monkeypatch):
    without_training(monkeypatch)
    monkeypatch.setattr(teachers, "FEW_LABELS", 23)
    path = tiny_text.write(tmp_path / "texts", tiny_text.SIZES)
    few = {"labels": 20, "teacher_labels": "student"}
    for further, contrasts in (({}, False), (few, True)):
        preparation = chosen(folder, data=path, **further)
        _, found = teachers.teacher_for(preparation, task)
        assert ("contrast" in found) == contrasts


@pytest.mark.parametrize(("harm", "stays"), [(True, True), (False, False)])
def test_the_start_stays_where_further_training_is_worse(
    task, folder, tmp_path, monkeypatch, harm, stays
):
    dev = task.encoded["dev"]

    def tuned(model, *arguments):
        labels = np.eye(2)[dev.labels] * 2 - 1
        kernel = np.linalg.pinv(vectors_of(model, dev)) @ labels
        model.get_layer("logits").set_weights(
            [-kernel if harm else kernel, np.zeros(2)]
        )
        return TUNED

    without_training(monkeypatch, tuned)
    path = tiny_text.write(tmp_path / "texts", tiny_text.SIZES)
    model, found = teachers.teacher_for(chosen(folder, data=path), task)
    assert found["contrast"]["stays"] == stays
    score = task.score({"dev": training.predict(model, dev)}, "dev")
    # A head of zeros is right in one half.
    assert score == 0.5 if harm else score > 0.5


@pytest.mark.parametrize(
    "further",
    [{"teacher": "embedded"}, {"text_pair_column": "text", "task": "pairs"}],
)
def test_a_contrast_is_for_pretrained_encoders_of_single_texts(
    folder, tmp_path, further
):
    path = tiny_text.write(tmp_path / "texts", tiny_text.SIZES)
    options = {"teacher": folder, "data": path} | further
    with pytest.raises(UsageError, match="classes of single texts"):
        Preparation(teacher_start="contrastive", **options)


def test_what_knows_the_classes_needs_no_contrast(task, tmp_path):
    folder = str(tiny_runs.preset_teacher(tmp_path / "preset"))
    path = tiny_text.write(tmp_path / "texts", tiny_text.SIZES)
    assert task.contrastive_teacher(folder) is None
    options = chosen(folder, data=path, teacher_start="contrastive")
    with pytest.raises(UsageError, match="does not know the classes"):
        teachers.teacher_for(options, task)


def test_an_encoder_that_knows_no_padding_starts_as_it_is(tmp_path):
    backbone = keras_hub.models.FNetBackbone(20, 1, 8, 8)
    backbone.save_to_preset(str(tmp_path / "fnet"))
    assert embedders.classifier(str(tmp_path / "fnet"), 2) is None


@pytest.mark.large
def test_a_run_with_few_labels_says_how_its_teacher_began(
    tmp_path, monkeypatch
):
    tune = functools.partial(contrast.fine_tune_contrastively, steps=2)
    monkeypatch.setattr(contrast, "fine_tune_contrastively", tune)
    path = tiny_runs.write_texts(tmp_path / "texts")
    folder = encoder(tmp_path / "encoder", tiny_runs.VOCABULARY)
    prepared = experiments.prepare(
        tmp_path / "run",
        data=path,
        teacher=folder,
        sequence_length=16,
        transfer=None,
        teacher_start="contrastive",
        teacher_epochs=0,
    )
    held = json.loads((tmp_path / "run/phases/teacher.json").read_text())
    assert held["result"]["contrast"]["steps"] == 2
    told = teachers.summary(held["result"])
    assert told.endswith(" %, after a contrastive start")
    assert prepared.model.get_layer("unit") is not None
    assert prepared.teacher.logits["train"].shape == (40, 2)
    smaller = prepared.task.student_model(
        Shrink(layers=1), prepared.teacher.model
    )
    assert smaller.output_shape == (None, 2)
