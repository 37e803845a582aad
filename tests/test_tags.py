"""Tags of words: CoNLL files, alignment with tokens, F1 of entities, runs."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
import tensorflow_text  # noqa: F401 - Operations of exported tokenizers.
import tiny_text
import variants
from seqeval import metrics as seqeval_metrics

import keras_distill as kd
from keras_distill import data
from keras_distill import students
from keras_distill.cli import main
from keras_distill.data.labelled import has_label
from keras_distill.data.tfds_source import load_tfds
from keras_distill.experiments import Preparation
from keras_distill.experiments import Teacher
from keras_distill.experiments import predicting
from keras_distill.export.latency import LiteRTModel
from keras_distill.tasks import TokenClassification
from keras_distill.tasks import counts_of_sets
from keras_distill.tasks import tags as tags_task

NAMES = ["O", "B-bad", "I-bad", "B-good", "I-good"]
VOCABULARY = [*tiny_text.VOCABULARY, "##9", "##b"]
SIZES = {"train": 40, "dev": 16, "test": 12}
LENGTH = 16


def sentences(count, seed=0):
    """Words and their tags: runs of good and of bad words, and others."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(count):
        words, tags = [], []
        for _ in range(rng.integers(1, 4)):
            words.append(rng.choice(["the", "z9", "ab"]))
            tags.append("O")
            kind = rng.choice(["good", "bad"])
            found = rng.choice(
                tiny_text.WORDS[kind].split(), rng.integers(1, 3)
            )
            words += list(found)
            tags += [f"{'BI'[i > 0]}-{kind}" for i in range(len(found))]
        texts.append(" ".join(words))
        labels.append(tags)
    return texts, labels


def part(count, seed=0):
    texts, labels = sentences(count, seed)
    array = data.TagSplits.to_array("train", texts, labels, NAMES)
    return data.TextDataset(texts, array)


def make(transfer=("the z9 the lovely", "[MASK] the sad dull"), length=LENGTH):
    parts = {n: part(rows, i) for i, (n, rows) in enumerate(SIZES.items())}
    return TokenClassification.from_texts(
        data.TagSplits(**parts, label_names=NAMES),
        data.bert_preprocessor(VOCABULARY, length),
        transfer=transfer,
    )


@pytest.fixture(scope="module")
def task():
    return make()


def right(task, part):
    """Logits that are right, with garbage where no word begins."""
    rng = np.random.default_rng(0)
    labels = task.encoded[part].labels
    logits = rng.normal(size=(*labels.shape, task.num_outputs))
    rows, places = np.nonzero(labels >= 0)
    logits[rows, places] = 9 * np.eye(task.num_outputs)[labels[rows, places]]
    return logits.astype("float32")


# Alignment.


def test_labels_are_at_the_first_token_of_each_word(task):
    tokens = np.array(VOCABULARY)
    rows = task.encoded["train"]
    for i, text in enumerate(task.splits.train.texts):
        words = text.split(" ")
        places = np.flatnonzero(rows.labels[i] >= 0)
        assert len(places) == len(words)
        firsts = tokens[rows.inputs["token_ids"][i, places]]
        for word, first in zip(words, firsts):
            assert word.startswith(first.removeprefix("##"))
        expected = task.splits.train.labels[i]
        found = rows.labels[i, places]
        assert found.tolist() == expected[expected >= 0].tolist()
    # "z9" is two tokens, of which the second has no label.
    assert (rows.labels >= 0).sum() < (rows.lengths - 2).sum()


def test_byte_pairs_differ_after_a_blank():
    layer = tiny_text.roberta("adnewyork", LENGTH)
    texts = ["new york", "a and new"]
    rows = data.encode(data.TextDataset(texts, [[0, 0], [0, 0]]), layer)
    found = tags_task.first_tokens(texts, rows, layer.tokenizer)
    ids = rows.inputs["token_ids"]
    for i, text in enumerate(texts):
        for j, word in enumerate(text.split(" ")):
            first = layer.tokenizer.id_to_token(int(ids[i, found[i, j]]))
            assert first.removeprefix("Ġ") == word[0]
            assert first.startswith("Ġ") == (j > 0)


def test_words_that_are_cut_off_have_no_place():
    task = make(length=6)
    assert (task.encoded["train"].labels[:, 5] == -1).all()
    logits = {part: right(task, part) for part in ("dev", "test")}
    assert 0 < task.score(logits, "test") < 1
    counts = [len(text.split(" ")) for text in task.splits.test.texts]
    predicted = task.predicted(logits["test"], "test")
    assert list(map(len, predicted)) == counts
    whole = {part: right(make(), part) for part in ("dev", "test")}
    assert make().score(whole, "test") == 1


def test_a_word_without_a_token_is_outside():
    layer = data.bert_preprocessor(VOCABULARY, 8)
    texts = ["the \u200b fine"]
    rows = data.encode(data.TextDataset(texts, [[0, 0, 0]]), layer)
    found = tags_task.first_tokens(texts, rows, layer.tokenizer)
    if len(layer.tokenizer("\u200b")) == 0:
        assert found.tolist() == [[1, -1, 2]]
    else:
        assert found.tolist() == [[1, 2, 3]]


def test_tokens_that_are_not_those_of_words_are_refused():
    class Joined:
        start_token_id, end_token_id = 2, 3

        def __call__(self, words):
            return [[7]] * len(words)

    layer = data.bert_preprocessor(VOCABULARY, 8)
    rows = data.encode(data.TextDataset(["z9 ab"], [[0, 0]]), layer)
    with pytest.raises(ValueError, match="4 tokens, 2 of its words, for 'z9"):
        tags_task.first_tokens(["z9 ab"], rows, Joined())


# Measures.


def test_f1_is_that_of_seqeval(task):
    rng = np.random.default_rng(1)
    logits = right(task, "test")
    logits += 6 * rng.normal(size=logits.shape)
    held = {"test": logits, "dev": right(task, "dev")}
    predicted = task.predicted(logits, "test")
    labels = [
        [NAMES[i] for i in row[row >= 0]] for row in task.splits.test.labels
    ]
    assert predicted != labels
    for average, found in (
        ("micro", task.score(held, "test")),
        ("macro", task.further_scores(held)["macro_f1"]),
    ):
        expected = seqeval_metrics.f1_score(labels, predicted, average=average)
        assert found == pytest.approx(expected)
    words = [a == b for x, y in zip(predicted, labels) for a, b in zip(x, y)]
    assert task.further_scores(held)["words"] == pytest.approx(np.mean(words))
    by_type = {row["type"]: row for row in task.details(held)}
    assert set(by_type) == {"good", "bad"}
    counts = counts_of_sets.set_counts([{1}, {2}], [{1, 2}, set()])
    assert counts.tolist() == [[1, 0, 1], [0, 1, 0]]


def test_what_is_not_first_counts_for_nothing(task):
    logits = right(task, "test")
    other = logits.copy()
    other[task.encoded["test"].labels < 0] += 100
    held = {"dev": right(task, "dev"), "test": other}
    assert task.score(held, "test") == 1
    assert task.agreement(logits, other) == 1
    assert task.reliability(held, "test")["ece"] < 0.01
    assert task.score({"dev": held["dev"], "test": -logits}, "test") < 0.5


# Rows, batches, models.


@pytest.mark.parametrize("taught", [False, True])
def test_batches_cut_labels_and_signal_with_the_inputs(task, taught):
    rows = task.encoded["train"]
    signal = {"logits": right(task, "train")} if taught else None
    batches = kd.experiments.training.batches(rows, 8, 0, signal).take(12)
    lengths = set()
    for x, y in batches:
        inputs = x["student"] if taught else x
        lengths.add(inputs["token_ids"].shape[1])
        assert y.shape == inputs["token_ids"].shape
        if taught:
            logits = x["teacher_signal"]["logits"].numpy()
            known = y.numpy() >= 0
            assert logits.shape == (*y.shape, 5)
            assert (logits.argmax(-1) == y.numpy())[known].all()
    assert len(lengths) > 1


def test_predictions_of_all_lengths_are_one_array(task):
    model = students.cnn_tagger(5, (len(VOCABULARY), 4), filters=4)
    rows = task.encoded["train"]
    found = predicting.predict(model, rows)
    expected = model.predict(rows.inputs, verbose=0)
    real = rows.inputs["padding_mask"].astype(bool)
    np.testing.assert_allclose(found[real], expected[real], atol=1e-5)
    assert found.shape == expected.shape


@pytest.mark.parametrize("build", [students.cnn_tagger, students.bilstm_tagger])
def test_padding_changes_nothing(build):
    model = build(3, (20, 6))
    short = np.array([[2, 7, 9, 3]])
    long = np.pad(short, ((0, 0), (0, 5)))
    outputs = [
        model({"token_ids": ids, "padding_mask": ids > 0})
        for ids in (short, long)
    ]
    np.testing.assert_allclose(outputs[0], outputs[1][:, :4], atol=1e-5)
    # What comes after a token is seen, too.
    changed = model(
        {
            "token_ids": np.array([[2, 7, 9, 4]]),
            "padding_mask": np.ones((1, 4), "int32"),
        }
    )
    assert np.abs(outputs[0] - changed)[0, 0].max() > 1e-6


def test_dilations_reach_eight_tokens():
    model = students.cnn_tagger(2, (40, 6), filters=8)
    ids = np.arange(1, 31)[None]
    other = ids.copy()
    other[0, 15] = 39
    mask = np.ones_like(ids)
    a, b = (
        np.asarray(model({"token_ids": held, "padding_mask": mask}))
        for held in (ids, other)
    )
    changed = np.flatnonzero(np.abs(a - b)[0].max(axis=-1) > 0)
    assert (changed.min(), changed.max()) == (15 - 8, 15 + 8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_tags": 0}, "num_tags"),
        ({"filters": 0}, "filters"),
        ({"dilations": ()}, "at least one"),
        ({"dilations": (1, 0)}, "dilations"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_refused_taggers(options, message):
    with pytest.raises(ValueError, match=message):
        students.cnn_tagger(**{"num_tags": 2, "embeddings": (9, 4)} | options)


def test_the_whole_batch_teaches_all_that_is_no_padding(task):
    """KL over the tokens of a batch by hand, in float64."""
    rows = task.encoded["train"].take(np.arange(4))
    keras.utils.set_random_seed(0)
    student = students.cnn_tagger(5, (len(VOCABULARY), 4), dropout=0)
    teacher = right(task, "train")[:4]
    distiller = kd.Distiller(teacher=None, student=student)
    distiller.compile(
        keras.optimizers.SGD(0.0),
        loss=task.hard_loss(),
        soft_loss=kd.losses.ForwardKL(2.0),
    )
    x = {"student": rows.inputs, "teacher_signal": {"logits": teacher}}
    logs = distiller.train_on_batch(x, rows.labels, return_dict=True)
    ours = student.predict(rows.inputs, verbose=0).astype("float64")

    def log_softmax(z):
        z = z - z.max(-1, keepdims=True)
        return z - np.log(np.exp(z).sum(-1, keepdims=True))

    real = rows.inputs["padding_mask"].astype(bool)
    p, q = log_softmax(teacher / 2.0), log_softmax(ours / 2.0)
    soft = 4 * (np.exp(p) * (p - q)).sum(-1)[real].mean()
    known = rows.labels >= 0
    hard = -np.take_along_axis(
        log_softmax(ours), np.maximum(rows.labels, 0)[..., None], -1
    )[..., 0][known].mean()
    assert float(logs["soft_loss"]) == pytest.approx(soft, rel=1e-4)
    assert float(logs["hard_loss"]) == pytest.approx(hard, rel=1e-4)


@pytest.mark.parametrize("name", ["kd", "hidden", "pooled", "attention"])
def test_the_usual_temperature_is_the_tasks(task, name):
    make_recipe = getattr(kd.recipes, name)

    def temperature(of, **given):
        return make_recipe(**given).for_task(of).soft_loss.temperature

    assert temperature(task) == 1.0
    assert temperature(tiny_text.task()) == 4.0
    assert temperature(task, temperature=2.0) == 2.0


def test_predicted_tags_stand_for_missing_ones(task):
    bench = kd.experiments.bench.Bench(
        task,
        Teacher.of(task, task.embedded_teacher(smoke=True)),
    )
    labels = task.labels(10, 0)
    assert labels.shape == task.encoded["train"].labels.shape
    assert has_label(labels).sum() == 10
    recipe = kd.recipes.hard().with_transfer()
    rows, signal = bench.signals.rows(recipe, labels)
    logits = signal["logits"]
    assert len(rows) == SIZES["train"] + 2
    assert ((rows.labels >= 0).sum(axis=1) > 0).all()
    known = has_label(labels)
    np.testing.assert_array_equal(rows.labels[:40][known], labels[known])
    guessed = rows.labels[-1] >= 0
    # "[MASK] the sad dull" is four tokens, not six.
    assert guessed.tolist() == [False, *[True] * 4, *[False] * 11]
    assert (rows.labels[-1] == logits[-1].argmax(-1))[guessed].all()


def test_linear_models_learn(task):
    found = task.linear_model(task.encoded["train"].labels)
    assert task.score(found.logits, "test") > 0.9
    assert found.facts["parameters"] > 100
    assert task.linear_model(np.full((40, LENGTH), -1)) is None


def test_a_new_model_says_how_often_each_tag_is_there(task):
    model = students.BiLSTM(width=4).build(task, None)
    for weight in model.trainable_variables:
        weight.assign(np.zeros(weight.shape))
    logits = model.predict(task.examples(2), verbose=0)
    labels = task.encoded["train"].labels
    counts = np.bincount(labels[labels >= 0], minlength=5) + 1
    found = np.exp(logits[0, 3])
    np.testing.assert_allclose(found, counts / counts.sum(), rtol=1e-5)


def test_students_without_tokens_are_refused(task):
    with pytest.raises(ValueError, match="NGram.*each word.*bilstm or shrink"):
        students.NGram(width=4).build(task, None)


def test_a_teacher_of_whole_texts_is_refused(task):
    with pytest.raises(ValueError, match=r"each tag of .*\(8, 2\)"):
        task.check_teacher(
            students.text_cnn(2, (len(VOCABULARY), 4), filters=4)
        )
    task.check_teacher(task.embedded_teacher(smoke=True))


def test_a_task_that_was_saved_is_the_same(tmp_path):
    task = make(transfer=())
    (tmp_path / "data").mkdir()
    task.save(tmp_path)
    again = TokenClassification.restore(tmp_path, task.preprocessor)
    assert again.hashes() == task.hashes()


def test_other_mentions_in_the_place_of_ones_own():
    texts = ["in New York", "to Bonn and Rome", "no"]
    labels = [[0, 1, 2, -1], [0, 1, 0, 3], [0, -1, -1, -1]]
    held = data.TextDataset(texts, labels)
    names = ["O", "B-place", "I-place", "B-town", "I-town"]
    splits = data.TagSplits(held, held, held, names)
    made = splits.made_texts(20, 0)
    assert len(made) == 40
    assert set(made[:20]) == {"in New York", "in Bonn"}
    assert set(made[20:]) == {"to Bonn and Rome", "to New York and Rome"}
    assert splits.made_texts(20, 0) == made
    assert splits.made_texts(0, 0) == []


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.parametrize("student", [students.TextCNN, students.BiLSTM])
def test_from_data_to_files(task, student, tmp_path):
    teacher = Teacher({part: right(task, part) for part in task.encoded})
    found = kd.distill(
        task,
        teacher,
        student(width=8, epochs=20, batch_size=8, learning_rate=0.02),
        tmp_path,
        seeds=1,
    )
    assert found["task"]["measure"] == "entity F1"
    scores = {m["name"]: m["test_entity_f1"][0] for m in found["models"]}
    assert scores["teacher"] == 1
    assert scores["distilled"] > 0.5
    card = (tmp_path / "export" / "README.md").read_text()
    assert "| good |" in card
    model = kd.experiments.training.load(
        tmp_path / "cells" / "distilled_seed_0" / "student.keras"
    )
    files = found["models"][3]["files"]
    path = tmp_path / "export" / files["float32"]["path"]
    rows = task.encoded["test"]
    (lite,) = LiteRTModel(path).predict(rows.inputs).values()
    expected = predicting.predict(model, rows)
    real = rows.inputs["padding_mask"].astype(bool)
    np.testing.assert_allclose(lite[real], expected[real], atol=1e-3)
    saved = tf.saved_model.load(path.with_name(files["SavedModel"]["path"]))
    texts = tf.constant(task.splits.test.texts)
    (ours,) = saved.signatures["serving_default"](text=texts).values()
    np.testing.assert_allclose(ours[real], expected[real], atol=1e-3)


# Files.


def write(folder, text, parts=("train", "dev", "test")):
    folder.mkdir(exist_ok=True)
    for name in parts:
        (folder / f"{name}.conll").write_text(text, encoding="utf-8")
    return folder


GOOD = "-DOCSTART- O\n\nIn O\nNew B-LOC\nYork I-LOC\n\n\nno\tO\n"


@pytest.mark.parametrize(
    "text",
    [
        "In O\nNew B-LOC\nYork I-LOC\n\n\nno O\n",
        "-DOCSTART- O\n\nIn I O\r\nNew N B-LOC\r\nYork N I-LOC\r\n\r\nno U O",
        "In\tO\nNew\tB-LOC\nYork\tI-LOC\n\t\nno\tO\n\n\n",
        "In O\nNew I-LOC\nYork I-LOC\n\nno O\n",
    ],
    ids=["blanks", "four columns", "tabs", "IOB1"],
)
def test_conll_files(tmp_path, text):
    folder = write(tmp_path / "set", text)
    held = data.load(folder, kind=data.TagSplits)
    assert held.label_names == ["O", "B-LOC", "I-LOC"]
    assert held.train.texts == ["In New York", "no"]
    assert held.train.labels.tolist() == [[0, 1, 2], [0, -1, -1]]
    assert Preparation(data=folder).task == "tags"
    assert Preparation(data=folder / "train.conll").task == "tags"


def test_entities_of_one_type_that_touch(tmp_path):
    text = "a I-X\nb B-X\nc I-X\nd I-Y\n"
    held = data.load(write(tmp_path / "set", text), kind=data.TagSplits)
    names = np.array(held.label_names)
    expected = ["B-X", "B-X", "I-X", "B-Y"]
    assert names[held.train.labels[0]].tolist() == expected


def test_parts_that_are_missing_are_taken_from_train(tmp_path):
    lines = [f"word{i} O\nRome B-LOC\n" for i in range(60)]
    folder = write(tmp_path / "set", "\n".join(lines), ["train"])
    held = data.load(folder, kind=data.TagSplits)
    assert len(held.train) + len(held.dev) + len(held.test) == 60
    assert len(held.dev) > 0
    assert len(held.notes) == 2


WRONG = {
    "one column": (
        "In O\nNew\n",
        "last, its tag.*'New' in train.conll, line 2",
    ),
    "no tag": ("In O\nNew LOC\n", "O, B-TYPE or I-TYPE.*line 2"),
    "broken": (
        "New B-LOC\nIn O\n\nin O\nYork I-LOC\n",
        "I-LOC must follow.*after O, word 2; in train.conll, .* line 4",
    ),
    "other type": ("New B-LOC\nYork I-PER\n", "I-PER after B-LOC, word 2"),
    "blanks": ("New York\tB-LOC\n", "no blanks.*'New York'.*line 1"),
    # Where blanks stand between columns, it would be cut, its end a column.
    "another blank": (
        "of O\n10\u00a0000 B-NUM\n",
        "no blanks.*line 2",
    ),
    "nothing": ("\n\n", "must hold words"),
    "outside alone": ("a O\nb O\n", "of at least one type"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_files(tmp_path, capsys, case):
    text, message = WRONG[case]
    folder = write(tmp_path / "set", text)
    with pytest.raises(ValueError, match=message):
        data.load(folder, kind=data.TagSplits)
    output = ["--output", str(tmp_path / "run")]
    assert main(["distill", "--data", str(folder), "--smoke", *output]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_type_that_train_lacks(tmp_path):
    folder = write(tmp_path / "set", "a O\nRome B-LOC\n")
    (folder / "test.conll").write_text("a O\nAda B-PER\n")
    with pytest.raises(ValueError, match="'B-PER' in row 1 of test"):
        data.load(folder, kind=data.TagSplits)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[0.5, 0.5]], "must be integers"),
        ([0], "must be integers"),
        ([[0, -1]], "row 0, 2 words with 1 tags"),
        ([[0, 0, 0]], "2 words with 3 tags"),
        ([[0]], "2 words with 1 tags"),
        ([[0, 2]], "I-x must follow.*after O, word 2; in dev row 0"),
    ],
)
def test_refused_labels(labels, message):
    good = data.TextDataset(["a b"], [[0, 1]])
    wrong = data.TextDataset(["a b"], labels)
    with pytest.raises(ValueError, match=message):
        data.TagSplits(good, wrong, good, ["O", "B-x", "I-x"])


class TinyWords(tfds.core.GeneratorBasedBuilder):
    """Tagged words in tensorflow-datasets."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        names = ["O", "B-LOC", "I-LOC"]
        features = {
            "tokens": tfds.features.Sequence(tfds.features.Text()),
            "ner": tfds.features.Sequence(
                tfds.features.ClassLabel(names=names)
            ),
            "pos": tfds.features.Sequence(
                tfds.features.ClassLabel(names=["NN", "VB"])
            ),
        }
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features)
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for i in range(3):
            words = ["in", "New", "York", "now"][: 2 + i]
            tags = [0, 1, 2, 0][: 2 + i]
            held = {"tokens": words, "ner": tags, "pos": [0] * len(tags)}
            yield i, held


def test_tags_of_tensorflow_datasets(tmp_path):
    kind = {"kind": data.TagSplits, "data_dir": tmp_path}
    found, names, _ = load_tfds("tiny_words", **kind)
    assert sorted(found["train"]) == [
        ("in New", ("O", "B-LOC")),
        ("in New York", ("O", "B-LOC", "I-LOC")),
        ("in New York now", ("O", "B-LOC", "I-LOC", "O")),
    ]
    assert names is None
    with pytest.raises(ValueError, match="O, B-TYPE and I-TYPE.*'NN'"):
        load_tfds("tiny_words", label_features=("pos",), **kind)
    with pytest.raises(ValueError, match="a sequence of words"):
        load_tfds("tiny_words", "words", **kind)


@pytest.mark.large
@pytest.mark.parametrize(
    "command", variants.in_ci(["compare", "cache"], "cache")
)
@pytest.mark.usefixtures("eager")
def test_commands_take_them(tmp_path, command):
    texts, labels = sentences(60)
    rows = [
        "\n".join(f"{w} {t}" for w, t in zip(text.split(" "), tags))
        for text, tags in zip(texts, labels)
    ]
    folder = write(tmp_path / "set", "\n\n".join(rows) + "\n", ["train"])
    arguments = [
        command,
        *("--data", str(folder), "--smoke", "--transfer", "augment:1"),
        *("--output", str(tmp_path / "run")),
    ]
    if command == "compare":
        arguments += ["--student", "bilstm", "--seeds", "1", "--no-html"]
        arguments += ["--arms", "hard", "hidden", "hard+transfer"]
    assert main(arguments) == 0
    assert main(arguments) == 0
    if command == "cache":
        return
    report = json.loads((tmp_path / "run/report.json").read_text())
    assert report["task"]["measure"] == "entity F1"
    assert report["task"]["transfer_rows"] > 30
