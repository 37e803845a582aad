"""Tables without tokens that no text needs: the same outputs, fewer rows."""

import keras
import keras_hub
import numpy as np
import pytest

from keras_distill import pruning
from keras_distill import students

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [
    *("a", "low", "b", "lowest", "high", "##er", "##est", "##b", "new"),
    *("newer", "##ly", "the", "##c", "un", "##low", "я", "好", "1"),
]
TOKENS = [*SPECIAL, *PIECES]
TEXTS = ["the lowest low", "the newest", "unlow lowest"]
# What their longest pieces are, and all of one character.
KEPT = [*("a", "low", "b", "lowest", "##est", "##b", "new"), "the", "##c"]
KEPT += ["un", "##low", "1"]
SIZE = len(TOKENS)


def tokenizer():
    return keras_hub.tokenizers.BertTokenizer(TOKENS)


def another():
    return keras_hub.tokenizers.BertTokenizer([*SPECIAL, *PIECES[::-1]])


def backbone():
    return keras_hub.models.BertBackbone(SIZE, 2, 2, 8, 16, dropout=0.0)


def classifier():
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer(), sequence_length=10
    )
    return keras_hub.models.BertTextClassifier(backbone(), 3, preprocessor)


def logits(task, texts):
    rows = task.preprocessor(texts)
    return keras.ops.convert_to_numpy(task(rows, training=False))


def test_what_texts_need_stays():
    _, kept = pruning.vocabulary(backbone(), tokenizer(), TEXTS)
    assert kept.get_vocabulary() == SPECIAL + KEPT
    _, kept = pruning.vocabulary(backbone(), tokenizer(), TEXTS, min_count=2)
    assert kept.get_vocabulary() == [
        *SPECIAL,
        *("a", "b", "lowest", "##b", "the", "##c", "1"),
    ]
    _, kept = pruning.vocabulary(backbone(), tokenizer(), ["я low"])
    assert kept.get_vocabulary()[-2:] == ["я", "1"]
    assert type(kept) is keras_hub.tokenizers.BertTokenizer


def test_texts_of_kept_tokens_have_the_same_tokens():
    whole = tokenizer()
    _, kept = pruning.vocabulary(backbone(), whole, TEXTS)
    rng = np.random.default_rng(0)
    words = [
        "low",
        "lowest",
        "newest",
        "unlow",
        "unlowest",
        "abb",
        "the",
        "cab",
    ]
    for _ in range(50):
        text = " ".join(rng.choice(words, 5))
        before = [whole.id_to_token(int(i)) for i in np.asarray(whole(text))]
        after = [kept.id_to_token(int(i)) for i in np.asarray(kept(text))]
        assert before == after


def test_a_task_stays_one_and_says_the_same(tmp_path):
    task = classifier()
    smaller, kept = pruning.vocabulary(task, task.preprocessor.tokenizer, TEXTS)
    assert type(smaller) is keras_hub.models.BertTextClassifier
    assert smaller.preprocessor.tokenizer is kept
    assert task.preprocessor.tokenizer.vocabulary_size() == SIZE
    gone = SIZE - len(SPECIAL + KEPT)
    assert task.count_params() - smaller.count_params() == 8 * gone
    texts = [*TEXTS, "a newest lowest", "abb"]
    np.testing.assert_allclose(
        logits(smaller, texts), logits(task, texts), atol=1e-6
    )
    smaller.save_to_preset(str(tmp_path / "preset"))
    again = keras_hub.models.TextClassifier.from_preset(
        str(tmp_path / "preset")
    )
    np.testing.assert_allclose(
        logits(again, texts), logits(task, texts), atol=1e-6
    )


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (backbone, 8),
        (lambda: students.mean_pooled_classifier(backbone(), 3), 8),
        (
            lambda: students.text_cnn(
                2, (SIZE, 6), embedding_rank=4, filters=4
            ),
            4,
        ),
        (lambda: students.bilstm(2, (SIZE, 6), units=3), 6),
        (
            lambda: keras.Sequential(
                [
                    keras.Input((6,), dtype="int32"),
                    keras.layers.Embedding(SIZE, 3),
                    keras.layers.Flatten(),
                    keras.layers.Dense(2),
                ]
            ),
            3,
        ),
        (lambda: students.static(3, np.ones((SIZE, 5), "float32")), 5),
        (
            lambda: keras.Sequential(
                [
                    keras.Input((None,), dtype="int32"),
                    keras.layers.Embedding(SIZE, 7),
                    keras.layers.GlobalAveragePooling1D(),
                ]
            ),
            7,
        ),
    ],
)
def test_rows_go_from_every_kind_of_model(model, columns):
    model = model()
    before = [np.asarray(w) for w in model.weights]
    smaller, kept = pruning.vocabulary(model, tokenizer(), TEXTS)
    rows = [TOKENS.index(token) for token in kept.get_vocabulary()]
    gone = SIZE - len(rows)
    assert model.count_params() - smaller.count_params() == columns * gone
    changed = 0
    for old, new in zip(before, smaller.weights, strict=True):
        if old.shape != tuple(new.shape):
            changed += 1
            old = old[rows]
        np.testing.assert_array_equal(np.asarray(new), old)
    assert changed == 1
    for a, b in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(b), a)


class Numbers(keras.layers.Layer):
    """Reads the numbers themselves."""

    def call(self, token_ids):
        return keras.ops.cast(token_ids, "float32")


def of_numbers():
    ids = keras.Input((None,), dtype="int32")
    table = keras.layers.Embedding(SIZE, 4)(ids)
    pooled = keras.layers.GlobalAveragePooling1D()
    return keras.Model(ids, pooled(table * Numbers()(ids)[..., None]))


def dense():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (dense, {}, "must have a table of the tokenizer's 23 tokens"),
        (of_numbers, {}, "by tables alone"),
        (lambda: students.ngram(2, (SIZE, 6)), {}, "by tables alone"),
        (lambda: keras.Model(), {}, "must be a functional or Sequential"),
        (backbone, {"tokenizer": None}, "must be a KerasHub WordPiece"),
        (backbone, {"texts": []}, "at least one string"),
        (backbone, {"texts": "low"}, "must be a sequence"),
        (backbone, {"texts": iter(["low"])}, "must be a sequence"),
        (backbone, {"texts": ["low", None]}, r"texts\[1\]='None' \(NoneType"),
        (classifier, {"tokenizer": another()}, "of the task's preprocessor"),
        (backbone, {"min_count": 0}, "`min_count` must be"),
    ],
)
def test_what_cannot_be_is_told(model, options, message):
    options = {"tokenizer": tokenizer(), "texts": TEXTS} | options
    with pytest.raises(ValueError, match=message):
        pruning.vocabulary(model(), **options)
