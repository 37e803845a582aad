"""A linear model beside a student: its features, its graph, its weights."""

import dataclasses
import subprocess
import sys
import types

import keras
import keras_hub
import numpy as np
import pytest
import tiny_text
from sklearn.linear_model import LogisticRegression

import keras_distill as kd
from keras_distill import data
from keras_distill import export
from keras_distill.experiments import linear_parts
from keras_distill.experiments.linear_parts import LinearParts
from keras_distill.students import linear_part
from keras_distill.students import text_cnn
from keras_distill.tasks import TextClassification
from keras_distill.tasks.linear_heads import Classes
from keras_distill.tasks.linear_heads import Labels

VOCABULARY = 50
FEATURES = VOCABULARY + linear_part.BUCKETS
RNG = np.random.default_rng(0)


def hashed(first, second):
    """The bucket of a pair of tokens, in Python's integers."""
    found = 2047 * (first % 1048573) % 1048573
    found = ((found % 46337) ** 2 - found - second) % 1048573
    return found % linear_part.BUCKETS


def inputs(lengths, length=7):
    ids = RNG.integers(1, VOCABULARY, (len(lengths), length), dtype="int32")
    mask = np.arange(length) < np.array(lengths)[:, None]
    return {"token_ids": ids, "padding_mask": mask.astype("int32")}


def reference(x):
    """The shares, text by text and pair by pair."""
    found = np.zeros((len(x["token_ids"]), FEATURES))
    for row, (ids, mask) in enumerate(zip(x["token_ids"], x["padding_mask"])):
        tokens = ids[mask == 1].tolist()
        columns = tokens + [
            VOCABULARY + hashed(*pair) for pair in zip(tokens, tokens[1:])
        ]
        for column in columns:
            found[row, column] += 1 / len(columns)
    return found


def test_shares_of_tokens_and_pairs():
    x = inputs([7, 3, 5, 1, 2])
    x["token_ids"][0, :4] = 9, 9, 9, 9
    found = linear_part.shares(x, VOCABULARY).toarray()
    np.testing.assert_allclose(found, reference(x), atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize(
    ("length", "outputs", "expected"),
    [
        (128, 2, 2**14),
        (129, 2, 2**16),
        (129, 4, 2**16),
        (512, 8, 2**15),
        (512, 100, 2**14),
    ],
)
def test_long_texts_of_few_classes_have_more_buckets(length, outputs, expected):
    assert linear_part.buckets_for(length, outputs) == expected


def test_buckets_are_those_of_the_kernel():
    x = inputs([7, 3, 5])
    shares = linear_part.shares(x, VOCABULARY, 2**16)
    kernel = RNG.normal(size=(VOCABULARY + 2**16, 3))
    model = text_cnn(3, (VOCABULARY, 4), filters=4)
    graph = linear_part.beside(model, 1.0, kernel, np.zeros(3))
    expected = np.asarray(model(x)) + shares @ kernel
    np.testing.assert_allclose(np.asarray(graph(x)), expected, atol=2e-6)


def test_n_grams_of_characters_of_word_pieces():
    tokens = ["Good", "##good", "##ooD", "go", "##go"]
    tokenizer = data.bert_preprocessor(
        [*data.vocabulary.SPECIAL_TOKENS, *tokens]
    ).tokenizer
    found = linear_part.spelling(tokenizer, 12).toarray()
    # Of "_good" _go, goo, ood, _goo and good; ood; _go.
    assert found.shape == (12, 5)
    inner = np.array([[5, 3, 1, 1, 0], [3, 3, 1, 0, 0], [1, 1, 1, 0, 0]])
    np.testing.assert_array_equal((found @ found.T)[5:8, 5:10], inner)
    assert found.sum() == 5 + 3 + 1 + 1
    assert not found[:5].any()


def tokenizer_of_bytes():
    # Ids have a gap, and some are beyond the rows of the table.
    held = {"\u0120Goo": 1, "\u0120go": 4, "goo": 2, "g": 7, "o": 8, "go": 9}
    return keras_hub.tokenizers.BytePairTokenizer(held, merges=["g o"])


def tokenizer_of_sentence_pieces():
    tokens = ["<unk>", "\u2581goo", "goo", "go", "\u2581go"]
    return types.SimpleNamespace(
        special_tokens=["<unk>"], get_vocabulary=lambda: tokens
    )


@pytest.mark.parametrize(
    "make", [tokenizer_of_bytes, tokenizer_of_sentence_pieces]
)
def test_other_tokenizers_mark_what_begins_a_word(make):
    found = linear_part.spelling(make(), 5).toarray()
    np.testing.assert_array_equal(found.sum(axis=1), [0, 3, 1, 0, 1])
    assert found[1] @ found[2] == found[1] @ found[4] == 1
    assert found[2] @ found[4] == 0


def test_tokens_that_repeat_characters_count_them_again():
    tokenizer = data.bert_preprocessor(
        [*data.vocabulary.SPECIAL_TOKENS, "##aaaaa"]
    ).tokenizer
    found = linear_part.spelling(tokenizer, 6).toarray()
    assert sorted(found[5]) == [2, 3]


@pytest.mark.parametrize("outputs", [1, 2, 5])
@pytest.mark.parametrize("weight", [1.0, 0.25])
def test_the_graph_is_the_sum_of_both(outputs, weight):
    model = text_cnn(outputs, (VOCABULARY, 4), filters=4)
    kernel = RNG.normal(size=(FEATURES, outputs))
    bias = RNG.normal(size=outputs)
    both = linear_part.beside(model, weight, kernel, bias)
    x = inputs([7, 3, 5, 1, 2])
    expected = weight * np.asarray(model(x)) + reference(x) @ kernel + bias
    np.testing.assert_allclose(np.asarray(both(x)), expected, atol=2e-6)


def test_what_two_classes_say_is_one_number():
    one = RNG.normal(size=(FEATURES, 1))
    model = text_cnn(2, (VOCABULARY, 4), filters=4)
    both = linear_part.beside(model, 1.0, one * [-1, 1], np.zeros(2))
    added = both.count_params() - model.count_params()
    assert added == FEATURES + 2 + 2


def test_many_classes_share_columns():
    kernel = RNG.normal(size=(FEATURES, 3)) @ RNG.normal(size=(3, 60))
    kernel += 1e-3 * RNG.normal(size=kernel.shape)
    model = text_cnn(60, (VOCABULARY, 4), filters=4)
    both = linear_part.beside(model, 1.0, kernel, np.zeros(60))
    table = both.get_layer(linear_part.NAME).get_layer("ngram_embedding")
    assert table.output.shape[-1] == linear_part.WIDEST
    x = inputs([7, 3, 5])
    expected = np.asarray(model(x)) + reference(x) @ kernel
    np.testing.assert_allclose(np.asarray(both(x)), expected, atol=5e-3)


def classes_of(labels, features=4, seed=1):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(len(labels), features))
    matrix[:, 0] += labels if labels.ndim == 1 else labels[:, 0]
    return matrix


@pytest.mark.parametrize("count", [2, 3])
def test_weights_of_classes_give_their_log_odds(count):
    labels = np.arange(60) % count
    heads = Classes(count + 1)
    matrix = classes_of(labels)
    model = heads.fit(matrix, labels, 1.0)
    kernel, bias = heads.weights(model)
    np.testing.assert_allclose(
        matrix @ kernel + bias, heads.logits(model, matrix), atol=1e-5
    )
    assert heads.parameters(model) == 5 * (1 if count == 2 else count)


def test_weights_of_labels_give_their_log_odds():
    labels = np.stack([np.arange(60) % 2, np.zeros(60), np.ones(60)], axis=1)
    labels = np.append(labels, labels[:, :1], axis=1).astype("int32")
    heads, matrix = Labels(), classes_of(labels)
    model = heads.fit(matrix, labels, 1.0)
    kernel, bias = heads.weights(model)
    np.testing.assert_allclose(
        matrix @ kernel + bias, heads.logits(model, matrix), atol=1e-5
    )
    assert heads.weights(heads.fit(matrix, labels[:, 1:3], 1.0)) is None


def test_losses_of_heads():
    logits = RNG.normal(size=(6, 3))
    one, several = np.arange(6) % 3, RNG.integers(0, 2, (6, 3))
    expected = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    np.testing.assert_allclose(
        Classes(3).loss(logits, one), float(expected(one, logits)), rtol=1e-6
    )
    expected = keras.losses.BinaryCrossentropy(from_logits=True)
    np.testing.assert_allclose(
        Labels().loss(logits, several),
        float(expected(several.astype("float32"), logits)),
        rtol=1e-6,
    )


@pytest.fixture(scope="module")
def task():
    return tiny_text.task(transfer=())


def untaught(outputs=2):
    keras.utils.set_random_seed(0)
    vocabulary = len(tiny_text.VOCABULARY)
    return text_cnn(outputs, (vocabulary, 4), filters=4)


def test_a_part_knows_what_the_network_does_not(task):
    model = untaught()
    both, weight = LinearParts(task).beside(model, task.splits.train.labels)
    assert weight > 0
    dev = task.encoded["dev"]
    said = np.asarray(both(dict(dev.inputs)))
    assert (said.argmax(axis=-1) == dev.labels).all()


def spelt_alike(monkeypatch, lengths):
    """What a part counts where no train text has a word of dev."""
    monkeypatch.setattr(linear_part, "SPELT", lengths)
    words = {"train": ["brightest", "darkest"], "dev": ["brightly", "darkly"]}
    vocabulary = [*data.vocabulary.SPECIAL_TOKENS, *sum(words.values(), [])]
    part = {
        name: data.TextDataset(held * 6, np.arange(12) % 2)
        for name, held in words.items()
    }
    splits = data.TextSplits(**part, test=part["dev"], label_names=["a", "b"])
    task = TextClassification.from_texts(
        splits, data.bert_preprocessor(vocabulary, 8), name="alike"
    )
    keras.utils.set_random_seed(0)
    model = text_cnn(2, (len(vocabulary), 4), filters=4)
    return LinearParts(task).beside(model, splits.train.labels)[1]


def test_tokens_are_known_by_others_that_are_spelt_alike(monkeypatch):
    assert spelt_alike(monkeypatch, linear_part.SPELT) > 0
    assert spelt_alike(monkeypatch, ()) == 0


@pytest.fixture
def fits(monkeypatch):
    """The models that scikit-learn fits, each with its matrix."""
    found, original = [], Classes.fit

    def fit(self, matrix, labels, strength):
        found.append((original(self, matrix, labels, strength), matrix))
        return found[-1][0]

    monkeypatch.setattr(Classes, "fit", fit)
    return found


def test_the_characters_are_folded_into_the_tokens(task, fits, monkeypatch):
    """What ships says of its shares what scikit-learn does of all features."""
    train = task.encoded["train"]
    monkeypatch.setattr(linear_parts, "STRENGTHS", (5.0,))
    monkeypatch.setattr(linear_parts, "CHARACTERS", (0.5,))
    monkeypatch.setitem(task.encoded, "dev", train)
    both, weight = LinearParts(task).beside(untaught(), train.labels)
    part = both.get_layer(linear_part.NAME)
    found = np.asarray(part([train.inputs[x.name] for x in part.inputs]))
    scale = weight * both.get_layer("network").scale
    [(model, matrix)] = fits
    assert matrix.shape[1] > len(tiny_text.VOCABULARY) + linear_part.BUCKETS
    expected = Classes(2).logits(model, matrix)
    np.testing.assert_allclose(found / scale, expected, atol=1e-4)


def words_task(classes, rows):
    """A class for each word, which is one of three in a text."""
    words = [f"w{i}" for i in range(classes)]
    drawn = np.random.default_rng(0).integers(0, classes, (rows, 2))
    labels = [row % classes for row in range(rows)]
    texts = [
        f"{words[label]} {words[label]} {words[a]} {words[b]}"
        for label, (a, b) in zip(labels, drawn)
    ]
    layer = data.bert_preprocessor([*data.vocabulary.SPECIAL_TOKENS, *words], 8)
    encoded = data.encode(data.TextDataset(texts, labels), layer)
    return types.SimpleNamespace(
        preprocessor=layer,
        encoded={"train": encoded, "dev": encoded},
        linear_heads=lambda: Classes(classes),
        num_outputs=classes,
    )


def test_what_few_columns_say_is_fitted_in_them(monkeypatch):
    task = words_task(classes=12, rows=240)
    held, vocabulary = task.encoded["train"], 5 + 12
    fit = linear_parts._fits_on(task, held.labels, vocabulary)
    (kernel, bias), _ = fit(0.5, 30.0)
    table, maps = linear_part.factorize(kernel, 4)
    shares = linear_part.shares(held.inputs, vocabulary)
    nearest = shares @ (table @ maps) + bias

    monkeypatch.setattr(linear_part, "WIDEST", 4)
    fit = linear_parts._fits_on(task, held.labels, vocabulary)
    (kernel, bias), said = fit(0.5, 30.0)
    assert np.linalg.matrix_rank(kernel) == 4
    np.testing.assert_allclose(said, shares @ kernel + bias, atol=1e-4)
    loss = task.linear_heads().loss
    assert loss(said, held.labels) < 0.8 * loss(nearest, held.labels)

    model = text_cnn(12, (vocabulary, 4), filters=4)
    both = linear_part.beside(model, 1.0, kernel, bias)
    expected = np.asarray(model(held.inputs)) + said
    np.testing.assert_allclose(
        np.asarray(both(held.inputs)), expected, atol=1e-4
    )


def test_few_features_are_fitted_to_the_end():
    """In the dual they are not: that warns, which is an error here."""
    labels = np.arange(300) % 3
    matrix = classes_of(labels, features=6)
    model = Classes(3).fit(matrix, labels, 1e4)
    for label, found in enumerate(model.estimators_):
        exact = LogisticRegression(
            C=1e4, solver="liblinear", tol=1e-8, dual=False
        ).fit(matrix, labels == label)
        np.testing.assert_allclose(found.coef_, exact.coef_, atol=1e-3)


def test_fits_are_kept_for_the_same_labels(task, fits):
    labels = task.splits.train.labels
    parts, other = LinearParts(task), np.where(labels > 0, labels, -1)
    other[0] = 0
    found = [
        parts.beside(untaught(), each)[1]
        for each in (labels, other, labels, other, 1 - labels, labels)
    ]
    # The oldest of three was let go.
    assert len(fits) == 4 * 5
    assert found[0] == found[2] == found[5]
    assert found[1] == found[3] != found[0]


def test_what_ships_is_the_likeliest_sum_on_dev():
    """Some dev labels are wrong, so that the part's weight has no bound."""
    task = tiny_text.task(transfer=())
    dev = task.encoded["dev"]
    labels = np.array(dev.labels)
    labels[[3, 4, 6]] = 1 - labels[[3, 4, 6]]
    task.encoded["dev"] = dev.with_labels(labels)
    both, _ = LinearParts(task).beside(untaught(), task.splits.train.labels)
    said = np.asarray(both(dict(dev.inputs)), "float64")
    part = both.get_layer(linear_part.NAME)
    inputs = [dev.inputs[tensor.name] for tensor in part.inputs]
    own = np.asarray(part(inputs), "float64")
    least = Classes(2).loss(said, labels)
    for change in (0.1 * own, -0.1 * own):
        assert Classes(2).loss(said + change, labels) > least


def test_a_network_that_knows_all_stays_alone(task):
    model, labels = untaught(), task.splits.train.labels
    model.compile(
        keras.optimizers.Adam(0.02),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(dict(task.encoded["train"].inputs), labels, 24, 100, verbose=0)
    assert LinearParts(task).beside(model, 1 - labels) == (model, 0.0)


@pytest.mark.parametrize("right", [6, 5])
def test_what_is_likelier_may_cost_some_score(task, monkeypatch, right):
    """Of 10 rows the network has 7 right: by chance 1.4 more, or fewer."""
    dev, vocabulary = task.encoded["dev"], len(tiny_text.VOCABULARY)
    assert len(dev) == 10
    sides = np.where(np.eye(2)[dev.labels] > 0, 0.5, -0.5)

    def margins(count, gained, lost):
        held = np.where(np.arange(10) < count, gained, -lost)
        return held[:, None] * sides

    said = margins(right, 3.0, 0.5)
    rows, parts = vocabulary + linear_part.BUCKETS, LinearParts(task)
    weights = np.zeros((rows, 2), "float32"), np.zeros(2, "float32")
    monkeypatch.setattr(parts, "_fits", lambda *_: lambda *_: (weights, said))
    monkeypatch.setattr(
        linear_parts.training, "predict", lambda *_: margins(7, 0.1, 5.0)
    )
    _, weight = parts.beside(untaught(), task.splits.train.labels)
    assert (weight > 0) == (right == 6)


@pytest.mark.parametrize("strengths", [(1e-9, 30.0), (30.0, 1e-9)])
def test_the_penalty_is_the_likeliest_on_dev(task, monkeypatch, strengths):
    labels, found = task.splits.train.labels, []
    monkeypatch.setattr(linear_parts, "CHARACTERS", (1.0,))
    for chosen in (strengths, (30.0,)):
        monkeypatch.setattr(linear_parts, "STRENGTHS", chosen)
        found.append(LinearParts(task).beside(untaught(), labels)[1])
    np.testing.assert_allclose(*found)


@pytest.mark.parametrize("characters", [(0.0, 0.5, 1.0), (1.0, 0.5, 0.0)])
def test_what_characters_count_is_the_likeliest_on_dev(
    task, monkeypatch, characters
):
    monkeypatch.setattr(linear_parts, "STRENGTHS", (5.0,))
    dev, labels = task.encoded["dev"], task.splits.train.labels

    def losses(tried):
        for each in tried:
            monkeypatch.setattr(linear_parts, "CHARACTERS", each)
            both, _ = LinearParts(task).beside(untaught(), labels)
            said = np.asarray(both(dict(dev.inputs)), "float64")
            yield Classes(2).loss(said, dev.labels)

    all_of_them, *single = losses([characters, *zip(characters)])
    assert len(set(single)) == 3
    np.testing.assert_allclose(all_of_them, min(single))


def test_of_many_rows_so_many_are_read(task, monkeypatch):
    read = []

    def shares(inputs, *others):
        read.append(len(inputs["token_ids"]))
        return original(inputs, *others)

    original = linear_part.shares
    monkeypatch.setattr(linear_part, "shares", shares)
    monkeypatch.setattr(linear_parts, "MOST_ROWS", 16)
    _, weight = LinearParts(task).beside(untaught(), task.splits.train.labels)
    assert read == [16, 10]
    assert weight > 0


@pytest.mark.parametrize("labels", [[-1], [0], [1, -1]])
def test_one_class_or_none_has_no_part(task, labels):
    model = untaught()
    labels = np.resize(labels, 24).astype("int32")
    assert LinearParts(task).beside(model, labels) == (model, 0.0)


def test_a_class_without_a_label_is_left_to_the_network():
    """A part that excludes it would undo what a teacher says of it."""
    task = tiny_text.task(transfer=())
    splits = dataclasses.replace(
        task.splits, label_names=[*task.splits.label_names, "odd"]
    )
    task = TextClassification(splits, task.encoded, task.preprocessor)
    both, weight = LinearParts(task).beside(untaught(3), splits.train.labels)
    part = both.get_layer(linear_part.NAME).get_layer("logits")
    bias = np.asarray(part.bias) / (weight * both.get_layer("network").scale)
    np.testing.assert_allclose(bias[2], -np.log(25), rtol=1e-5)


def arguments(**fields):
    student = dataclasses.replace(tiny_text.SMALL, **fields)
    return kd.experiments.Cell(
        name="cell",
        title="cell",
        student_name="student",
        student=student,
        arm="hard",
        recipe=kd.recipes.hard(),
        seed=0,
        labels=None,
        role="control",
    )


@pytest.mark.parametrize(
    "fields", [{"linear_part": False}, {"quantization": "int4"}]
)
def test_cells_without_a_part(task, fields):
    assert linear_parts.of_cell(arguments(**fields), task) == {}
    assert linear_parts.of_cell(arguments(), task) == {"linear_part": True}


def test_a_run_ends_with_the_part(task, tmp_path):
    teacher = tiny_text.network()
    found = kd.distill(task, teacher, tiny_text.SMALL, tmp_path / "run")
    plain = kd.distill(
        task,
        teacher,
        dataclasses.replace(tiny_text.SMALL, linear_part=False),
        tmp_path / "plain",
        export=False,
    )
    control, other = (
        next(m for m in each["models"] if m["name"] == "control")
        for each in (found, plain)
    )
    assert control["test_score"] == [1.0]
    assert control["dev_score"] > other["dev_score"]
    assert control["parameters"] > other["parameters"]
    row, without = (each["rows"][0]["linear_parts"] for each in (found, plain))
    assert row[0] > 0
    assert without == [None]
    card = (tmp_path / "run" / "export" / "README.md").read_text()
    assert "Beside the network stands a linear model" in card


def test_labels_of_the_teacher_are_learnt_where_none_are():
    task = tiny_text.task(transfer=())
    part = task.encoded["train"]
    hidden = np.where(np.arange(24) < 20, data.UNLABELLED, part.labels)
    logits = {
        name: -9 * np.eye(2)[rows.labels] for name, rows in task.encoded.items()
    }
    signals = kd.experiments.signals.Signals(
        task, kd.experiments.Teacher(logits)
    )
    plain, further = kd.recipes.kd(), kd.recipes.kd().with_transfer()
    np.testing.assert_array_equal(signals.train_labels(plain, hidden), hidden)
    np.testing.assert_array_equal(
        signals.train_labels(further, hidden),
        np.where(np.arange(24) < 20, 1 - part.labels, part.labels),
    )


@pytest.mark.parametrize("quantization", [None, "dynamic"])
def test_files_hold_the_part(task, tmp_path, quantization):
    both, _ = LinearParts(task).beside(untaught(), task.splits.train.labels)
    rows = task.encoded["dev"].inputs
    report = export.litert(
        both,
        tmp_path / "student.tflite",
        quantization=quantization,
        examples=dict(rows),
        sequence_length=8,
    )
    assert report.agreement == 1


def test_the_file_loads_without_the_package(task, tmp_path):
    both, _ = LinearParts(task).beside(untaught(), task.splits.train.labels)
    both.save(tmp_path / "student.keras")
    rows = task.encoded["dev"].inputs
    np.savez(tmp_path / "rows.npz", said=both(dict(rows)), **rows)
    code = (
        "import sys, keras, numpy as np\n"
        "held = dict(np.load(sys.argv[2]))\n"
        "said = held.pop('said')\n"
        "model = keras.models.load_model(sys.argv[1], compile=False)\n"
        "assert abs(np.asarray(model(held)) - said).max() < 1e-6\n"
        "assert 'keras_distill' not in sys.modules\n"
    )
    files = [str(tmp_path / name) for name in ("student.keras", "rows.npz")]
    subprocess.run([sys.executable, "-c", code, *files], check=True)
