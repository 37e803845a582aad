"""Transfer sets: what the methods do, that they repeat, what is refused."""

import collections
import os
import random
import subprocess
import sys

import keras
import keras_hub
import numpy as np
import pytest
import tensorflow as tf

from keras_distill import _scripts
from keras_distill import augment
from keras_distill.data import TextDataset
from keras_distill.data import bert_preprocessor
from keras_distill.data import encode

ADJECTIVES = ["good", "bad", "slow", "long", "fine", "dull"]
NOUNS = ["film", "story", "plot", "scene", "joke"]
TRAIN = [f"the {a} {n} ends here ." for a in ADJECTIVES for n in NOUNS]
WORDS = [f"w{i}" for i in range(2000)]


def rng(seed=0):
    return random.Random(seed)


def share(method, changed):
    """How many of 2000 words count as changed, from 0 to 1."""
    return sum(map(changed, WORDS, method(WORDS, rng()))) / len(WORDS)


def test_masking_and_deletion_have_their_probability():
    mask = augment.Masking(0.1, "<mask>")
    assert share(mask, lambda a, b: b == "<mask>") == pytest.approx(
        0.1, abs=0.02
    )
    left = augment.Deletion(0.3)(WORDS, rng())
    assert len(left) == pytest.approx(1400, abs=80)
    assert left == sorted(left, key=WORDS.index)
    assert len(augment.Deletion(1.0)(WORDS, rng())) == 1
    assert augment.Deletion(1.0)([], rng()) == []


def test_ngrams_are_windows_of_all_sizes_at_all_places():
    method = augment.NGramSampling(1.0)
    found = [tuple(method(list("abcdefgh"), rng(i))) for i in range(500)]
    assert all("".join(ngram) in "abcdefgh" for ngram in found)
    assert {len(ngram) for ngram in found} == {1, 2, 3, 4, 5}
    assert {ngram[0] for ngram in found} == set("abcdefgh")
    assert method(["a"], rng()) == ["a"]
    assert method([], rng()) == []
    often = augment.NGramSampling(0.25)
    whole = [often(WORDS, rng(i)) == WORDS for i in range(400)]
    assert np.mean(whole) == pytest.approx(0.75, abs=0.07)


def test_same_context_replaces_by_what_fits_the_gap():
    method = augment.SameContextReplacement(TRAIN, 1.0)
    for seed in range(50):
        words = method(["the", "good", "film", "ends", "here", "."], rng(seed))
        assert words[0] == "the"
        assert words[1] in set(ADJECTIVES) - {"good"}
        assert words[2] in set(NOUNS) - {"film"}
        assert words[3:] == ["ends", "here", "."]
    drawn = collections.Counter(
        method(["good"], rng(seed))[0] for seed in range(500)
    )
    assert set(drawn) == set(ADJECTIVES) - {"good"}
    assert method(["unknown"], rng()) == ["unknown"]
    at_the_ends = augment.SameContextReplacement(["good film", "bad film"], 1.0)
    assert at_the_ends(["good", "film"], rng()) == ["bad", "film"]


def test_same_context_draws_by_counts():
    texts = ["a x b"] * 1 + ["a y b"] * 6 + ["a z b"] * 2 + ["c x d", "c v d"]
    method = augment.SameContextReplacement(texts)
    drawn = collections.Counter(
        method.replace(["x"], 0, rng(seed)) for seed in range(2000)
    )
    shares = {word: count / 2000 for word, count in drawn.items()}
    wanted = {"y": 3 / 8, "z": 1 / 8, "v": 1 / 2}
    assert shares == pytest.approx(wanted, abs=0.04)


def test_mask_or_replace_is_one_draw_for_each_word():
    class Upper:
        def replace(self, words, position, rng):
            return words[position].upper()

    method = augment.MaskOrReplace(Upper(), 0.2, 0.5)
    found = collections.Counter(
        "mask" if new == "[MASK]" else "same" if new == old else "upper"
        for old, new in zip(WORDS, method(WORDS, rng()))
    )
    shares = [found[name] / 2000 for name in ("mask", "upper", "same")]
    assert shares == pytest.approx([0.2, 0.5, 0.3], abs=0.04)


def test_neighbours_are_whole_words_by_cosine():
    vocabulary = ["[MASK]", "good", "##ood", "great", "bad", "film", "."]
    vectors = np.array(
        [[1, 0], [1, 0], [1, 0], [9, 1], [-1, 0], [1, 1], [1, 0]]
    )
    make = augment.EmbeddingReplacement
    variable = keras.Variable(vectors, dtype="float32")
    for embeddings in (vectors, variable):
        method = make(vocabulary, embeddings, 1.0, neighbours=2)
        drawn = {method(["good"], rng(seed))[0] for seed in range(50)}
        assert drawn == {"great", "film"}
        assert method(["Great"], rng())[0] in ("good", "film")
        assert method([".", "##ood", "other"], rng()) == [".", "##ood", "other"]
    table = augment.neighbour_table(vectors, 2, allowed=[1, 3, 4, 5])
    np.testing.assert_array_equal(table[1], [3, 5])
    np.testing.assert_array_equal(table[6], [6, 6])
    assert 1 not in augment.neighbour_table(vectors, 5)[1]


VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "##s", "."),
    *("good", "bad", "film", "story", "a", "the"),
]


@pytest.fixture(scope="module")
def masked_lm():
    tokenizer = keras_hub.models.BertTokenizer(VOCABULARY, lowercase=True)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(VOCABULARY),
        num_layers=1,
        num_heads=1,
        hidden_dim=8,
        intermediate_dim=8,
        max_sequence_length=32,
    )
    model = keras_hub.models.BertMaskedLM(
        backbone,
        keras_hub.models.BertMaskedLMPreprocessor(
            tokenizer, sequence_length=32
        ),
    )
    spread = np.random.default_rng(0)
    model.set_weights(
        [w + spread.normal(size=w.shape) for w in model.get_weights()]
    )
    return model


def test_masked_lm_proposes_its_likeliest_whole_words(masked_lm):
    method = augment.MaskedLMReplacement(masked_lm, 1.0, candidates=2)
    text = ["Films", "a", "good", "."]
    proposals = method._propose(tuple(text))
    # "films" is two pieces; one mask stands for both.
    ids = [[2, 4, 11, 7, 6, 3, 0], [2, 9, 5, 4, 7, 6, 3]]
    ids += [[2, 9, 5, 11, 4, 6, 3], [2, 9, 5, 11, 7, 4, 3]]
    places = [[1], [3], [4], [5]]
    logits = masked_lm(
        {
            "token_ids": np.array(ids),
            "segment_ids": np.zeros((4, 7), "int32"),
            "padding_mask": (np.array(ids) > 0).astype("int32"),
            "mask_positions": np.array(places),
        },
        training=False,
    )
    logits = keras.ops.convert_to_numpy(logits)[:, 0, 7:]
    for row, words in zip(logits, proposals):
        best = np.argsort(-row)[:3] + 7
        assert words == [VOCABULARY[i] for i in best]
    for seed in range(20):
        for position, word in enumerate(text):
            new = method.replace(text, position, rng(seed))
            allowed = [w for w in proposals[position] if w != word]
            assert new in allowed[:2]
    short = augment.MaskedLMReplacement(masked_lm, 1.0, 2, max_words=1)
    assert short(text, rng())[1:] == text[1:]
    assert method([], rng()) == []


def test_one_pass_for_all_copies_of_a_text(masked_lm, monkeypatch):
    method = augment.MaskedLMReplacement(masked_lm, 0.5, candidates=2)
    calls, propose = [], method._propose
    monkeypatch.setattr(
        method, "_propose", lambda words: calls.append(1) or propose(words)
    )
    new = augment.transfer_set(
        ["a good film", "the bad story"], 8, 0, (), [method]
    )
    assert len(calls) == 2
    assert len(new) > 6


def test_transfer_set_is_new_text_that_repeats():
    test = [f"The {text.split()[1]} {text.split()[2]}." for text in TRAIN]
    exclude = (test, TextDataset(["good film"], [0]))
    new = augment.transfer_set(TRAIN, times=20, exclude=exclude)
    keys = [augment.text_key(text) for text in new]
    assert len(set(keys)) == len(keys) > 200
    known = {augment.text_key(t) for t in [*TRAIN, *test, "good film"]}
    assert not known & set(keys)
    assert known & {augment.text_key(t) for t in augment.transfer_set(TRAIN)}
    assert any("[MASK]" in text for text in new)
    assert any(len(text.split()) < 4 for text in new)
    words = {word for text in new for word in text.split()}
    assert words <= {"[MASK]"} | {w for text in TRAIN for w in text.split()}
    assert new == augment.transfer_set(TRAIN, 20, 0, exclude)
    other = augment.transfer_set(TRAIN, 20, 1, exclude)
    assert new != other
    assert len(augment.transfer_set(TRAIN, times=2)) < len(new)


def test_a_text_does_not_depend_on_the_others():
    masks = [augment.Masking(0.5)]
    alone = augment.transfer_set(TRAIN[3:4], 5, methods=masks)
    among = augment.transfer_set(TRAIN, 5, methods=masks)
    assert set(alone) <= set(among)


def written(word):
    """A method that writes one word in the place of each."""
    return lambda words, rng: [word] * len(words)


def test_methods_are_all_used_and_empty_texts_left_out():
    methods = [lambda words, rng: [], written("x")]
    assert augment.transfer_set(["a b c"], 20, methods=methods) == ["x x x"]
    chain = augment.Chain(augment.NGramSampling(1.0, 2, 2), methods[1])
    assert augment.transfer_set(["a b c"], 20, methods=[chain]) == ["x x"]
    both = [written("y"), written("x")]
    new = augment.transfer_set(["a b c"], 20, methods=both)
    assert sorted(new) == ["x x x", "y y y"]


def test_unlabelled_text_is_added_without_duplicates(tmp_path):
    path = tmp_path / "more.txt"
    path.write_text(
        "Fresh text\n\nfresh text!\nthe good film ends here\n ok \n"
    )
    table = tmp_path / "more.csv"
    rows = (f'"{text}",1\n' for text in augment.read_texts(path))
    table.write_text("".join(["text,label\n", *rows]))
    for unlabelled in (path, str(path), augment.read_texts(path), table):
        new = augment.transfer_set(
            TRAIN, times=0, exclude=(["OK"],), unlabelled=unlabelled
        )
        assert new == ["Fresh text"]
    new = augment.transfer_set(
        ["a b"], 1, methods=[written("x")], unlabelled=["X X", "c"]
    )
    assert new == ["x x", "c"]


CHINESE = [
    f"{what}{how}，iPhone {end}。"
    for what in ("电影", "手机", "酒店")
    for how in ("很好", "不好", "很差")
    for end in ("真的不错", "下次再来")
]
JAPANESE = ["とても良いホテルでした。", "とても悪い映画でした。", "良いが高い"]
ARABIC = ["الفيلم جيد جدا", "الفيلم سيئ جدا", "الفندق جيد جدا"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("这部手机很好。", [*"这部手机很好。"]),
        ("iPhone很好 OK", ["iPhone", "很", "好", "OK"]),
        ("良いホテル", [*"良いホテル"]),
        ("ดีมาก ครับ", ["ดี", "ม", "า", "ก", "ค", "รั", "บ"]),
        ("الفيلم جيد", ["الفيلم", "جيد"]),
        ("好😀😀 good 😀", ["好", "😀😀", "good", "😀"]),
        ("한국어 영화", ["한국어", "영화"]),
        ("a  b\u00a0c\u3000d", ["a", "b", "c", "d"]),
    ],
)
def test_units_follow_the_script(text, expected):
    found = _scripts.units(text)
    assert found == expected
    assert _scripts.join(found) == " ".join(text.split())


def test_texts_are_joined_as_they_were():
    first, second, third = _scripts.units("a很 b")
    assert _scripts.join([first, third]) == "a b"
    assert _scripts.join([first, "[MASK]", third]) == "a [MASK] b"
    assert _scripts.join(["[MASK]", second]) == "[MASK] 很"
    assert _scripts.join([first, "好", third]) == "a 好 b"
    third, _, fourth = _scripts.units("a很b")
    assert _scripts.join([third, fourth]) == "a b"


@pytest.mark.parametrize("texts", [CHINESE, JAPANESE, ARABIC])
def test_variations_of_every_script_keep_most_of_a_text(texts):
    new = augment.transfer_set(texts, times=20)
    assert len(new) > len(texts)
    known = {unit for text in texts for unit in _scripts.units(text)}
    for text in new:
        parts = _scripts.units(text.replace("[MASK]", " "))
        assert parts
        assert set(parts) <= known
        assert _scripts.without_blanks(text) == text
    units = [unit for text in new for unit in _scripts.units(text)]
    assert 0.05 < np.mean([unit == "[MASK]" for unit in units]) < 0.3


def test_no_text_is_masks_alone():
    for mask in ("[MASK]", "<mask>"):
        all_masks = augment.Masking(1.0, mask)
        chain = augment.Chain(augment.NGramSampling(1.0), all_masks)
        for texts in (CHINESE, ["a good film"]):
            assert augment.transfer_set(texts, 5, methods=[chain]) == []
    half = [augment.Masking(0.5)]
    for text in ("很。", "a , !", "😀 !"):
        new = augment.transfer_set([text], 20, methods=half)
        assert new
        assert all(text[0] in variation for variation in new)


def test_masks_between_characters_are_tokens():
    vocabulary = [*VOCABULARY, "很", "好", "で", "##す"]
    preprocessor = bert_preprocessor(vocabulary, 8)
    texts = augment.transfer_set(
        ["很好です"], 20, methods=[augment.Masking(0.3)]
    )
    encoded = encode(
        TextDataset(texts, [-1] * len(texts)), preprocessor, special_tokens=True
    )
    for text, ids in zip(texts, encoded.inputs["token_ids"]):
        assert (ids == 4).sum() == text.count("[MASK]") > 0


GRID = [f"a {x} {y}" for x in "bcd" for y in "efg"]


def test_the_same_on_every_machine():
    assert augment.transfer_set(GRID, 4) == [
        *("a [MASK] e", "a b", "[MASK] b g", "c"),
        *("a c [MASK]", "a d [MASK]", "a [MASK] f", "[MASK] d g"),
    ]


@pytest.mark.large
def test_the_same_in_a_process_with_another_hash_seed():
    code = (
        "from keras_distill import augment\n"
        f"print('|'.join(augment.transfer_set({GRID}, 4)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "123"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "|".join(augment.transfer_set(GRID, 4))


def test_text_keys():
    same = ["A good film", " a  GOOD film. ", "a good, film", "Ａ good film"]
    assert len({augment.text_key(text) for text in same}) == 1
    spaced = ["很好，真的", "很好 真的！", "很 好真的", "很好真的"]
    assert len({augment.text_key(text) for text in spaced}) == 1
    others = ["a good films", "good film a", "!", "?", "", "ärger", "arger"]
    others += ["很好", "很差", "กิน", "กัน", "😀", "😡", "جيد"]
    assert len({augment.text_key(text) for text in others}) == len(others)
    assert augment.deduplicate(["b", "a", "B!"], (["a"], [])) == ["b"]


IDS = np.array([[2, *range(10, 20), 3, 0, 0], [2, 7, 8, 3, *[0] * 10]])
ENDS = (2, 3)
TABLE = np.arange(30)[:, None] + 100 * np.arange(1, 3)
TOKEN_METHODS = {
    "mask": lambda ids, seed, p: augment.mask_tokens(ids, seed, 99, p, ENDS),
    "delete": lambda ids, seed, p: augment.delete_tokens(ids, seed, p, ENDS),
    "ngram": lambda ids, seed, p: augment.sample_token_ngram(
        ids, seed, p, 2, 3, ENDS
    ),
    "replace": lambda ids, seed, p: augment.replace_tokens(
        ids, seed, TABLE, p, ENDS
    ),
}
tokens = pytest.mark.parametrize(
    "method", TOKEN_METHODS.values(), ids=TOKEN_METHODS
)


@tokens
def test_token_methods_in_a_pipeline(method):
    def run(ids, seed):
        return method(ids, seed, 0.5)

    seeds = tf.data.Dataset.range(30)
    rows = tf.data.Dataset.from_tensors(IDS[0].astype("int32")).repeat(30)
    dataset = tf.data.Dataset.zip(rows, seeds).map(run)
    assert dataset.element_spec.shape == (14,)
    assert dataset.element_spec.dtype == tf.int32
    first, second = (np.stack(list(dataset.as_numpy_iterator())) for _ in "ab")
    np.testing.assert_array_equal(first, second)
    assert len(np.unique(first, axis=0)) > 10
    assert np.all(first[:, 0] == 2)
    assert np.all((first == 3).sum(1) == 1)
    same = np.asarray(method(IDS, 7, 0.0))
    np.testing.assert_array_equal(same, IDS)
    pair = np.asarray(method(IDS, (7, 0), 0.5))
    np.testing.assert_array_equal(pair, method(IDS, 7, 0.5))
    padded = (IDS == 0) & ~np.isin(IDS, ENDS)
    assert np.all(np.asarray(method(IDS, 7, 1.0))[padded] == 0)


def test_what_token_methods_do():
    wide = np.tile(np.arange(10, 20), (400, 1))
    masked = np.asarray(augment.mask_tokens(wide, 1, 99, 0.2))
    assert (masked == 99).mean() == pytest.approx(0.2, abs=0.03)
    deleted = np.asarray(augment.delete_tokens(wide, 1, 0.3))
    assert (deleted == 0).mean() == pytest.approx(0.3, abs=0.03)
    for row in deleted:
        kept = row[row > 0]
        assert np.all(np.diff(kept) > 0)
        assert np.all(row[: len(kept)] == kept)
    np.testing.assert_array_equal(augment.delete_tokens(IDS, 1, 1.0, ENDS), IDS)
    cut = np.asarray(augment.sample_token_ngram(wide, 1, 1.0, 2, 4))
    lengths = (cut > 0).sum(1)
    assert set(lengths) == {2, 3, 4}
    assert set(cut[:, 0]) == set(range(10, 19))
    for row, length in zip(cut, lengths):
        assert np.all(np.diff(row[:length]) == 1)
    some = np.asarray(augment.sample_token_ngram(wide, 1, 0.25))
    whole = (some > 0).all(1).mean()
    assert whole == pytest.approx(0.75, abs=0.07)
    replaced = np.asarray(augment.replace_tokens(wide, 1, TABLE, 0.4))
    assert (replaced != wide).mean() == pytest.approx(0.4, abs=0.03)
    columns = (replaced - wide)[replaced != wide]
    assert set(columns) == {100, 200}
    assert np.mean(columns == 100) == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: augment.Masking(1.5), "Received: probability=1.5"),
        (lambda: augment.Deletion(-1), "Received: probability=-1"),
        (lambda: augment.NGramSampling(0.5, 0), "min_words=0"),
        (lambda: augment.NGramSampling(0.5, 3, 2), "max_words=2"),
        (
            lambda: augment.MaskOrReplace(None, 0.6, 0.5),
            "replace_probability=0.5",
        ),
        (lambda: augment.SameContextReplacement(["a b"]), "pass more text"),
        (lambda: augment.SameContextReplacement(TRAIN, 2), "probability=2"),
        (
            lambda: augment.EmbeddingReplacement(["a"], np.ones((2, 2))),
            "2 rows, 1 entries",
        ),
        (
            lambda: augment.EmbeddingReplacement(["a"], np.ones((1, 2))),
            "1 whole words, neighbours=15",
        ),
        (
            lambda: augment.EmbeddingReplacement(["a"], np.ones(2)),
            r"shape=\(2,\)",
        ),
        (lambda: augment.neighbour_table(np.eye(3), 3), "3 ids, neighbours=3"),
        (lambda: augment.mask_tokens(IDS, 1, 4, 2.0), "probability=2.0"),
        (
            lambda: augment.sample_token_ngram(IDS, 1, 0.5, 3, 2),
            "max_tokens=2",
        ),
        (lambda: augment.transfer_set(TRAIN, -1), "Received: times=-1"),
        (lambda: augment.transfer_set("one text"), "Received: 'one text'"),
        (lambda: augment.transfer_set(["a", 3]), "Received: 3 among"),
        (lambda: augment.transfer_set(TRAIN, unlabelled=[3]), "3 among"),
        (lambda: augment.deduplicate(["a"], ([None],)), "None among"),
        (lambda: augment.transfer_set(TRAIN, seed=0.5), "seed=0.5"),
        (lambda: augment.transfer_set(TRAIN, 1, methods=[]), "methods=\\[\\]"),
        (lambda: augment.transfer_set(TRAIN, 1, methods="mask"), "'mask'"),
        (lambda: augment.transfer_set(TRAIN, exclude=TRAIN), "collections"),
        (lambda: augment.deduplicate([], TextDataset([], [])), "collections"),
    ],
)
def test_message(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_message_of_files_and_language_models(tmp_path, masked_lm):
    (tmp_path / "empty.txt").write_text("\n \n")
    (tmp_path / "latin.txt").write_bytes("für".encode("latin-1"))
    for name, message in [("empty", "has none"), ("latin", "must be UTF-8")]:
        with pytest.raises(ValueError, match=message):
            augment.read_texts(tmp_path / f"{name}.txt")
    with pytest.raises(ValueError, match="6 whole words, candidates=15"):
        augment.MaskedLMReplacement(masked_lm)
    bare = keras_hub.models.BertMaskedLM(masked_lm.backbone)
    with pytest.raises(ValueError, match="tokenizer=NoneType"):
        augment.MaskedLMReplacement(bare)


def test_more_texts_than_can_be_made():
    """It did not end."""
    with pytest.raises(ValueError, match="at most 100,000,000 tries, 50,000,0"):
        augment.transfer_set(["a film", "a story"], times=10**12)
