"""Where students start: the vectors that a teacher has of each token alone."""

import dataclasses

import keras
import keras_hub
import numpy as np
import pytest
import tiny_text

from keras_distill import compare
from keras_distill import data
from keras_distill import pruning
from keras_distill import recipes
from keras_distill import students
from keras_distill import tasks
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import Cell
from keras_distill.students._inputs import has_pooler
from keras_distill.tasks import embedders


@pytest.fixture(scope="module")
def task():
    return tiny_text.task()


@pytest.fixture(scope="module")
def backbone(task):
    return keras_hub.models.BertBackbone(
        task.preprocessor.tokenizer.vocabulary_size(), 2, 2, 12, 24
    )


@pytest.fixture(scope="module")
def teacher(backbone, task):
    return keras_hub.models.BertTextClassifier(backbone, task.num_outputs)


def of_pairs(task):
    """The task of pairs of its texts with themselves."""
    text = task.splits.train
    both = data.TextDataset([(a, a) for a in text.texts], text.labels)
    return tasks.PairClassification.from_texts(
        data.TextSplits(both, both, both, task.splits.label_names),
        task.preprocessor,
    )


def of_token(backbone, tokenizer, token):
    """The mean state of a text of one token, of length 1."""
    ids = np.array([[tokenizer.start_token_id, token, tokenizer.end_token_id]])
    states = backbone(
        {
            "token_ids": ids,
            "padding_mask": np.ones_like(ids),
            "segment_ids": np.zeros_like(ids),
        }
    )
    mean = np.asarray(states["sequence_output"], "float64")[0].mean(axis=0)
    return mean / np.linalg.norm(mean)


@pytest.mark.parametrize(
    ("kind", "mapped"), [(students.TextCNN, True), (students.NGram, False)]
)
def test_a_table_is_what_the_teacher_says_of_each_token(
    task, teacher, backbone, kind, mapped
):
    tokenizer = task.preprocessor.tokenizer
    own = [tokenizer.start_token_id, tokenizer.end_token_id]
    own.append(tokenizer.pad_token_id)
    asked = np.setdiff1d(np.arange(tokenizer.vocabulary_size()), own)
    vectors = [of_token(backbone, tokenizer, token) for token in asked]
    left, strength, right = np.linalg.svd(
        vectors - np.mean(vectors, axis=0), full_matrices=False
    )
    model = kind(embeddings="vectors", embedding_rank=3, width=4).build(
        task, teacher
    )
    layer = model.get_layer("token_embedding")
    table = np.asarray(layer.embeddings, "float64")
    assert table.shape == (tokenizer.vocabulary_size(), 3)
    assert not table[own].any()
    # Axes may point either way.
    expected = (left * strength**2)[:, :3] @ left[:, :3].T
    np.testing.assert_allclose(
        table[asked] @ table[asked].T, expected, atol=1e-5
    )
    maps = [la for la in model.layers if la.name == "token_projection"]
    assert len(maps) == mapped
    # The map turns the axes back: the student reads the vectors themselves.
    for layer in maps:
        nearest = (left * strength)[:, :3] @ right[:3]
        found = table[asked] @ np.asarray(layer.kernel)
        np.testing.assert_allclose(found, nearest, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {"embeddings": "vectors", "embedding_rank": 6},
        {"embeddings": "teacher"},
        {"embeddings": "teacher", "embedding_rank": 6},
    ],
)
def test_ngrams_ship_a_table_as_wide_as_they_are(task, teacher, options):
    student = students.NGram(width=4, buckets=64, **options)
    model = student.build(task, teacher)
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, seed=len(weight.path)))
    small = student.finished(model, task)
    rows = task.encoded["dev"].inputs
    expected = model.predict(rows, verbose=0)
    assert np.ptp(expected) > 0.1
    np.testing.assert_allclose(
        small.predict(rows, verbose=0), expected, rtol=1e-4, atol=1e-5
    )
    tokens = task.preprocessor.tokenizer.vocabulary_size()
    table = small.get_layer("token_embedding").embeddings
    assert table.shape == (tokens, 4)
    assert small.count_params() < model.count_params()


@pytest.mark.parametrize(
    "options",
    [{"embedding_rank": 2}, {"quantization": "int4", "embedding_rank": 6}],
)
def test_ngrams_keep_a_map_that_saves_or_that_was_rounded(
    task, teacher, options
):
    student = students.NGram(
        embeddings="vectors", width=4, buckets=64, **options
    )
    model = student.made(task, teacher)
    assert student.finished(model, task) is model


@pytest.mark.usefixtures("eager")
def test_a_cell_keeps_what_ships(task, teacher, tmp_path):
    compare(
        task,
        tiny_text.teacher(task, teacher),
        {
            "small": students.NGram(
                embeddings="vectors", width=4, buckets=64, epochs=1
            )
        },
        tmp_path,
        recipes=[recipes.hard(), recipes.kd()],
        seeds=1,
        export=False,
        html=False,
    )
    tokens = task.preprocessor.tokenizer.vocabulary_size()
    cells = [*(tmp_path / "cells").glob("small*")]
    assert len(cells) == 2
    for cell in cells:
        model = keras.models.load_model(cell / "student.keras")  # No warning.
        table = model.get_layer("token_embedding").embeddings
        assert table.shape == (tokens, 4)
        with np.load(cell / "predictions.npz") as held:
            logits = model.predict(task.encoded["test"].inputs, verbose=0)
            np.testing.assert_allclose(held["test_logits"], logits, atol=1e-5)


@pytest.mark.parametrize("kind", [students.TextCNN, students.BiLSTM])
@pytest.mark.parametrize("pair", [False, True])
def test_no_student_ships_the_map_that_widens(task, teacher, kind, pair):
    held = of_pairs(task) if pair else task
    student = kind(embeddings="teacher", embedding_rank=6, width=4)
    model = student.build(held, teacher)
    small = student.finished(model, held)
    assert small.count_params() < model.count_params() - 6 * 12
    rows = held.encoded["dev"].inputs
    np.testing.assert_allclose(
        small.predict(rows, verbose=0),
        model.predict(rows, verbose=0),
        rtol=1e-4,
        atol=1e-5,
    )
    rounded = dataclasses.replace(student, quantization="int4")
    model = rounded.made(held, teacher)
    assert rounded.finished(model, held) is model


@pytest.mark.parametrize("name", ["hard", "kd"])
def test_a_cell_is_trained_without_the_map_and_as_with_it(
    task, teacher, monkeypatch, name
):
    student = students.TextCNN(
        embeddings="teacher", embedding_rank=6, width=4, epochs=1
    )
    recipe = getattr(recipes, name)()
    cell = Cell(name, name, "CNN", student, "arm", recipe, seed=0)
    bench = Bench(task, tiny_text.teacher(task, teacher))
    merged, entered = pruning.merged, []

    def noted(model):
        entered.append(model.name)
        return merged(model)

    monkeypatch.setattr(pruning, "merged", noted)
    found = bench.fit(cell.for_task(task)).student
    assert entered == ["text_cnn"]
    monkeypatch.setattr(
        students.TextCNN, "in_training", students.Student.in_training
    )
    plain = bench.fit(cell.for_task(task)).student
    for ours, whole in zip(found.get_weights(), plain.get_weights()):
        np.testing.assert_allclose(ours, whole, rtol=1e-3, atol=1e-4)


def test_a_cell_with_matches_is_trained_as_it_is(task, teacher, monkeypatch):
    monkeypatch.setattr(pruning, "merged", None)  # Would fail if called.
    student = students.BiLSTM(
        embeddings="teacher", embedding_rank=6, width=4, epochs=1
    )
    recipe = recipes.hidden()
    cell = Cell("h", "h", "BiLSTM", student, "arm", recipe, seed=0)
    bench = Bench(task, tiny_text.teacher(task, teacher))
    curves = bench.fit(cell.for_task(task)).curves
    assert np.isfinite(curves["loss"]).all()


def test_ngrams_of_pairs_keep_the_columns_that_they_compare(task, teacher):
    pairs = of_pairs(task)
    student = students.NGram(
        embeddings="vectors", embedding_rank=6, width=4, buckets=64
    )
    model = student.build(pairs, teacher)
    assert student.finished(model, pairs) is model


def test_a_table_has_no_more_columns_than_the_teacher(task, teacher):
    table, rank = students.TextCNN(embeddings="vectors").table(task, teacher)
    assert table.shape[1] == 12
    assert rank is None


def test_a_pair_and_a_tag_start_from_the_table(task, teacher, backbone):
    whole = np.asarray(backbone.token_embedding.embeddings)
    pairs = of_pairs(task)
    student = students.TextCNN(embeddings="vectors", embedding_rank=12)
    table, rank = student.table(pairs, teacher)
    centred = whole - whole.mean(axis=0)
    np.testing.assert_allclose(table @ table.T, centred @ centred.T, atol=1e-5)
    assert rank is None
    assert tasks.TokenClassification.token_vectors(task, teacher) is None


def test_asking_changes_nothing_in_the_teacher(task, teacher, backbone):
    assert has_pooler(backbone)
    before = [w.path for w in teacher.trainable_weights]
    students.TextCNN(embeddings="vectors", width=4).build(task, teacher)
    assert [w.path for w in teacher.trainable_weights] == before


def test_tokens_are_asked_for_once(task, teacher, monkeypatch):
    student = students.TextCNN(embeddings="vectors", width=4)
    student.build(task, teacher)
    monkeypatch.setattr(embedders, "token_vectors", None)
    student.build(task, teacher)
    head = teacher.layers[-1]
    kernel = head.kernel
    kernel.assign(kernel + 1)  # Not what the vectors are made of.
    student.build(task, teacher)


@pytest.mark.parametrize("known", [True, False])
def test_a_teacher_without_tokens_leaves_new_embeddings(task, known):
    other = tiny_text.network() if known else None
    student = students.TextCNN(embeddings="vectors", width=4)
    vocabulary = task.preprocessor.tokenizer.vocabulary_size()
    assert student.table(task, other) == ((vocabulary, 4), None)
    assert not student.starts_from(other)


def test_an_encoder_without_a_mask_gives_its_table(task):
    vocabulary = task.preprocessor.tokenizer.vocabulary_size()
    unmasked = keras_hub.models.FNetBackbone(vocabulary, 1, 6, 8)
    student = students.TextCNN(embeddings="vectors", width=4)
    assert student.table(task, unmasked) == (unmasked, None)
    assert student.starts_from(unmasked)


def test_who_starts_from_a_teacher(teacher):
    whose = "the teacher's"
    found = {
        students.TextCNN(): None,
        students.TextCNN(embeddings="vectors"): whose,
        students.BiLSTM(embeddings="teacher"): whose,
        students.Shrink(layers=1): whose,
        students.Static(): whose,
        students.ConvNet(): None,
    }
    assert {s: s.starts_from(teacher) for s in found} == found
    assert not any(student.starts_from(None) for student in found)


@pytest.mark.usefixtures("eager")
def test_a_report_says_what_the_control_has_from_the_teacher(
    task, teacher, tmp_path
):
    def told(student, folder):
        found = compare(
            task,
            tiny_text.teacher(task, teacher),
            {"small": student},
            tmp_path / folder,
            recipes=[recipes.hard(), recipes.kd()],
            seeds=1,
            export=False,
            html=False,
        )
        return " ".join(found["measured"])

    sizes = {"width": 4, "epochs": 1}
    sentence = "small: starts from weights of the teacher's in every arm"
    auto = students.TextCNN(embeddings="vectors", **sizes)
    assert sentence in told(auto, "auto")
    assert sentence not in told(students.TextCNN(**sizes), "new")
