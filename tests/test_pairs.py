"""Pairs of texts: read, packed, varied, encoded one by one, exported."""

import json

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
import tensorflow_text  # noqa: F401 - Operations of exported tokenizers.
import tiny_text
import variants
from sklearn.feature_extraction.text import TfidfVectorizer
from tiny_text import END
from tiny_text import START
from tiny_text import pair_row as row

import keras_distill as kd
from keras_distill import data
from keras_distill import students
from keras_distill.augment import transfer_set
from keras_distill.cli import main
from keras_distill.data.tfds_source import load_tfds
from keras_distill.export.latency import LiteRTModel
from keras_distill.tasks import linear

WORDS = tiny_text.VOCABULARY
SIDES = ["fine", "great", "nice", "lovely", "awful", "poor", "dull", "sad"]
COLUMNS = ["--text-column", "one", "--text-pair-column", "two"]


def pairs(rows, seed=0):
    """Pairs whose texts are the same, or are not; and which."""
    rng = np.random.default_rng(seed)
    held, labels = [], np.arange(rows) % 2
    for label in labels:
        first = list(rng.choice(SIDES, 2, replace=False))
        second = first[::-1] if label else list(rng.choice(SIDES, 2))
        held.append((" ".join(first), " ".join(second)))
    return held, labels


def part(rows, seed):
    return data.TextDataset(*pairs(rows, seed))


@pytest.fixture(scope="module")
def task():
    splits = data.TextSplits(
        part(24, 0), part(10, 1), part(12, 2), ["other", "same"]
    )
    return kd.tasks.PairClassification.from_texts(
        splits, data.bert_preprocessor(WORDS, 8), transfer=pairs(4, 3)[0]
    )


def write(folder, sizes=(("train", 24), ("dev", 10), ("test", 12))):
    folder.mkdir()
    for seed, (name, rows) in enumerate(sizes):
        lines = [
            f"{one}\t{two}\t{label}" for (one, two), label in zip(*pairs(rows))
        ]
        text = "\n".join(["one\ttwo\tlabel", *lines]) + "\n"
        (folder / f"{name}.tsv").write_text(text.replace("fine", f"fine{seed}"))
    return folder


def test_pairs_of_a_table(tmp_path):
    splits = data.load(write(tmp_path / "set"), "one", "label", "two")
    assert splits.train.texts[:2] == [
        tuple(text.replace("fine", "fine0") for text in pair)
        for pair in pairs(24)[0][:2]
    ]
    assert splits.label_names == ["0", "1"]
    one = data.load(tmp_path / "set", "one").train.texts
    assert one == [first for first, _ in splits.train.texts]


def test_missing_parts_go_by_both_texts(tmp_path):
    rows = [f"same {i % 3}\tother {i}\t{i % 2}" for i in range(200)]
    path = tmp_path / "all.tsv"
    path.write_text("\n".join(["one\ttwo\tlabel", *rows]) + "\n")
    splits = data.load(path, "one", "label", "two")
    assert 5 < len(splits.dev) < 40
    first = {text for text, _ in splits.train.texts}
    assert first == {text for text, _ in splits.test.texts}


@pytest.mark.parametrize("empty", ["one", "two"])
def test_no_side_may_be_empty(tmp_path, empty):
    row = {"one": "a", "two": "b", empty: " "}
    path = tmp_path / "all.tsv"
    path.write_text(f"one\ttwo\tlabel\na\tb\t1\n{row['one']}\t{row['two']}\t0")
    with pytest.raises(ValueError, match=r"empty text in all\.tsv, line 3"):
        data.load(path, "one", "label", "two")


def test_restored_pairs_are_pairs():
    held = data.TextDataset(json.loads(json.dumps(pairs(4)[0])), [0, 1, 0, 1])
    assert held.texts == pairs(4)[0]
    assert held.take([1]).texts == pairs(4)[0][1:2]


def test_a_row_holds_both_texts(task):
    packer = keras_hub.layers.MultiSegmentPacker(
        8, start_value=START, end_value=END
    )
    ids = [[WORDS.index(w) for w in text.split()] for text in pairs(24)[0][3]]
    expected, segments = packer(tuple(tf.constant([side]) for side in ids))
    inputs = task.encoded["train"].inputs
    np.testing.assert_array_equal(inputs["token_ids"][3], expected[0])
    np.testing.assert_array_equal(inputs["segment_ids"][3], segments[0])
    assert len(task.encoded["transfer"]) == 4


def test_families_part_the_texts_as_they_were_trained():
    """RoBERTa has two separators between them, and no segments."""
    splits = data.TextSplits(
        part(24, 0), part(10, 1), part(12, 2), ["other", "same"]
    )
    layer = tiny_text.roberta("abcdefghijklmnopqrstuvwxyz", 32)
    inputs = (
        kd.tasks.PairClassification.from_texts(splits, layer)
        .encoded["train"]
        .inputs
    )
    assert sorted(inputs) == ["padding_mask", "token_ids"]
    for ids, sides in zip(inputs["token_ids"], pairs(24)[0]):
        tokens = [layer.tokenizer.id_to_token(int(i)) for i in ids]
        said = "".join(t for t in tokens if t not in {"<s>", "</s>", "<pad>"})
        assert said.replace("Ġ", " ") == "".join(sides)
        ends = [i for i, token in enumerate(tokens) if token == "</s>"]
        assert tokens[0] == "<s>"
        assert ends[1] == ends[0] + 1
        assert ends[2] == tokens.index("<pad>") - 1


def test_variations_change_one_side_or_mix_the_pairs():
    held = [(f"{a} one two three", f"four five six {a}") for a in SIDES]
    dev = [(held[0][0], held[1][1])]
    made = transfer_set(held, times=40, exclude=(dev,))
    assert made == transfer_set(held, times=40, exclude=(dev,))
    firsts, seconds = map(set, zip(*held))
    kinds = {(a in firsts, b in seconds) for a, b in made}
    assert kinds == {(True, False), (False, True), (True, True)}
    assert not set(made) & {*held, *dev}
    assert len(set(made)) == len(made)


def test_keys_tell_sides_apart():
    key = kd.augment.text_key
    assert key(("A b.", "c")) == key(("a  b", "C"))
    assert (
        len({key(t) for t in [("a", "b"), ("b", "a"), "a b", ("a b", "")]}) == 4
    )


@pytest.mark.parametrize(
    "texts", [[("a", 1)], [("a", "b", "c")], [["a", "b"]]], ids=str
)
def test_what_is_no_pair_is_refused(texts):
    with pytest.raises(ValueError, match="or of pairs of strings"):
        transfer_set(texts, times=1)


def kinds():
    table = (len(WORDS), 6)
    return {
        "text_cnn": students.text_cnn(2, table, filters=3, ngram_buckets=8),
        "bilstm": students.bilstm(2, table, units=3),
        "ngram": students.ngram(2, table, buckets=8, width=6),
    }


def alone(model, ids):
    """What the last layer of a student reads of one text."""
    encoder = keras.Model(model.inputs, model.get_layer("dropout").input)
    ids = np.array([ids])
    return np.asarray(encoder([ids, np.ones_like(ids)]))[0].astype("float64")


def matched(student, ids, others):
    """How well each token of a text is matched, as 8 weighted means."""
    table, turn, kernel, bias = [
        np.asarray(weight, "float64")
        for layer in (
            student.get_layer("encoder").get_layer("token_embedding"),
            student.get_layer("match"),
            student.get_layer("importance"),
        )
        for weight in layer.weights
    ]
    best, scores = [], []
    for token in ids:
        cosines = []
        for other in others:
            a, b = table[token] @ turn, table[other] @ turn
            cosines.append(a @ b / np.sqrt(a @ a) / np.sqrt(b @ b))
        best.append(max(cosines))
        scores.append(table[token] @ kernel + bias)
    shares = np.exp(scores) / np.exp(scores).sum(axis=0)
    return np.array(best) @ shares


@pytest.mark.parametrize("kind", ["text_cnn", "bilstm", "ngram"])
@pytest.mark.parametrize("separators", [1, 2])
def test_a_siamese_student_compares_what_it_reads_one_by_one(kind, separators):
    model = kinds()[kind]
    student = students.siamese(model, (START, END))
    first, second = [9, 5, 7], [8, 9, 6, 6]
    random = np.random.default_rng(0)
    for name in ("token_embedding", "importance", "matched", "logits"):
        encoder = student.get_layer("encoder")
        own = encoder if name == "token_embedding" else student
        layer = own.get_layer(name)
        layer.set_weights([random.normal(size=w.shape) for w in layer.weights])
    u, v = alone(model, first), alone(model, second)
    means = np.concatenate(
        [matched(student, first, second), matched(student, second, first)]
    )
    kernel, bias = map(np.asarray, student.get_layer("matched").weights)
    weights, last_bias = map(np.asarray, student.get_layer("logits").weights)
    read = np.concatenate(
        [u, v, np.abs(u - v), u * v, means]
        + [np.maximum(means @ kernel + bias, 0)]
    )
    expected = read @ weights + last_bias
    for length in (10, 14):
        rows = row(first, second, separators, length)
        np.testing.assert_allclose(
            np.asarray(student(rows))[0], expected, atol=1e-5
        )


@pytest.mark.parametrize(
    "texts", [([], [5, 7]), ([5, 7], []), ([], [])], ids=str
)
def test_a_text_without_tokens_is_matched_by_nothing(texts):
    student = students.siamese(kinds()["text_cnn"], (START, END))
    found = student(row(*texts, separators=1))
    assert np.isfinite(found).all()


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_a_token_of_zeros_is_matched_by_nothing_in_half_precision(dtype):
    model = students.text_cnn(3, (20, 6), filters=4, dtype=dtype)
    table = model.get_layer("token_embedding").embeddings
    table.assign(keras.ops.where(np.arange(20)[:, None] == 5, 0.0, table))
    student = students.siamese(model, (START, END))
    rows = row([9, 5, 7], [8, 9, 6, 6], separators=1)
    assert np.isfinite(np.asarray(student(rows), "float32")).all()


def test_both_texts_train_one_set_of_weights():
    model = kinds()["text_cnn"]
    student = students.siamese(model, (START, END))
    own = {id(w) for w in model.weights[:-2]}
    assert own < {id(w) for w in student.weights}
    matches = 1 + 2 + 2  # match, importance, matched
    assert len(student.weights) == len(model.weights) + matches
    assert student.get_layer("dropout").rate == 0.5


@pytest.mark.parametrize("kind", ["text_cnn", "bilstm", "ngram"])
def test_small_students_of_the_task_are_siamese(task, kind):
    student = kd._kinds.load(kd._kinds.STUDENTS[kind])(width=4)
    model = student.build(task, None)
    swapped = row([9, 5], [7], 1), row([7], [9, 5], 1)
    results = [np.asarray(model(rows)) for rows in swapped]
    assert np.abs(results[0] - results[1]).max() > 1e-6
    encoder = model.get_layer("encoder")
    assert encoder.count_params() > 0


def test_the_linear_model_reads_what_texts_share():
    held, _ = pairs(12)
    features = linear.PairFeatures(TfidfVectorizer())
    found = features.fit_transform(held).toarray()
    plain = TfidfVectorizer().fit([text for pair in held for text in pair])
    a, b = (plain.transform(side).toarray() for side in zip(*held))
    cosine = np.sum(a * b, axis=1, keepdims=True)
    expected = np.concatenate([a, b, np.abs(a - b), a * b, cosine], axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_the_linear_model_tells_pairs_apart(task):
    rows, labels = pairs(200, 5)
    model = linear.fit(
        rows,
        np.asarray(labels),
        rows,
        lambda logits: float((logits.argmax(-1) == labels).mean()),
        linear.Classes(2),
    )
    assert (model.logits(rows).argmax(-1) == labels).mean() > 0.95
    columns = model.model.estimators_[0].coef_.size
    facts = model.scored(rows[:2], rows[:2]).facts
    assert facts["parameters"] == columns + 1
    assert task.linear_model(task.labels(None, 0)).facts["size_bytes"] > 0


@pytest.mark.large
def test_a_saved_model_takes_two_strings(task, tmp_path):
    model = students.TextCNN(width=4).build(task, None)
    report = kd.export.saved_model(
        model,
        tmp_path / "student",
        task.preprocessor,
        examples=task.raw_examples(5),
    )
    assert report.agreement == 1.0
    loaded = tf.saved_model.load(tmp_path / "student")
    serve = loaded.signatures["serving_default"]
    first, second = zip(*task.splits.dev.texts[:5])
    found = serve(text=tf.constant(first), text_pair=tf.constant(second))
    np.testing.assert_allclose(
        found["logits"], model(task.examples(5)), atol=1e-5
    )


@pytest.mark.large
@pytest.mark.parametrize(
    "kind", variants.in_ci(["text_cnn", "ngram"], "text_cnn")
)
@pytest.mark.parametrize("quantization", [None, "dynamic"])
def test_litert_files_of_siamese_students(task, tmp_path, kind, quantization):
    student = students.siamese(kinds()[kind], (START, END))
    rows = task.encoded["train"].inputs
    path = tmp_path / "student.tflite"
    kd.export.litert(
        student, path, quantization, examples=rows, min_agreement=0
    )
    found = LiteRTModel(path).predict(rows)["logits"]
    bound = 1e-4 if quantization is None else 0.05
    expected = student.predict(rows, verbose=0)
    np.testing.assert_allclose(found, expected, atol=bound)


@pytest.mark.large
def test_an_int8_file_still_weighs_tokens(task, tmp_path):
    student = students.siamese(kinds()["text_cnn"], (START, END))
    random = np.random.default_rng(0)
    for layer in (
        student.get_layer("encoder").get_layer("token_embedding"),
        student.get_layer("importance"),
    ):
        layer.set_weights([random.normal(size=w.shape) for w in layer.weights])
    means = keras.Model(student.inputs, student.get_layer("matched").input)
    rows = task.encoded["train"].inputs
    path = tmp_path / "student.tflite"
    kd.export.litert(
        means, path, "int8", examples=rows, calibration=rows, min_agreement=0
    )
    (found,) = LiteRTModel(path).predict(rows).values()
    # Without the weights all means of a text are one.
    expected = means.predict(rows, verbose=0)
    assert expected.std(axis=1).mean() > 0.1
    np.testing.assert_allclose(found, expected, atol=0.15)


REFUSED = {
    "one column": (
        ["--text-column", "one", "--task", "pairs"],
        "belong together",
    ),
    "one task": ([*COLUMNS, "--task", "text"], "belong together"),
    "docstrings": (
        ["--data", "docstrings", "--text-pair-column", "two"],
        "has no columns",
    ),
    "no such column": (
        ["--text-column", "one", "--text-pair-column", "three"],
        "exactly one column 'three'",
    ),
    "states": (
        [*COLUMNS, "--student", "bilstm", "--method", "hidden"],
        "reads the two texts of a pair one by one",
    ),
    "lines of text": (
        [*COLUMNS, "--unlabelled", "more.txt"],
        "must be a table",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_before_training(tmp_path, monkeypatch, capsys, case):
    options, message = REFUSED[case]
    write(tmp_path / "set")
    (tmp_path / "more.txt").write_text("a text\n")
    monkeypatch.chdir(tmp_path)
    arguments = ["distill", "--data", "set", "--smoke", "--output", "run"]
    assert main([*arguments, *options]) == 2
    told = capsys.readouterr()
    assert message in " ".join((told.out + told.err).split())


@pytest.mark.large
@pytest.mark.parametrize(
    "command",
    variants.in_ci(["distill", "compare", "cache"], "cache"),
)
@pytest.mark.usefixtures("eager")
def test_commands_take_pairs(tmp_path, command):
    source = write(tmp_path / "set")
    (tmp_path / "more.tsv").write_text("one\ttwo\nfine\tsad\ndull dull\tnice\n")
    options = ["--unlabelled", str(tmp_path / "more.tsv")]
    if command == "compare":
        options += ["--student", "ngram", "shrink", "--arms", "hard", "kd"]
        options += ["--seeds", "1", "--no-html"]
    arguments = [
        command,
        *("--data", str(source)),
        *COLUMNS,
        "--smoke",
        *("--output", str(tmp_path / "run")),
        *options,
    ]
    assert main(arguments) == 0
    assert main(arguments) == 0
    texts = json.loads((tmp_path / "run/data/transfer_texts.json").read_text())
    assert texts == [["fine", "sad"], ["dull dull", "nice"]]
    if command == "cache":
        return
    report = json.loads((tmp_path / "run/report.json").read_text())
    names = {model["name"] for model in report["models"]}
    assert {"linear", "teacher"} <= names
    card = next((tmp_path / "run/export").rglob("README.md")).read_text()
    assert "A model of pairs" in card
    assert '"text_pair"' in card


class TinyPairs(tfds.core.GeneratorBasedBuilder):
    """A set of pairs in tensorflow-datasets."""

    VERSION = tfds.core.Version("1.0.0")

    def _info(self):
        features = {
            "one": tfds.features.Text(),
            "two": tfds.features.Text(),
            "label": tfds.features.ClassLabel(names=["other", "same"]),
        }
        return tfds.core.DatasetInfo(
            builder=self, features=tfds.features.FeaturesDict(features)
        )

    def _split_generators(self, dl_manager):
        return {"train": self._generate_examples()}

    def _generate_examples(self):
        for i, ((one, two), label) in enumerate(zip(*pairs(6))):
            yield i, {"one": one, "two": two, "label": int(label)}


def test_pairs_of_tensorflow_datasets(tmp_path):
    rows, names, _ = load_tfds(
        "tiny_pairs", "one", ("label",), "two", data_dir=tmp_path
    )
    texts, labels = zip(*sorted(rows["train"]))
    expected = sorted(zip(pairs(6)[0], ["other", "same"] * 3))
    assert list(zip(texts, labels)) == expected
    assert names == ["other", "same"]
    with pytest.raises(ValueError, match=r"`text_pair_column` must name one"):
        load_tfds("tiny_pairs", "one", ("label",), "label", data_dir=tmp_path)
