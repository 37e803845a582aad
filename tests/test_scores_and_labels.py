"""Regression and several labels: from a table to files that ship."""

import json
import re
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
import tensorflow_text  # noqa: F401 - Operations of exported tokenizers.
import tiny_text
import variants
from keras import ops

import keras_distill as kd
from keras_distill import data
from keras_distill.cli import main
from keras_distill.data.tfds_source import load_tfds
from keras_distill.experiments import Preparation
from keras_distill.experiments import Teacher
from keras_distill.export import card
from keras_distill.export.latency import LiteRTModel
from keras_distill.tasks import MultiLabelClassification
from keras_distill.tasks import TextRegression
from keras_distill.tasks import hard_losses

NAMES = ["praise", "blame", "both"]
SIZES = {"train": 40, "dev": 16, "test": 12}


def rows(count, seed=0, sides=1):
    """Texts, prices around 1000 that good words raise, and labels."""
    rng = np.random.default_rng(seed)
    good, bad = (words.split() for words in tiny_text.WORDS.values())
    texts, scores, labels = [], [], []
    for i in range(count):
        share = i % 4
        words = [*rng.choice(good, share), *rng.choice(bad, 3 - share)]
        held = " ".join(rng.permutation(words))
        texts.append(held if sides == 1 else (held, f"the {words[0]}"))
        scores.append(1000 + 50 * share + rng.normal())
        labels.append([share > 0, share < 3, 0 < share < 3])
    return texts, np.array(scores), np.array(labels, "int32")


def make(kind, sides=1, transfer=tiny_text.TRANSFER, train=None):
    """A tiny task; `train` changes the labels of its train part."""
    parts = {}
    for seed, (name, count) in enumerate(SIZES.items()):
        texts, scores, labels = rows(count, seed, sides)
        held = scores if kind is TextRegression else labels
        if train is not None and name == "train":
            held = train(held)
        parts[name] = data.TextDataset(texts, held)
    names = ["price"] if kind is TextRegression else NAMES
    if sides == 2:
        transfer = [(text, text) for text in transfer]
    return kind.from_texts(
        kind.splits_kind(**parts, label_names=names),
        data.bert_preprocessor(tiny_text.VOCABULARY, 10),
        transfer=transfer,
    )


KINDS = {"regression": TextRegression, "multi_label": MultiLabelClassification}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def unlabelled(held):
    """The first half of the rows without a label."""
    held = held.copy()
    held[: len(held) // 2] = np.nan if held.dtype.kind == "f" else -1
    return held


# Losses on labels.


@pytest.mark.parametrize("missing", [(), (0, 2), range(5)])
def test_losses_are_means_over_rows_with_a_label(missing):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(5, 3))
    labels = (rng.random((5, 3)) < 0.5).astype("float64")
    scores = rng.normal(size=5) * 9
    kept = [row for row in range(5) if row not in missing]
    entropy = np.logaddexp(0, logits) - labels * logits
    squares = ((logits[:, 0] - scores) / 2.5) ** 2
    labels[list(missing)] = -1
    scores[list(missing)] = np.nan
    for loss, y_true, y_pred, each in (
        (hard_losses.LabelsCrossEntropy(), labels, logits, entropy.mean(1)),
        (hard_losses.StandardizedMSE(2.5), scores, logits[:, :1], squares),
    ):
        expected = each[kept].mean() if kept else 0.0
        found = loss(y_true.astype("float32"), y_pred.astype("float32"))
        assert float(found) == pytest.approx(expected, rel=1e-5)
        again = type(loss).from_config(loss.get_config())
        assert float(again(y_true, y_pred)) == pytest.approx(float(found))


def test_rows_without_a_score_have_no_gradient():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1.0), hard_losses.StandardizedMSE(1.0))
    before = model.get_weights()
    inputs = np.ones((2, 2), "float32")
    model.train_on_batch(inputs, np.full(2, np.nan, "float32"))
    np.testing.assert_array_equal(before[0], model.get_weights()[0])
    model.train_on_batch(inputs, np.array([np.nan, 100.0], "float32"))
    after = model.get_weights()[0]
    assert np.isfinite(after).all()
    assert (after > before[0]).all()


# The tasks.


@pytest.mark.large
def test_no_learning_rate_depends_on_the_unit():
    """Prices in cents are learnt as those in euros."""
    euros = make(TextRegression)
    parts = {
        name: data.TextDataset(
            getattr(euros.splits, name).texts,
            100 * getattr(euros.splits, name).labels,
        )
        for name in SIZES
    }
    cents = TextRegression.from_texts(
        data.ScoreSplits(**parts, label_names=["price"]), euros.preprocessor
    )
    found = []
    for task in (euros, cents):
        keras.utils.set_random_seed(0)
        model = kd.students.TextCNN(width=4).build(task, None)
        kd.experiments.fine_tune(model, task, 3, 0.01, 8)
        inputs = task.encoded["test"].inputs
        found.append(model.predict(inputs, verbose=0)[:, 0])
    np.testing.assert_allclose(100 * found[0], found[1], rtol=1e-4)
    assert 900 < found[0].mean() < 1200


def test_a_new_model_says_how_often_each_label_is_there():
    task = make(MultiLabelClassification, train=unlabelled)
    model = tiny_student(task)
    for weight in model.trainable_variables:
        weight.assign(ops.zeros_like(weight))
    logits = model.predict(task.examples(3), verbose=0)
    labels = task.splits.train.labels[SIZES["train"] // 2 :]
    share = (labels.sum(axis=0) + 1) / (len(labels) + 2)
    np.testing.assert_allclose(1 / (1 + np.exp(-logits[0])), share, rtol=1e-5)
    teacher = task.embedded_teacher(smoke=True)
    assert teacher.layers[-1].get_config() == model.layers[-1].get_config()


def test_what_is_imitated(kind):
    task = make(kind)
    first, second = ops.ones((2, task.num_outputs)), ops.zeros((2, 1))
    second = ops.tile(second, (1, task.num_outputs))
    kept = kd.recipes.kd(3.0).for_task(task)
    assert kept.loss_for is None
    found = float(kept.soft_loss(first, second))
    if kind is TextRegression:
        assert found == pytest.approx(1 / task.scale**2)
        assert task.recipes == ("hard", "kd")
    else:
        loss = kd.losses.SoftBinaryCrossEntropy(3.0)
        assert found == pytest.approx(float(loss(first, second)))
    mse = kd.recipes.mse().for_task(task)
    expected = 1 / task.scale**2 if kind is TextRegression else 1.0
    assert float(mse.soft_loss(first, second)) == pytest.approx(expected)
    assert kd.recipes.hard().for_task(task) == kd.recipes.hard()


def test_predictions_stand_for_missing_labels(kind):
    task = make(kind, train=unlabelled)
    teacher = Teacher.of(task, tiny_student(task))
    recipe = kd.recipes.hard().with_transfer()
    bench = kd.experiments.bench.Bench(task, teacher)
    held, signal = bench.signals.rows(recipe, task.labels(None, 0))
    logits = signal["logits"]
    count = SIZES["train"]
    assert len(held) == count + len(tiny_text.TRANSFER)
    known = slice(count // 2, count)
    np.testing.assert_array_equal(
        held.labels[known], task.splits.train.labels[known]
    )
    guessed = logits[: count // 2]
    expected = guessed[:, 0] if kind is TextRegression else guessed > 0
    np.testing.assert_allclose(held.labels[: count // 2], expected)


def test_labels_are_kept_by_the_seed(kind):
    task = make(kind)
    few = task.labels(10, 3)
    assert data.has_label(few).sum() == 10
    np.testing.assert_array_equal(
        few[data.has_label(few)],
        task.splits.train.labels[data.has_label(few)],
    )
    assert (task.labels(10, 3) != task.labels(10, 4)).any()
    with pytest.raises(ValueError, match="between 2 and .* \\(40\\)"):
        task.labels(41, 0)


def test_linear_models_learn(kind):
    task = make(kind)
    model = task.linear_model(task.splits.train.labels)
    assert task.score(model.logits, "test") > 0.8
    assert model.facts["parameters"] > 10
    assert model.facts["model"].startswith("TF-IDF, ")


def test_a_label_that_never_varies_is_constant():
    task = make(MultiLabelClassification)
    labels = task.splits.train.labels.copy()
    labels[:, 1], labels[:, 2] = 1, 0
    found = task.linear_model(labels).logits["dev"]
    assert (found[:, 1] > 0).all()
    assert (found[:, 2] < 0).all()
    assert len(np.unique(found[:, 0])) > 1


def test_thresholds_are_those_of_dev():
    task = make(MultiLabelClassification)
    logits = {
        part: task.encoded[part].labels * 2.0 - 9 for part in ("dev", "test")
    }
    assert task.score(logits, "test") == 1
    assert task.further_scores(logits) == {"macro_f1": 1.0, "exact": 1.0}
    (first, *_) = task.details(logits)
    assert first["threshold"] == pytest.approx(1 / (1 + np.exp(8)))
    assert first["F1"] == 1
    assert first["test rows"] == task.encoded["test"].labels[:, 0].sum()
    logits["dev"] = logits["dev"] + 5
    assert task.score(logits, "test") == 0


def test_a_task_that_was_saved_is_the_same(kind, tmp_path):
    task = make(kind, train=unlabelled, transfer=())
    (tmp_path / "data").mkdir()
    task.save(tmp_path)
    again = kind.restore(tmp_path, task.preprocessor)
    assert again.hashes() == task.hashes()
    assert type(again.splits) is kind.splits_kind
    np.testing.assert_array_equal(
        again.splits.train.labels, task.splits.train.labels
    )


def tiny_student(task, seed=0):
    keras.utils.set_random_seed(seed)
    return kd.students.TextCNN(width=4).build(task, None)


@pytest.mark.large
@pytest.mark.parametrize(
    ("name", "sides"),
    variants.in_ci([("multi_label", 1), ("regression", 2)], ("multi_label", 1)),
)
@pytest.mark.usefixtures("eager")
def test_from_data_to_files(name, sides, tmp_path):
    task = make(KINDS[name], sides)
    found = kd.distill(
        task,
        tiny_student(task),
        kd.students.TextCNN(width=4, epochs=3, batch_size=8),
        tmp_path,
        labels=20,
    )
    check_words(task, found, tmp_path)
    arm, files = (found["models"][-2][name] for name in ("name", "files"))
    file = tmp_path / "cells" / f"{arm}_seed_0" / "student.keras"
    model = kd.experiments.training.load(file)
    expected = kd.experiments.training.predict(model, task.encoded["test"])
    with zipfile.ZipFile(file) as held:
        config = json.loads(held.read("config.json"))["compile_config"]
    assert config["loss"]["module"] == "keras.losses"
    path = tmp_path / "export" / files["float32"]["path"]
    (lite,) = LiteRTModel(path).predict(task.encoded["test"].inputs).values()
    saved = tf.saved_model.load(path.with_name(files["SavedModel"]["path"]))
    columns = zip(*(t if sides == 2 else [t] for t in task.splits.test.texts))
    strings = dict(zip(("text", "text_pair"), map(tf.constant, columns)))
    (ours,) = saved.signatures["serving_default"](**strings).values()
    for logits in (lite, ours):
        np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)


def check_words(task, found, folder):
    """What a report and a card call the scores."""
    names = [model["name"] for model in found["models"]]
    assert names[:3] == ["teacher", "linear", "linear_all_labels"]
    name = {"Pearson": "pearson", "micro F1": "micro_f1"}[task.measure]
    for model in found["models"]:
        assert model[f"test_{name}"] == model["test_score"]
        assert "test_accuracy" not in model
    has_labels = isinstance(task, MultiLabelClassification)
    text = (folder / "export" / "README.md").read_text()
    assert task.measure in text
    assert ("threshold" in text) == has_labels
    report = (folder / "report.md").read_text()
    assert f"Test, Dev: {task.measure}" in report
    assert ("ECE %" in report) == has_labels
    assert "| p |" not in report
    assert ("| threshold |" in report) == has_labels
    json.dumps(found, allow_nan=False)


@pytest.mark.parametrize(
    ("task", "shape", "told"),
    [
        ("classification", [None, 2], "b"),
        ("multi_label", [None, 2], "['b']"),
        ("classification", [None, None, 2], "['b', 'a']"),
        ("regression", [None, 2], "-1"),
    ],
)
@pytest.mark.parametrize("call", ["run(**inputs)", "serve(**inputs)"])
def test_what_the_code_of_a_card_prints(capsys, call, task, shape, told):
    metadata = {
        "outputs": [{"name": "out", "shape": shape}],
        "labels": ["a", "b"],
        "task": task,
    }
    logits = np.array([[-1.0, 2.0]])
    if len(shape) == 3:
        logits = np.array([[[-1.0, 2.0], [3.0, 1.0]]])
    held = logits if call.startswith("run") else tf.constant(logits)
    names = {call.partition("(")[0]: lambda: {"out": held}, "inputs": {}}
    exec("\n".join(card._answer(metadata, call)), names)
    assert told in capsys.readouterr().out


def test_copied_layers_keep_the_unit(kind):
    task = make(kind)
    teacher = task.embedded_teacher(smoke=True)
    student = kd.students.Shrink(layers=1).build(task, teacher)
    inputs = task.examples(4)
    np.testing.assert_allclose(student(inputs), teacher(inputs), rtol=1e-5)


def test_ngrams_ship_the_unit_in_a_narrow_table(kind):
    task = make(kind)
    teacher = task.embedded_teacher(smoke=True)
    student = kd.students.NGram(width=4, buckets=64, embeddings="vectors")
    model = student.build(task, teacher)
    small = student.finished(model, task)
    assert small.count_params() < model.count_params()
    inputs = task.examples(4)
    np.testing.assert_allclose(small(inputs), model(inputs), rtol=1e-5)


@pytest.mark.large
def test_a_correlation_may_be_negative_and_zero(tmp_path):
    """A teacher that is always wrong, and one that says the same to all."""
    task = make(TextRegression, transfer=())
    good = {part: -task.encoded[part].labels[:, None] for part in task.encoded}
    same = {part: np.zeros_like(held) for part, held in good.items()}
    for logits, expected in ((good, -1), (same, 0)):
        assert task.score(logits, "test") == pytest.approx(expected)
    found = kd.compare(
        task,
        Teacher(good),
        {"CNN": kd.students.TextCNN(width=4, epochs=2)},
        tmp_path,
        seeds=1,
        export=False,
    )
    assert [row["arm"] for row in found["rows"]] == ["hard labels", "KD"]
    page = (tmp_path / "report.html").read_text()
    assert "Pearson against latency" not in page
    assert "Pearson on dev, %" in page
    assert "Calibration" not in page


# Tables.


def write(folder, header, lines):
    folder.mkdir(exist_ok=True)
    for part in ("train", "dev", "test"):
        text = "\n".join(["\t".join(header), *lines]) + "\n"
        (folder / f"{part}.tsv").write_text(text)
    return folder


LINES = {
    "regression": (["text", "score"], ["a\t1.5", "b\t-2", "c\t"]),
    "multi_label": (["text", "labels"], ["a\tx, y", "b\t", "c\t-1", "d\tz"]),
}


def test_scores_of_a_table(tmp_path):
    header, lines = LINES["regression"]
    folder = write(tmp_path / "set", header, lines[:2])
    (folder / "train.tsv").write_text("\n".join(["\t".join(header), *lines]))
    held = data.load(folder, kind=data.ScoreSplits)
    assert held.train.labels[:2].tolist() == [1.5, -2]
    assert np.isnan(held.train.labels[2])
    assert held.label_names == ["score"]
    assert Preparation(data=folder).task == "regression"


def test_labels_of_a_column(tmp_path):
    header, lines = LINES["multi_label"]
    folder = write(tmp_path / "set", header, ["a\tx; y", "b\t", "d\tz|x"])
    (folder / "train.tsv").write_text("\n".join(["\t".join(header), *lines]))
    held = data.load(folder, kind=data.MultiLabelSplits)
    assert held.label_names == ["x", "y", "z"]
    expected = [[1, 1, 0], [0, 0, 0], [-1, -1, -1], [0, 0, 1]]
    assert held.train.labels.tolist() == expected
    assert held.test.labels.tolist() == [[1, 1, 0], [0, 0, 0], [1, 0, 1]]
    assert Preparation(data=folder).task == "multi_label"


def test_labels_of_columns(tmp_path):
    header = ["text", "mild", "toxic"]
    folder = write(tmp_path / "set", header, ["a\t1\t0", "b\tFalse\tTRUE"])
    found = Preparation(data=folder, label_column="toxic,mild")
    assert found.task == "multi_label"
    held = data.load(folder, **found.columns, kind=data.MultiLabelSplits)
    assert held.label_names == ["toxic", "mild"]
    assert held.dev.labels.tolist() == [[0, 1], [1, 0]]


def test_a_column_of_classes_comes_first(tmp_path):
    folder = write(tmp_path / "set", ["text", "score", "label"], ["a\t1\tx"])
    assert Preparation(data=folder).task == "text"
    chosen = Preparation(data=folder, label_column="score")
    assert chosen.task == "regression"
    assert Preparation(data=folder, task="regression").task == "regression"


WRONG = {
    "no number": ("score", ["a\tgood"], "must be a number.*'good'.*line 2"),
    "nan": ("score", ["a\t1", "b\tnan"], "must be a number.*line 3"),
    "infinite": ("score", ["a\tinf"], "must be a number"),
    "equal scores": ("score", ["a\t2", "b\t2"], "scores of train must differ"),
    "no labels": ("labels", ["a\t", "b\t"], "must name at least one"),
    "neither": ("x,y", ["a\t1\t0", "b\t2\t0"], "hold 1 .*'2'.*'x'.*line 3"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_tables(tmp_path, capsys, case):
    column, lines, message = WRONG[case]
    folder = write(tmp_path / "set", ["text", *column.split(",")], lines)
    arguments = ["--data", str(folder), "--smoke", "--label-column", column]
    output = ["--output", str(tmp_path / "run")]
    assert main(["distill", *arguments, *output]) == 2
    told = capsys.readouterr()
    told = " ".join((told.out + told.err).split())
    assert re.search(message, told), told


def test_labels_must_occur_in_train(tmp_path):
    folder = write(tmp_path / "set", ["text", "labels"], ["a\tfilm"])
    (folder / "test.tsv").write_text("text\tlabels\na\tfilm,flim\n")
    with pytest.raises(ValueError, match="'flim' in row 1 of test.*'film'"):
        data.load(folder, kind=data.MultiLabelSplits)


@pytest.mark.parametrize(
    ("splits", "labels", "message"),
    [
        (data.TextSplits, [0.5, 1.0], "use `kd.data.ScoreSplits`"),
        (data.TextSplits, [[0, 1], [1, 0]], "`kd.data.MultiLabelSplits`"),
        (data.ScoreSplits, [0, 1], "one float for each text"),
        (data.ScoreSplits, [0.5, np.nan], "Only `train` may hold NaN"),
        (data.ScoreSplits, [0.5, 0.5], "must differ"),
        (data.MultiLabelSplits, [0, 1], "a column for each"),
        (data.MultiLabelSplits, [[0, 2], [1, 0]], r"labels\[0\]=\[0, 2\]"),
        (data.MultiLabelSplits, [[0, 1], [-1, -1]], r"labels\[1\]=\[-1, -1\]"),
        (data.MultiLabelSplits, [[0, 0], [0, 0]], "must apply to some row"),
    ],
)
def test_refused_labels(splits, labels, message):
    """In dev; train may hold rows without a label."""
    good = {
        data.TextSplits: [0, 1],
        data.ScoreSplits: [0.5, 1.5],
        data.MultiLabelSplits: [[0, 1], [-1, -1]],
    }[splits]
    names = ["a"] if splits is data.ScoreSplits else ["a", "b"]
    train = data.TextDataset(["x", "y"], good)
    test = data.TextDataset(["x"], good[:1])
    if splits is data.ScoreSplits:
        test = train
    with pytest.raises(ValueError, match=message):
        splits(train, data.TextDataset(["x", "y"], labels), test, names)


def test_docstrings_have_classes():
    with pytest.raises(ValueError, match="has classes"):
        data.load("docstrings", kind=data.ScoreSplits)


def test_rows_of_the_wrong_kind():
    part = data.TextDataset(["a", "b"], [0, 1])
    splits = data.TextSplits(part, part, part, ["x", "y"])
    layer = data.bert_preprocessor(tiny_text.VOCABULARY, 8)
    with pytest.raises(ValueError, match=r"pair of texts.*Received: 'a'"):
        kd.tasks.PairClassification.from_texts(splits, layer)


class TinyScores(tfds.core.GeneratorBasedBuilder):
    """Scores and two labels in tensorflow-datasets."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {
            "text": tfds.features.Text(),
            "label": np.float32,
            "film": np.int32,
            "food": np.int32,
        }
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features)
        )

    def _split_generators(self, dl_manager):
        return {
            "train": self._generate_examples(range(3)),
            "test": self._generate_examples(range(2), -1.0),
        }

    def _generate_examples(self, rows, label=None):
        for i in rows:
            score = 0.5 * i if label is None else label
            held = {"film": i % 2, "food": int(i == 2), "label": score}
            yield i, {"text": f"text {i}", **held}


def test_scores_and_labels_of_tensorflow_datasets(tmp_path):
    found, names, notes = load_tfds(
        "tiny_scores", kind=data.ScoreSplits, data_dir=tmp_path
    )
    assert sorted(label for _, label in found["train"]) == [0, 0.5, 1]
    assert names is None
    assert "test" not in found
    assert "has no labels" in notes[0]
    found, names, _ = load_tfds(
        "tiny_scores",
        label_features=("film", "food"),
        kind=data.MultiLabelSplits,
        data_dir=tmp_path,
    )
    assert dict(found["train"]) == {
        "text 0": (),
        "text 1": ("film",),
        "text 2": ("food",),
    }
    assert names is None
    with pytest.raises(ValueError, match="scalar integer"):
        load_tfds("tiny_scores", data_dir=tmp_path)


@pytest.mark.large
def test_another_task_in_the_same_folder_is_refused(tmp_path, capsys):
    lines = [f"{text}\t{i % 3}" for i, text in enumerate(rows(60)[0])]
    folder = write(tmp_path / "set", ["text", "score"], lines)
    arguments = ["cache", "--data", str(folder), "--smoke"]
    arguments += ["--output", str(tmp_path / "run")]
    assert main([*arguments, "--label-column", "score"]) == 0
    text = ["--label-column", "score", "--task", "text"]
    assert main([*arguments, *text]) == 2
    assert "--redo" in capsys.readouterr().err


@pytest.mark.large
@pytest.mark.parametrize(
    ("task", "command"),
    variants.in_ci(
        [
            ("regression", "compare"),
            ("regression", "cache"),
            ("multi_label", "distill"),
            ("multi_label", "cache"),
        ],
        ("regression", "cache"),
        ("multi_label", "distill"),
    ),
)
@pytest.mark.usefixtures("eager")
def test_commands_take_them(tmp_path, task, command):
    made = make(KINDS[task])
    lines = []
    for text, label in zip(made.splits.train.texts, made.splits.train.labels):
        held = (
            f"{label}"
            if task == "regression"
            else ",".join(np.array(NAMES)[label == 1])
        )
        lines.append(f"{text}\t{held}")
    folder = write(tmp_path / "set", LINES[task][0], lines)
    (tmp_path / "more.txt").write_text("dull dull\nfine nice lovely sad\n")
    arguments = [
        command,
        *("--data", str(folder), "--smoke"),
        *("--unlabelled", str(tmp_path / "more.txt")),
        *("--output", str(tmp_path / "run")),
    ]
    if command == "compare":
        arguments += ["--student", "ngram", "--seeds", "1", "--no-html"]
    assert main(arguments) == 0
    assert main(arguments) == 0
    if command == "cache":
        return
    report = json.loads((tmp_path / "run/report.json").read_text())
    assert report["task"]["measure"] == KINDS[task].measure
    assert report["task"]["transfer_rows"] == 2
    if command == "compare":
        assert len(report["rows"]) == 4
