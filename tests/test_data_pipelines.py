"""Vocabulary, token arrays, and the batches that are made of them."""

import collections
import itertools

import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from keras_distill import _pairs
from keras_distill import data
from keras_distill.data.vocabulary import SPECIAL_TOKENS
from keras_distill.data.vocabulary import character_pieces
from keras_distill.data.vocabulary import count_words

WORDS = ["red", "green", "blue", "dark", "light"]
VOCABULARY = [*SPECIAL_TOKENS, *WORDS]
KEYS = ("token_ids", "segment_ids", "padding_mask")


def sentence(length, row):
    return " ".join(WORDS[(row + i) % 5] for i in range(length))


@pytest.fixture(scope="module")
def texts():
    """Row `i` has `i % 10` words; every third row has a label."""
    labels = [i % 2 if i % 3 == 0 else -1 for i in range(50)]
    return data.TextDataset(
        [sentence(1 + i % 10, i) for i in range(50)], labels
    )


@pytest.fixture(scope="module")
def encoded(texts):
    return data.encode(texts, data.bert_preprocessor(VOCABULARY, 16))


def ids(dataset):
    return [np.array(x["token_ids"]).tolist() for x, _ in dataset]


def row_set(dataset):
    """Each row without its padding, so that cuts do not matter."""
    return sorted(
        (*[i for i in row if i], int(label))
        for x, y in dataset
        for row, label in zip(x["token_ids"].numpy().tolist(), y)
    )


def test_encode_equals_the_preprocessor(texts, encoded):
    expected = data.bert_preprocessor(VOCABULARY, 16)(texts.texts)
    assert len(encoded) == 50
    assert encoded.width == 16
    for key in KEYS:
        assert encoded.inputs[key].dtype == "int32"
        np.testing.assert_array_equal(encoded.inputs[key], expected[key])
    np.testing.assert_array_equal(encoded.labels, texts.labels)
    assert encoded.lengths[:4].tolist() == [3, 4, 5, 6]


@pytest.fixture
def in_graphs(monkeypatch):
    """Whether each call of a preprocessor was traced, in chunks of 7 rows."""
    seen, preprocess = [], _pairs.preprocess

    def recorded(*arguments):
        seen.append(tf.inside_function())
        return preprocess(*arguments)

    monkeypatch.setattr("keras_distill.data.pipelines.CHUNK", 7)
    monkeypatch.setattr(_pairs, "preprocess", recorded)
    return seen


def test_many_texts_of_word_pieces_are_encoded_in_a_graph(
    texts, encoded, in_graphs
):
    layer = data.bert_preprocessor(VOCABULARY, 16)
    chunked = data.encode(texts, layer)
    assert set(in_graphs) == {True}
    for key in KEYS:
        np.testing.assert_array_equal(chunked.inputs[key], encoded.inputs[key])
    few = data.encode(texts.take(range(7)), layer)
    assert in_graphs[-1] is False
    for key in KEYS:
        np.testing.assert_array_equal(few.inputs[key], encoded.inputs[key][:7])


def test_many_pairs_are_encoded_in_a_graph(texts, in_graphs):
    sides = texts.texts, texts.texts[::-1]
    layer = data.bert_preprocessor(VOCABULARY, 16)
    pairs = data.TextDataset(list(zip(*sides)), texts.labels)
    found = data.encode(pairs, layer).inputs
    assert set(in_graphs) == {True}
    for key, expected in layer(x=sides).items():
        np.testing.assert_array_equal(found[key], expected)


def test_other_pieces_are_encoded_in_chunks(texts, encoded, in_graphs):
    def layer(parts):
        return data.bert_preprocessor(VOCABULARY, 16)(parts)

    chunked = data.encode(texts, layer)
    assert in_graphs == [False] * 8
    for key in KEYS:
        np.testing.assert_array_equal(chunked.inputs[key], encoded.inputs[key])


def test_encode_without_segments(texts):
    tokenizer = keras_hub.models.DistilBertTokenizer(VOCABULARY)
    layer = keras_hub.models.DistilBertTextClassifierPreprocessor(
        tokenizer, sequence_length=16
    )
    encoded = data.encode(texts, layer)
    assert set(encoded.inputs) == {"token_ids", "padding_mask"}
    assert len(list(data.batches(encoded, 50))) == 1


def test_encode_where_encoders_find_the_mask_themselves(texts, encoded):
    layer = keras_hub.models.RoformerV2TextClassifierPreprocessor(
        keras_hub.models.RoformerV2Tokenizer(VOCABULARY, lowercase=True),
        sequence_length=16,
    )
    assert "padding_mask" not in layer(texts.texts)
    found = data.encode(texts, layer)
    for key in KEYS:
        np.testing.assert_array_equal(found.inputs[key], encoded.inputs[key])
    np.testing.assert_array_equal(found.lengths, encoded.lengths)


def test_plain_batches_keep_the_order(encoded):
    dataset = data.batches(encoded, 8)
    assert dataset.element_spec[0]["token_ids"].shape == (None, 16)
    assert int(dataset.cardinality()) == 7
    np.testing.assert_array_equal(
        np.concatenate(ids(dataset)), encoded.inputs["token_ids"]
    )
    labels = np.concatenate([y for _, y in dataset])
    np.testing.assert_array_equal(labels, encoded.labels)


def test_drop_remainder(encoded):
    dataset = data.batches(encoded, 8, drop_remainder=True)
    assert dataset.element_spec[0]["token_ids"].shape == (8, 16)
    assert int(dataset.cardinality()) == len(list(dataset)) == 6


def test_shuffle(encoded):
    dataset = data.batches(encoded, 8, shuffle=True, seed=3)
    first, second = ids(dataset), ids(dataset)
    assert first != second
    twin = data.batches(encoded, 8, shuffle=True, seed=3)
    assert [ids(twin), ids(twin)] == [first, second]
    assert ids(data.batches(encoded, 8, shuffle=True, seed=4)) != first
    assert row_set(dataset) == row_set(data.batches(encoded, 50))


@pytest.mark.parametrize("drop_remainder", [False, True])
@pytest.mark.parametrize(("shuffle", "size"), [(False, 5), (True, 8)])
def test_buckets(encoded, shuffle, size, drop_remainder):
    dataset = data.batches(
        encoded,
        size,
        shuffle=shuffle,
        lengths=(5, 9, 12),
        drop_remainder=drop_remainder,
    )
    found = list(dataset)
    assert int(dataset.cardinality()) == len(found)
    assert {x["token_ids"].shape[1] for x, _ in found} == {5, 9, 12}
    for x, y in found:
        length = x["token_ids"].shape[1]
        longest = x["padding_mask"].numpy().sum(1)
        shorter = {5: 0, 9: 5, 12: 9}[length]
        assert (longest > shorter).all()
        assert (longest <= length).all()
        assert all(x[key].shape == (len(y), length) for key in KEYS)
        assert len(y) == size or not drop_remainder
    if not drop_remainder:
        assert row_set(found) == row_set(data.batches(encoded, 50))


def test_one_length_is_static(encoded):
    dataset = data.batches(encoded, 8, lengths=[12])
    assert dataset.element_spec[0]["token_ids"].shape == (None, 12)
    assert row_set(dataset) == row_set(data.batches(encoded, 50))


def test_labelled_rows_in_every_batch(encoded):
    dataset = data.batches(encoded, 8, shuffle=True, labelled_per_batch=5)
    found = list(dataset)
    assert int(dataset.cardinality()) == len(found) == 11
    for _, y in found:
        assert (y.numpy()[:5] >= 0).all()
        assert (y.numpy()[5:] == -1).all()
    unlabelled = [row for row in row_set(found) if row[-1] == -1]
    whole = row_set(data.batches(encoded, 50))
    assert unlabelled == [row for row in whole if row[-1] == -1]
    labelled = [row for row in row_set(found) if row[-1] != -1]
    assert set(labelled) == {row for row in whole if row[-1] != -1}
    twin = data.batches(encoded, 8, shuffle=True, labelled_per_batch=5)
    assert ids(twin) == ids([(x, y) for x, y in found])
    assert ids(dataset) != ids(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "Received: batch_size=0"),
        ({"lengths": []}, r"lengths=\[\]"),
        ({"lengths": [12, 9]}, r"must increase.*lengths=\[12, 9\]"),
        ({"lengths": [0, 12]}, r"lengths=\[0, 12\]"),
        ({"lengths": [5, 11]}, r"longest row \(12\).*lengths=\[5, 11\]"),
        ({"lengths": [17]}, r"full width \(16\).*lengths=\[17\]"),
        ({"labelled_per_batch": 0}, "labelled_per_batch=0, batch_size=8"),
        ({"labelled_per_batch": 8}, "labelled_per_batch=8, batch_size=8"),
        ({"labelled_per_batch": 2, "lengths": [12]}, "cannot be combined"),
    ],
)
def test_messages(encoded, arguments, message):
    with pytest.raises(ValueError, match=message):
        data.batches(encoded, **{"batch_size": 8, **arguments})


def test_mixing_needs_both_kinds(texts):
    layer = data.bert_preprocessor(VOCABULARY, 16)
    for rows in (texts.labels >= 0, texts.labels < 0):
        part = data.encode(texts.take(np.flatnonzero(rows)), layer)
        with pytest.raises(ValueError, match="rows with and without labels"):
            data.batches(part, 8, labelled_per_batch=2)


def test_vocabulary_is_trained_on_the_texts():
    words = ["Return", "returns", "shapes", "shape"]
    texts = [" ".join(pair) for pair in itertools.product(words, repeat=2)]
    vocabulary = data.train_vocabulary(texts * 4, 60)
    assert vocabulary[:5] == list(SPECIAL_TOKENS)
    assert len(vocabulary) == len(set(vocabulary)) <= 60
    assert {"shape", "return"} <= set(vocabulary)
    assert not [t for t in vocabulary[5:] if t != t.lower()]
    assert data.train_vocabulary(texts * 4, 60) == vocabulary


@pytest.mark.parametrize(("rows", "is_known"), [(60, True), (20_000, False)])
def test_words_that_occur_twice_are_pieces_of_few_texts(rows, is_known):
    texts = ["a plain one"] * (rows - 2) + ["quixotic", "a quixotic one"]
    vocabulary = data.train_vocabulary(texts, 200)
    assert ("quixotic" in vocabulary) is is_known
    assert "plain" in vocabulary


def test_words_of_a_vocabulary_occur_so_often():
    texts = ["a plain one"] * 60 + ["a quixotic one"] * 4
    found = [data.train_vocabulary(texts, 200, count) for count in (2, 4, 6)]
    assert ["quixotic" in words for words in found] == [True, True, False]
    with pytest.raises(ValueError, match="`min_count` .* at least 1"):
        data.train_vocabulary(texts, 200, 0)


def test_names_are_spelt():
    names = ["Anna", "Hanna", "Hans", "Johanna", "John", "Joan", "Ann Lee"]
    letters = [*SPECIAL_TOKENS, *character_pieces(count_words(names))]
    assert set(data.train_vocabulary(names)) == set(letters)
    for texts, count in (
        (names, 2),  # Pieces, as they are asked for.
        (names * 2, None),  # Those that repeat are known as they are.
        ([f"{name} hanna" for name in names], None),
        ([name + "x" * 20 for name in names], None),
    ):
        found = data.train_vocabulary(texts, min_count=count)
        assert max(len(piece.strip("#")) for piece in found[5:]) > 1


def characters(first, count):
    """Texts of all of so many characters, the first ones more often."""
    rng = np.random.default_rng(0)
    every = [chr(first + i) for i in range(count)]
    rows = [rng.permutation(every[: count // (1 + i % 4)]) for i in range(8)]
    return ["".join(row[i : i + 30]) for row in rows for i in range(0, 600, 30)]


def unknown(texts, vocabulary):
    """Share of the tokens that the vocabulary lacks."""
    encoded = data.encode(
        data.TextDataset(texts, [0] * len(texts)),
        data.bert_preprocessor(vocabulary, 64),
    )
    ids = encoded.inputs["token_ids"]
    return (ids == 1).sum() / (ids > 3).sum()


def test_vocabulary_holds_the_characters_of_every_script():
    # More than the trainer's thousand, each fewer times than its ten.
    chinese = characters(0x4E00, 1500)
    vocabulary = data.train_vocabulary(chinese)
    assert unknown(chinese, vocabulary) < 0.001
    assert not [piece for piece in vocabulary if piece.startswith("##")]
    mixed = [
        "とても良いホテル",
        "الفيلم جيد جدا",
        "good😀 film 👍🏽 ❤️",
        "Ärger ＦＵＬＬ café",
    ]
    vocabulary = data.train_vocabulary(mixed)
    assert unknown(mixed, vocabulary) == 0
    assert {*"と良い❤ä", "##て", "##😀", "##é"} <= set(vocabulary)
    pieces = set(character_pieces(count_words(mixed)))
    assert not {"##良", "##と", "##ä", "é", "\ufe0f", "F"} & pieces


def test_characters_are_frequent_ones_within_the_limit():
    chinese = characters(0x4E00, 400)
    counts = collections.Counter("".join(chinese))
    vocabulary = data.train_vocabulary(chinese, 105)
    assert len(vocabulary) == 105
    assert vocabulary[:5] == list(SPECIAL_TOKENS)
    fewest = min(counts[piece] for piece in vocabulary[5:])
    others = set(counts) - set(vocabulary)
    assert fewest >= max(counts[character] for character in others)
    assert "é" in character_pieces({"the": 200, "film": 200, "é": 1})
    assert "é" not in character_pieces({"the": 400, "film": 400, "é": 1})


def test_vocabulary_file_gives_the_same_tokens(tmp_path):
    data.write_vocabulary([*VOCABULARY, "é"], tmp_path / "vocab.txt")
    text = ["Dark RED unknown é"]
    one = data.bert_preprocessor([*VOCABULARY, "é"], 8)(text)["token_ids"]
    two = data.bert_preprocessor(tmp_path / "vocab.txt", 8)(text)["token_ids"]
    np.testing.assert_array_equal(one, two)
    assert np.array(one)[0].tolist() == [2, 8, 5, 1, 10, 3, 0, 0]


def test_vocabulary_messages():
    with pytest.raises(ValueError, match=r"Received: len\(texts\)=0"):
        data.train_vocabulary([])
    with pytest.raises(ValueError, match=r"with words .* len\(texts\)=1"):
        data.train_vocabulary(["\u200b"])
    with pytest.raises(ValueError, match="vocabulary_size=5"):
        data.train_vocabulary(["a"], 5)


def test_special_tokens_are_read_where_they_are_meant():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = [*words, "good", "film", "mask", "[", "]"]
    preprocessor = data.bert_preprocessor(vocabulary, 8)
    texts = data.TextDataset(["Good [MASK] film", "good mask"], [0, 1])
    split, whole = (
        data.encode(texts, preprocessor, special_tokens=special)
        for special in (False, True)
    )
    assert split.inputs["token_ids"][0].tolist() == [2, 5, 8, 7, 9, 6, 3, 0]
    assert whole.inputs["token_ids"][0].tolist() == [2, 5, 4, 6, 3, 0, 0, 0]
    assert whole.inputs["token_ids"][1].tolist()[:4] == [2, 5, 7, 3]
    assert preprocessor.tokenizer.special_tokens_in_strings is False
