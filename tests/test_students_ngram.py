"""The n-grams of a text: their hash, their mean, and what learns from them."""

import itertools

import keras
import numpy as np
import pytest

import keras_distill as kd
from keras_distill import export
from keras_distill.experiments import defaults
from keras_distill.students import _ngrams
from keras_distill.students import ngram
from keras_distill.students import text_cnn

RNG = np.random.default_rng(0)
TABLE = (50, 6)


def hashed(ids):
    """The hash of one n-gram, in Python's integers."""
    first, *others = map(int, ids)
    found = 2047 * (first % 1048573) % 1048573
    for token in others:
        found = ((found % 46337) ** 2 - found - token) % 1048573
    return found


def hashes(ids, orders):
    """What the graph computes, by order; all tokens valid."""
    found, _ = _ngrams._hashes(ids, np.ones_like(ids), orders)
    parts = np.split(np.asarray(found), len(orders), axis=1)
    length = ids.shape[1]
    return {n: part[:, : length - n + 1] for n, part in zip(orders, parts)}


def randomized(model):
    for weight in model.weights:
        weight.assign(RNG.normal(size=weight.shape))
    return model


def texts(lengths, length):
    """Ids, also where there is padding, and the mask."""
    shape = len(lengths), length
    ids = np.random.default_rng(1).integers(0, 50, shape, dtype="int32")
    mask = np.arange(length) < np.array(lengths)[:, None]
    return [ids, mask.astype("int32")]


def ngram_rows(tokens, orders, buckets):
    return [
        hashed(tokens[i : i + order]) % buckets
        for order in orders
        for i in range(len(tokens) - order + 1)
    ]


def reference(model, x, orders, buckets):
    """The logits in float64, text by text and n-gram by n-gram."""
    weight = {w.path: np.float64(w.numpy()) for w in model.weights}
    rows = []
    for ids, mask in zip(*x):
        tokens = ids[mask == 1]
        words = weight["token_embedding/embeddings"][tokens]
        for name in ("token_projection/kernel", "token_map/kernel"):
            words = words @ weight.get(name, np.eye(words.shape[1]))
        found = ngram_rows(tokens, orders, buckets)
        grams = weight["ngram_embedding/embeddings"][found]
        vector = np.concatenate([words, grams]).mean(0)
        if "hidden/kernel" in weight:
            vector = vector @ weight["hidden/kernel"] + weight["hidden/bias"]
            vector = np.maximum(vector, 0)
        rows.append(vector @ weight["logits/kernel"] + weight["logits/bias"])
    return np.array(rows)


@pytest.mark.parametrize(
    ("orders", "buckets", "options"),
    [
        ((2, 3), 64, {"width": 6}),
        ((2, 3), 1000, {"width": 4, "hidden": 5}),
        ((4, 2), 64, {"width": 8, "embedding_rank": 3}),
        ((3,), 1, {"width": 6, "embedding_rank": 3, "hidden": 5}),
    ],
)
def test_equals_the_reference(orders, buckets, options):
    model = randomized(
        ngram(3, TABLE, buckets=buckets, orders=orders, **options)
    )
    x = texts([7, 4, 3, 2, 1], 9)
    np.testing.assert_allclose(
        np.asarray(model(x)), reference(model, x, orders, buckets), atol=1e-5
    )


@pytest.mark.parametrize("length", [1, 2])
def test_a_batch_shorter_than_the_n_grams(length):
    model = randomized(ngram(3, TABLE, buckets=64, width=6))
    x = texts([length, 1], length)
    np.testing.assert_allclose(
        np.asarray(model(x)), reference(model, x, (2, 3), 64), atol=1e-5
    )


def test_a_gap_in_a_text_parts_its_n_grams():
    ids = np.array([[5, 6, 9, 7, 8]], "int32")
    mask = np.array([[1, 1, 0, 1, 1]], "int32")
    _, counted = _ngrams._hashes(ids, mask, (2, 3))
    assert np.asarray(counted).tolist() == [[1, 0, 0, 1, 0] + [0] * 5]


def test_no_integer_leaves_32_bits():
    """Ids of every size, those with the largest products among them."""
    prime, squared = _ngrams.PRIME, _ngrams.SQUARED
    edges = [0, 1, prime - 1, prime, squared - 1, 2**31 - 1]
    first = [pow(2047, -1, prime) * (squared - 1) % prime, *edges]
    ids = np.array(list(itertools.product(first, edges, edges)), "int32")
    more = RNG.integers(0, 2**31, (200, 3), dtype="int32")
    ids = np.concatenate([ids, more])
    found = hashes(ids, (2, 3))
    assert found[3][:, 0].tolist() == [hashed(row) for row in ids]
    assert found[2][:, 1].tolist() == [hashed(row[1:]) for row in ids]


def share_of_rows(found, buckets=2**16):
    """Rows in use, as a share of those that draws by chance would use."""
    by_chance = buckets * (1 - (1 - 1 / buckets) ** len(found))
    return len(np.unique(found % buckets)) / by_chance


@pytest.mark.parametrize("start", [0, 2000, 29_000, 250_000])
def test_neighbouring_ids_meet_no_more_than_others(start):
    """Common words have ids that are close to one another."""
    pairs = np.stack(np.meshgrid(*[np.arange(200, dtype="int32")] * 2), -1)
    triples = np.stack(np.meshgrid(*[np.arange(34, dtype="int32")] * 3), -1)
    two = hashes(start + pairs.reshape(-1, 2), (2,))[2].ravel()
    three = hashes(start + triples.reshape(-1, 3), (3,))[3].ravel()
    assert share_of_rows(two) > 0.95
    assert share_of_rows(three) > 0.95
    # Orders share one table, and meet there by chance alone.
    both = np.concatenate([two, three])
    assert share_of_rows(both) > 0.95


def test_the_order_of_tokens_counts():
    model = randomized(ngram(3, TABLE, buckets=4096))
    mask = np.ones((1, 3), "int32")
    one, other = (
        np.asarray(model([np.array([ids]), mask]))
        for ids in ([7, 8, 9], [9, 8, 7])
    )
    assert np.abs(one - other).max() > 1e-2


WIDE = {
    "ngram": lambda: ngram(
        3, TABLE, 3, buckets=16, width=4, hidden=8, dropout=0
    ),
    "cnn": lambda: text_cnn(3, TABLE, filters=4, dropout=0, ngram_buckets=16),
}


@pytest.mark.parametrize("student", WIDE)
def test_training_compiled_by_xla_reaches_all_weights(student):
    keras.utils.set_random_seed(0)
    model = WIDE[student]()
    before = [weight.numpy() for weight in model.trainable_weights]
    model.compile(
        keras.optimizers.SGD(1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=True,
    )
    model.train_on_batch(texts([7, 7], 8), np.array([0, 1]))
    for weight, value in zip(model.trainable_weights, before):
        assert np.abs(weight.numpy() - value).max() > 1e-7, weight.path


def test_the_wide_branch_is_the_mean_of_the_n_grams():
    model = randomized(WIDE["cnn"]())
    deep, wide = text_cnn(3, TABLE, filters=4, dropout=0), model.get_weights()
    x = texts([7, 4, 2, 1], 8)
    kernel = model.get_layer("logits").kernel.numpy()
    table = model.get_layer("ngram_embedding").embeddings.numpy()
    wide = [w for w in wide if w.shape != table.shape]
    wide[-2] = kernel[: -table.shape[1]]
    deep.set_weights(wide)
    means = np.zeros((4, table.shape[1]))
    for i, (ids, mask) in enumerate(zip(*x)):
        rows = ngram_rows(ids[mask == 1], (2, 3), 16)
        means[i] = table[rows].mean(0) if rows else 0.0
    np.testing.assert_allclose(
        np.asarray(model(x)),
        np.asarray(deep(x)) + means @ kernel[-table.shape[1] :],
        atol=1e-4,
    )


@pytest.mark.parametrize("student", WIDE)
def test_a_file_holds_stock_layers_alone(student, tmp_path):
    model = randomized(WIDE[student]())
    assert "keras_distill" not in model.to_json()
    model.save(tmp_path / "student.keras")
    again = keras.models.load_model(tmp_path / "student.keras")
    x = texts([5, 1], 6)
    np.testing.assert_array_equal(np.asarray(again(x)), np.asarray(model(x)))


@pytest.mark.parametrize("student", WIDE)
def test_half_precision(student):
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = WIDE[student]()
    finally:
        keras.config.set_dtype_policy("float32")
    assert np.isfinite(np.asarray(model(texts([5, 1], 6)))).all()


@pytest.mark.parametrize("length", ["examples", None])
@pytest.mark.parametrize("quantization", [None, "dynamic"])
def test_exports_decide_alike(quantization, length, tmp_path):
    keras.utils.set_random_seed(0)
    model = ngram(4, (50, 32), buckets=512)
    for weight in model.weights:
        weight.assign(keras.random.normal(weight.shape, seed=1))
    ids, mask = texts([8, 5, 3, 2, 1] * 8, 8)
    report = export.litert(
        model,
        tmp_path / "student.tflite",
        quantization,
        examples={"token_ids": ids, "padding_mask": mask},
        sequence_length=length,
        min_agreement=1.0,
    )
    assert report.max_difference < (0.3 if quantization else 1e-5)
    weights = sum(weight.shape.num_elements() for weight in model.weights)
    assert report.size_bytes < weights * (1 if quantization else 4) + 16_000


def test_a_saved_model_decides_alike(tmp_path):
    model = randomized(ngram(4, TABLE, buckets=64))
    ids, mask = texts([8, 5, 3, 2, 1], 8)
    examples = {"token_ids": ids, "padding_mask": mask}
    report = export.saved_model(model, tmp_path / "student", examples=examples)
    assert report.agreement == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, "num_classes=0"),
        ({"buckets": 0}, "buckets=0"),
        ({"buckets": 2**20}, "at most 1048573.*buckets=1048576"),
        ({"buckets": 2.0}, r"buckets=2\.0"),
        ({"width": 0}, "width=0"),
        ({"orders": 2}, "tuple of at least one integer.*orders=2"),
        ({"orders": ()}, r"orders=\(\)"),
        ({"orders": (1, 2)}, "at least 2.*orders=1"),
        ({"orders": (9,)}, "at most 8.*orders=9"),
        ({"orders": (2, 2)}, r"name each one once.*orders=\(2, 2\)"),
        ({"hidden": 0}, "hidden=0"),
        ({"dropout": 1.0}, r"dropout=1\.0"),
        ({"embedding_rank": 6}, "embedding_rank=6"),
    ],
    ids=str,
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        ngram(**{"num_classes": 2, "embeddings": TABLE} | arguments)


@pytest.mark.parametrize("buckets", [0, 2**20, 1.5])
def test_wrong_buckets_of_students(buckets):
    with pytest.raises(ValueError, match=f" buckets={buckets}"):
        kd.students.NGram(buckets=buckets)
    with pytest.raises(ValueError, match=f" ngram_buckets={buckets}"):
        kd.students.TextCNN(ngram_buckets=buckets)


class Slow(kd.students.Custom):
    learning_rate = 1e-4


def test_only_copied_layers_take_the_rate_of_the_teacher():
    chosen = kd.experiments.Preparation(teacher_learning_rate=3e-4)
    recipes = [kd.recipes.kd()]
    for kind in (kd.students.NGram, kd.students.TextCNN, Slow):
        found = defaults.of_student(kind, chosen, recipes)
        assert "learning_rate" not in found
    found = defaults.of_student(kd.students.Shrink, chosen, recipes)
    assert found["learning_rate"] == 3e-4
