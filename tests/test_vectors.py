"""Vectors: losses, starts, measures, and runs from texts to plain arrays."""

import json
import pathlib

import keras
import keras_hub
import numpy as np
import pytest
import scipy
import tiny
import tiny_text
import tiny_vectors
from helpers import gradients
from keras import ops

import keras_distill as kd
from keras_distill import data
from keras_distill import experiments
from keras_distill import export
from keras_distill import losses
from keras_distill import recipes
from keras_distill import students
from keras_distill._errors import UsageError
from keras_distill.cli import main
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import Cell
from keras_distill.experiments.preparation import Preparation
from keras_distill.experiments.teaching import Teacher
from keras_distill.experiments.teaching import as_teacher
from keras_distill.students.static import start
from keras_distill.tasks import embedders
from keras_distill.tasks import hard_losses
from keras_distill.tasks import linear_vectors
from keras_distill.tasks import measures_of_vectors

RNG = np.random.default_rng(0)


def unit(x):
    x = np.float64(x)
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def drawn(*shape):
    return RNG.normal(size=shape).astype("float32")


# Losses.


def test_cosine_equals_reference():
    t, s = drawn(5, 4), drawn(5, 4)
    wanted = 1 - (unit(t) * unit(s)).sum(axis=-1)
    loss = losses.VectorCosine(reduction=None)
    np.testing.assert_allclose(loss(t, s), wanted, rtol=1e-5)
    # Of vectors of length 1 half of their squared distance.
    halves = ((unit(t) - unit(s)) ** 2).sum(axis=-1) / 2
    np.testing.assert_allclose(loss(t, s), halves, rtol=1e-5)
    np.testing.assert_allclose(loss(t, 3 * t), np.zeros(5), atol=1e-6)


def neighbour_kl(t, s, temperature):
    values = []
    for i in range(len(t)):
        others = [j for j in range(len(t)) if j != i]
        p, q = (
            np.exp(unit(x)[others] @ unit(x)[i] / temperature) for x in (t, s)
        )
        p, q = p / p.sum(), q / q.sum()
        values.append((p * np.log(p / q)).sum())
    return np.array(values)


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_neighbour_kl_equals_reference(temperature):
    t, s = drawn(6, 4), drawn(6, 4)
    loss = losses.NeighbourKL(temperature, reduction=None)
    wanted = neighbour_kl(t, s, temperature)
    np.testing.assert_allclose(loss(t, s), wanted, rtol=1e-4)
    assert wanted.min() > 1e-3


def test_neighbours_do_not_change_when_all_turn():
    t = drawn(6, 4)
    turn, _ = np.linalg.qr(drawn(4, 4))
    np.testing.assert_allclose(
        losses.NeighbourKL()(t, 2 * t @ turn), 0.0, atol=1e-5
    )
    assert float(losses.VectorCosine()(t, t @ turn)) > 0.1


@pytest.mark.parametrize("loss", [losses.VectorCosine, losses.NeighbourKL])
def test_vectors_of_zeros_have_finite_gradients(loss):
    t, s = drawn(3, 4), drawn(3, 4)
    s[1] = 0.0
    assert np.isfinite(gradients(loss(), t, s)).all()
    again = loss.from_config(loss().get_config())
    assert float(again(t, s)) == float(loss()(t, s))


def test_tokens_have_no_neighbours():
    with pytest.raises(ValueError, match="shape \\[batch, dimensions\\]"):
        losses.NeighbourKL()(drawn(2, 3, 4), drawn(2, 3, 4))


def test_the_hard_loss_is_of_known_vectors():
    t, s = drawn(4, 3), drawn(4, 3)
    t[2] = np.nan
    known = [0, 1, 3]
    wanted = (1 - (unit(t[known]) * unit(s[known])).sum(axis=1)).mean()
    np.testing.assert_allclose(
        hard_losses.CosineDistance()(t, s), wanted, rtol=1e-5
    )


@pytest.mark.parametrize("kind", ["functional", "sequential", "subclassed"])
def test_a_distiller_learns_directions(kind):
    x, _ = tiny.data(64)
    teacher = tiny.mlp()
    student = {
        "functional": tiny.mlp,
        "sequential": lambda: keras.Sequential(
            [keras.Input((tiny.FEATURES,)), keras.layers.Dense(tiny.CLASSES)]
        ),
        "subclassed": Subclassed,
    }[kind]()
    model = kd.Distiller(teacher, student)
    model.compile(keras.optimizers.Adam(0.05), soft_loss=losses.VectorCosine())
    model.fit(x, epochs=30, verbose=0)
    cosine = (unit(teacher(x)) * unit(student(x))).sum(axis=1).mean()
    assert cosine > 0.95


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.head = keras.layers.Dense(tiny.CLASSES)

    def call(self, x):
        return self.head(x)


# Measures.


def brute(expected, actual, count):
    kept = []
    for i in range(len(expected)):
        near = []
        for vectors in (expected, actual):
            cosines = unit(vectors) @ unit(vectors)[i]
            cosines[i] = -np.inf
            near.append({*np.argsort(-cosines)[:count]})
        kept.append(len(near[0] & near[1]) / count)
    return np.array(kept)


@pytest.mark.parametrize(("rows", "count"), [(60, 10), (60, 3), (9, 2)])
def test_neighbours_kept_equals_reference(rows, count):
    first, second = drawn(rows, 5), drawn(rows, 3)
    second[:, :2] += 2 * first[:, :2]
    found = measures_of_vectors.neighbours_kept(first, second, count)
    np.testing.assert_allclose(found, brute(first, second, count))
    assert 0.05 < found.mean() < 0.95


def test_few_rows_have_few_neighbours(monkeypatch):
    vectors = drawn(9, 4)
    found = measures_of_vectors.neighbours_kept(vectors, vectors[:, :2])
    np.testing.assert_allclose(found, brute(vectors, vectors[:, :2], 2))
    monkeypatch.setattr(measures_of_vectors, "BLOCK", 4)
    again = measures_of_vectors.neighbours_kept(vectors, vectors[:, :2])
    np.testing.assert_array_equal(found, again)


def test_a_pool_is_the_same_for_all_models():
    vectors = drawn(50, 4)
    found = measures_of_vectors.neighbours_kept(vectors, -vectors, pool=20)
    assert found.shape == (50,)
    same = measures_of_vectors.neighbours_kept(vectors, 2 * vectors, pool=20)
    assert same.tolist() == [1.0] * 50


# The start of static vectors.


def test_a_static_model_starts_from_the_tokens_of_the_teacher():
    task = tiny_vectors.task()
    teacher = tiny_vectors.embedder()
    task.check_teacher(teacher)
    model = students.Static().build(task, teacher)
    rows = task.encoded["dev"].inputs
    tokenizer = task.preprocessor.tokenizer
    special = [
        tokenizer.start_token_id,
        tokenizer.end_token_id,
        tokenizer.pad_token_id,
    ]
    vocabulary = tokenizer.vocabulary_size()
    alone = np.full((vocabulary, tiny_vectors.WIDTH), np.nan)
    for token in sorted({*range(vocabulary)} - {*special}):
        ids = np.array([[special[0], token, special[1]]], "int32")
        inputs = {"token_ids": ids, "padding_mask": ids * 0 + 1}
        inputs["segment_ids"] = ids * 0
        alone[token] = np.asarray(teacher(inputs))[0]
    train = task.encoded["train"].inputs
    counts = np.bincount(
        train["token_ids"][train["padding_mask"] > 0], minlength=vocabulary
    )
    share = counts / counts.sum()
    centred = np.nan_to_num(alone - np.nanmean(alone, axis=0))
    weighted = centred * (1e-2 / (1e-2 + share))[:, None]
    sums = np.stack([weighted[ids].sum(axis=0) for ids in rows["token_ids"]])
    np.testing.assert_allclose(model(rows), unit(sums), atol=1e-4)


def test_the_principal_components_are_the_best_of_their_number():
    vectors = drawn(30, 5) @ np.diag([5, 3, 1, 0.5, 0.1]).astype("float32")
    table, turn = start(vectors, np.zeros(30), 2)
    centred = vectors - vectors.mean(axis=0)
    u, s, v = np.linalg.svd(centred.astype("float64"), full_matrices=False)
    np.testing.assert_allclose(
        table @ turn, (u[:, :2] * s[:2]) @ v[:2], atol=1e-4
    )
    np.testing.assert_allclose(turn @ turn.T, np.eye(2), atol=1e-5)


def test_of_a_large_vocabulary_rare_tokens_are_left_out(monkeypatch):
    monkeypatch.setattr(embedders, "MOST_ASKED", 3)
    task, teacher = tiny_vectors.task(), tiny_vectors.embedder()
    tokenizer = task.preprocessor.tokenizer
    counts = np.zeros(tokenizer.vocabulary_size(), int)
    counts[[9, 20]] = 5, 2
    found = embedders.token_vectors(
        teacher, tokenizer, list(task.encoded["dev"].inputs), counts
    )
    asked = np.flatnonzero(np.isfinite(found).all(axis=1))
    assert {9, 20} <= {*asked}
    assert len(asked) == 3
    table, _ = start(found, counts, 2)
    assert not table[np.setdiff1d(np.arange(len(counts)), asked)].any()


def test_static_vectors_are_of_no_other_task():
    with pytest.raises(ValueError, match="Static cannot be built"):
        students.Static().build(tiny_text.task(), None)


# Embedders.


@pytest.mark.parametrize("pooling", embedders.POOLINGS)
def test_pooling(pooling):
    model = tiny_vectors.embedder(pooling=pooling)
    rows = tiny_vectors.task().encoded["dev"].take(slice(5)).inputs
    backbone = next(
        x for x in model.layers if isinstance(x, keras_hub.models.Backbone)
    )
    states = np.asarray(backbone(rows)["sequence_output"])
    mask = rows["padding_mask"][..., None] > 0
    wanted = {
        "mean": (states * mask).sum(axis=1),
        "cls": states[:, 0],
        "max": np.where(mask, states, -np.inf).max(axis=1),
    }[pooling]
    np.testing.assert_allclose(model(rows), unit(wanted), atol=1e-5)


def modules(folder, *types, **pooling):
    folder.mkdir()
    places = {"Pooling": "1_Pooling", "Transformer": ""}
    held = [
        {"type": f"sentence_transformers.models.{t}", "path": places.get(t, t)}
        for t in types
    ]
    (folder / "modules.json").write_text(json.dumps(held))
    (folder / "1_Pooling").mkdir()
    named = {f"pooling_mode_{k}": v for k, v in pooling.items()}
    (folder / "1_Pooling/config.json").write_text(json.dumps(named))
    return folder


def test_the_pooling_of_a_folder_is_read(tmp_path):
    usual = ("Transformer", "Pooling", "Normalize")
    folder = modules(tmp_path / "a", *usual, cls_token=True, mean_tokens=False)
    assert embedders._pooling(folder) == "cls"
    assert embedders._pooling(tmp_path) == "mean"
    folder = modules(tmp_path / "b", *usual, "Dense", mean_tokens=True)
    with pytest.raises(ValueError, match=r"modules\.json with .*Dense"):
        embedders._pooling(folder)
    # A start that is fine-tuned needs no more than the encoder.
    keras_hub.models.BertBackbone(9, 1, 1, 4, 4).save_to_preset(str(folder))
    assert embedders.classifier(str(folder), 3).output_shape == (None, 3)
    folder = modules(tmp_path / "c", *usual, weightedmean_tokens=True)
    with pytest.raises(ValueError, match="The pooling must be one of"):
        embedders._pooling(folder)


def test_presets_become_embedders(tmp_path):
    keras.utils.set_random_seed(0)
    backbone = keras_hub.models.XLMRobertaBackbone(50, 1, 2, 6, 8)
    kind = keras_hub.models.XLMRobertaTextEmbedder
    plain = kind(backbone, pooling_mode="max")
    plain.save_to_preset(tmp_path / "embedder")
    ids = np.array([[0, 7, 9, 2, 1]], "int32")
    inputs = {"token_ids": ids, "padding_mask": np.int32(ids != 1)}
    found = embedders.of_preset(str(tmp_path / "embedder"))
    np.testing.assert_allclose(found(inputs), plain(inputs), atol=1e-6)
    backbone.save_to_preset(tmp_path / "encoder")
    found = embedders.of_preset(str(tmp_path / "encoder"))
    states = np.asarray(backbone(inputs)) * inputs["padding_mask"][..., None]
    np.testing.assert_allclose(
        found(inputs), unit(states.sum(axis=1)), atol=1e-5
    )


# The task.


@pytest.fixture(scope="module")
def bench():
    task = tiny_vectors.task(transfer=TRANSFER)
    teacher = as_teacher(tiny_vectors.embedder(), task)
    return Bench(task.judged_by(teacher.logits), teacher)


TRANSFER = ["the fine 1", "the sad 2"] * 5
SMALL = students.Static(epochs=12, batch_size=8, learning_rate=0.02)


def cell(recipe, task):
    return Cell(
        name=recipe.name,
        title=recipe.name,
        student_name="Static",
        student=SMALL,
        arm=recipe.name,
        recipe=recipe,
        seed=0,
    ).for_task(task)


def test_the_control_is_the_start(bench):
    recipe = recipes.untrained()
    assert recipe.is_control
    trained = bench.fit(cell(recipe, bench.task))
    initial = bench.new_student(cell(recipe, bench.task))
    for ours, theirs in zip(
        trained.student.get_weights(), initial.get_weights()
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert (trained.steps, trained.labels, trained.best.epoch) == (0, 0, 0)
    made = bench.made_with(cell(recipe, bench.task))
    assert made["recipe"]["hard_weight"] == 0


@pytest.mark.parametrize("name", ["kd", "neighbours", "hard"])
def test_students_come_nearer_to_the_teacher(bench, name):
    task = bench.task
    fits = [
        bench.fit(cell(recipe, task)).student
        for recipe in (recipes.untrained(), getattr(recipes, name)())
    ]
    rows = task.encoded["test"]
    before, after = (
        task.agreement(rows.labels, np.asarray(model(rows.inputs)))
        for model in fits
    )
    assert after > before + 0.01


@pytest.mark.parametrize("kind", [students.TextCNN, students.NGram])
def test_other_students_make_vectors(bench, kind):
    model = kind(width=4).build(bench.task, bench.teacher.model)
    found = np.asarray(model(bench.task.encoded["dev"].take(slice(3)).inputs))
    assert found.shape == (3, tiny_vectors.WIDTH)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-4)


def test_ngrams_ship_a_narrow_table(bench):
    student = students.NGram(width=4, buckets=64, embeddings="vectors")
    model = student.build(bench.task, bench.teacher.model)
    small = student.finished(model, bench.task)
    assert small.count_params() < model.count_params()
    rows = bench.task.encoded["dev"].inputs
    np.testing.assert_allclose(small(rows), model(rows), atol=1e-5)


def test_fewer_layers_start_as_the_teacher(bench):
    model = students.Shrink(layers=1).build(bench.task, bench.teacher.model)
    rows = bench.task.encoded["dev"].inputs
    np.testing.assert_allclose(
        model(rows), bench.teacher.model(rows), atol=1e-5
    )


def test_what_is_measured(bench):
    task = bench.task
    own = bench.teacher.logits
    assert task.score(own, "dev") == 1.0
    assert [*task.further] == ["cosine", "probe"]
    found = task.further_scores(own)
    assert found["cosine"] == pytest.approx(1.0)
    assert 0.5 < found["probe"] <= 1.0
    unlabelled = tiny_vectors.task(labelled=False)
    assert [*unlabelled.further] == ["cosine"]
    assert task.agreement(own["dev"], own["dev"][:, :2]) == 0.0


def test_the_linear_model_of_vectors(bench, monkeypatch):
    task = bench.task
    found = task.linear_model(task.labels(None, 0))
    assert found.logits["test"].shape == (40, tiny_vectors.WIDTH)
    kept = task.score(found.logits, "test")
    shuffled = RNG.permutation(found.logits["test"])
    assert kept > 0.2 + task.score({"test": shuffled}, "test")
    monkeypatch.setattr(linear_vectors, "FITTED_ROWS", 10)
    few = task.linear_model(task.labels(None, 0))
    assert task.score(few.logits, "test") < kept


def test_teachers_that_make_no_vectors():
    inputs = tiny_vectors.embedder().input
    one = keras.Model(inputs, ops.cast(inputs["token_ids"][:, :1], "float32"))
    with pytest.raises(UsageError, match="a vector for each text"):
        as_teacher(one, tiny_vectors.task())


@pytest.mark.parametrize(
    "change",
    [
        {"dev": np.zeros((39, 6))},
        {"dev": np.zeros(40)},
        {"other": np.zeros((40, 6))},
    ],
)
def test_vectors_from_elsewhere_must_be_those_of_the_texts(bench, change):
    logits = {**bench.teacher.logits, **change}
    with pytest.raises(UsageError, match="a vector for each of the"):
        as_teacher(Teacher(logits), bench.task)
    given = Teacher(bench.teacher.logits)
    assert as_teacher(given, tiny_vectors.task(transfer=TRANSFER)) is given


# Data.


def test_lines_and_tables_are_texts_to_embed(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("".join(f"text {i}\n\n" for i in range(80)))
    splits = data.load(path, kind=data.VectorSplits)
    assert len(splits.train) + len(splits.dev) + len(splits.test) == 80
    assert min(len(splits.dev), len(splits.test)) > 2
    assert splits.label_names == []
    assert "rows taken from train" in splits.notes[0]
    table = tmp_path / "texts.csv"
    table.write_text("text\n" + "".join(f"row {i}\n" for i in range(80)))
    assert len(data.load(table, kind=data.VectorSplits).train) > 50
    table.write_text(
        "text,label\n" + "".join(f"row {i},{i % 2}\n" for i in range(80))
    )
    splits = data.load(table, kind=data.VectorSplits)
    assert splits.label_names == ["0", "1"]
    path.write_text("\n \n")
    with pytest.raises(ValueError, match="one text a line"):
        data.load(path, kind=data.VectorSplits)


def test_labels_out_of_range():
    part = data.TextDataset(["a", "b"], [0, 3])
    with pytest.raises(ValueError, match=r"1 out of range, for 2 names"):
        data.VectorSplits(part, part, part, ["x", "y"])


def test_lines_tell_the_task(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("one\ntwo\n")
    for source in (path, tmp_path):
        assert Preparation(data=str(source), smoke=True).task == "vectors"


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({}, "needs a teacher that knows something"),
        ({"smoke": True, "labels": 60}, "labels=60"),
        ({"smoke": True, "teacher_epochs": 3}, "teacher_epochs=3"),
        ({"smoke": True, "text_pair_column": "b"}, "text_pair_column"),
    ],
)
def test_choices_without_a_meaning(chosen, message):
    with pytest.raises(UsageError, match=message):
        Preparation(task="vectors", **chosen)


# Pairs with scores.


PAIRS = [
    ("the fine 1", "the nice 2", "4.5"),
    ("the fine 3", "the sad 4", "1.0"),
    ("the dull 5", "the sad 6", ""),
    ("the poor 7", "the dull 8", "3.5"),
    ("the nice 9", "the poor 1", "0.5"),
]


def write_pairs(folder, column="score", pairs=PAIRS):
    folder.mkdir()
    lines = [f"text1\ttext2\t{column}", *map("\t".join, pairs)]
    for part in ("train", "dev", "test"):
        (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    return folder


def test_pairs_are_texts_of_their_own(tmp_path):
    splits = data.load(
        write_pairs(tmp_path / "a"),
        text_column="text1",
        text_pair_column="text2",
        kind=data.VectorSplits,
    )
    test = splits.test
    assert test.texts[:4] == [*PAIRS[0][:2], *PAIRS[1][:2]]
    expected = [[0, 4.5], [1, 1.0], [-1, 0.0], [3, 3.5], [4, 0.5]]
    np.testing.assert_array_equal(test.labels, np.repeat(expected, 2, axis=0))
    assert splits.label_names == []
    # Those of a column of another name are scores as well.
    again = data.load(
        write_pairs(tmp_path / "b", "label"),
        text_column="text1",
        text_pair_column="text2",
        kind=data.VectorSplits,
    )
    np.testing.assert_array_equal(again.test.labels, test.labels)


def test_scores_of_single_texts_are_no_classes(tmp_path):
    path = write_pairs(tmp_path / "a")
    splits = data.load(path, text_column="text1", kind=data.VectorSplits)
    assert set(splits.test.labels.tolist()) == {-1}


def test_classes_of_pairs_are_told(tmp_path):
    path = write_pairs(tmp_path / "a", "label", [("a", "b", "same")] * 3)
    with pytest.raises(ValueError, match="'same' in row 1 of train"):
        data.load(
            path,
            text_column="text1",
            text_pair_column="text2",
            kind=data.VectorSplits,
        )
    with pytest.raises(UsageError, match="must be single ones"):
        Preparation(
            data=path, task="vectors", unlabelled=path, teacher="bert_tiny_en"
        )


def test_the_order_of_scores_is_measured(tmp_path):
    prepared = experiments.prepare(
        tmp_path / "run",
        data=write_pairs(tmp_path / "a"),
        task="vectors",
        smoke=True,
    )
    task = prepared.task.judged_by(prepared.teacher.logits)
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(10, 3))
    found = task.further_scores({"test": vectors})["spearman"]
    cosines = [
        unit(vectors[2 * i : 2 * i + 1]) @ unit(vectors[2 * i + 1])
        for i in (0, 1, 3, 4)
    ]
    expected = scipy.stats.spearmanr(np.ravel(cosines), [4.5, 1.0, 3.5, 0.5])
    assert found == pytest.approx(expected.statistic)
    assert "spearman" in task.further
    model = students.Static(width=2).build(task, prepared.model)
    dimensions = prepared.teacher.logits["dev"].shape[1]
    assert model.output_shape == (None, task.num_outputs) == (None, dimensions)


# Exports.


def test_plain_arrays_say_what_the_student_says(tmp_path):
    task, teacher = tiny_vectors.task(), tiny_vectors.embedder()
    task.check_teacher(teacher)
    model = students.Static(width=4).build(task, teacher)
    rows = task.encoded["dev"].inputs
    report = export.vectors(
        model,
        tmp_path / "vectors.npz",
        task.preprocessor.tokenizer,
        examples=task.examples(20),
    )
    assert report.agreement == 1.0
    found = export.StaticVectors(tmp_path / "vectors.npz")(
        rows["token_ids"], rows["padding_mask"]
    )
    np.testing.assert_allclose(found, model(rows), atol=1e-5)
    names = {path.name for path in tmp_path.iterdir()}
    assert "vectors.vocabulary.txt" in names
    half = export.vectors(
        model,
        tmp_path / "half.npz",
        examples=task.examples(20),
        quantization="float16",
    )
    assert half.agreement == 1.0
    assert half.size_bytes < report.size_bytes
    with np.load(half.path) as held:
        assert {str(v.dtype) for v in held.values()} == {"float16", "bool"}
    found = export.StaticVectors(half.path)(
        rows["token_ids"], rows["padding_mask"]
    )
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, model(rows), atol=2e-3)
    with pytest.raises(ValueError, match=r"must end in `\.npz`"):
        export.vectors(model, tmp_path / "a.zip", examples=rows)
    with pytest.raises(ValueError, match="`quantization` must be"):
        export.vectors(model, tmp_path / "a.npz", quantization="int4")
    with pytest.raises(ValueError, match=r"kd\.students\.static"):
        export.vectors(teacher, tmp_path / "b.npz", examples=rows)


def test_exports_agree_by_their_direction(tmp_path):
    inputs = keras.Input((3,), name="x")
    model = keras.Model(inputs, keras.layers.Dense(4)(inputs))
    rows = {"x": drawn(20, 3)}
    path = tmp_path / "model.tflite"
    report = export.litert(
        model, path, examples=rows, task="vectors", tolerance=0.01
    )
    assert report.agreement == 1.0
    with pytest.raises(ValueError, match="`tolerance` is required"):
        export.litert(model, path, examples=rows, task="vectors")


@pytest.mark.large
def test_vectors_go_from_lines_to_arrays(tmp_path, capsys):
    texts = tiny_vectors.part(300, 3, labelled=False).texts
    lines = [f"{text} {i}" for i, text in enumerate(texts)]
    (tmp_path / "train.txt").write_text("\n".join(lines))
    arguments = [
        *("distill", "--data", str(tmp_path / "train.txt"), "--smoke"),
        *("--epochs", "3", "--output", str(tmp_path / "run")),
    ]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert "neighbours kept" in told
    report = json.loads((tmp_path / "run/report.json").read_text())
    names = [model["name"] for model in report["models"]]
    assert names == ["teacher", "linear", "control", "distilled"]
    assert report["models"][2]["labels"] == 0
    assert report["models"][0]["test_neighbours_kept"] == [1.0]
    files = report["models"][-1]["files"]
    assert {"float32", "SavedModel", "NumPy"} <= {*files}
    folder = pathlib.Path(tmp_path / "run/export")
    arrays = folder / files["NumPy"]["path"]
    assert files["NumPy"]["test_score"] == pytest.approx(
        report["models"][-1]["test_score"][0], abs=0.02
    )
    assert export.StaticVectors(arrays).table.shape[1] == 8
    card = (folder / "README.md").read_text()
    assert "sentence-similarity" in card
    assert 'np.load("' in card
