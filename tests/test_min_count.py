"""`--min-count`: a run whose teacher knows the tokens of train alone."""

import keras
import keras_hub
import numpy as np
import pytest
import tiny_lm
import tiny_runs
import variants

from keras_distill import data
from keras_distill._errors import UsageError
from keras_distill.experiments.prepared import prepare
from keras_distill.experiments.training import predict


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return tiny_runs.write_texts(tmp_path_factory.mktemp("data") / "texts")


def prepared(output, texts, teacher, **options):
    """A run up to the teacher's logits; its folder is free again."""
    usual = {"data": str(texts), "teacher": str(teacher), "transfer": None}
    found = prepare(output, **usual | options)
    found.folder.close()
    return found


def vocabulary(run):
    return run.task.preprocessor.tokenizer.get_vocabulary()


TEACHERS = {
    "preset": lambda folder: tiny_runs.preset_teacher(folder / "preset"),
    "task in a file": tiny_runs.hub_teacher,
    "file": tiny_runs.saved_teacher,
}


@pytest.mark.large
@pytest.mark.parametrize("kind", variants.in_ci(TEACHERS, "file"))
def test_train_texts_mean_what_they_did(kind, texts, tmp_path):
    teacher = TEACHERS[kind](tmp_path)
    whole = prepared(tmp_path / "whole", texts, teacher, teacher_epochs=0)
    made = prepared(
        tmp_path / "made", texts, teacher, teacher_epochs=0, min_count=1
    )
    gone = set(vocabulary(whole)) - set(vocabulary(made))
    assert gone >= {"dev", "test"}
    assert made.model.count_params() == whole.model.count_params() - 4 * len(
        gone
    )
    np.testing.assert_allclose(
        made.teacher.logits["train"], whole.teacher.logits["train"], atol=1e-6
    )
    # What the run has left is read from its folder again.
    again = prepared(
        tmp_path / "made", texts, teacher, teacher_epochs=0, min_count=1
    )
    assert vocabulary(again) == vocabulary(made)
    np.testing.assert_array_equal(
        predict(again.model, again.task.encoded["test"]),
        made.teacher.logits["test"],
    )
    rarer = prepared(
        tmp_path / "rarer", texts, teacher, teacher_epochs=0, min_count=10**4
    )
    assert len(vocabulary(rarer)) < len(vocabulary(made))


@pytest.mark.large
def test_another_count_is_another_run(texts, tmp_path):
    teacher = tiny_runs.hub_teacher(tmp_path)
    prepared(tmp_path / "run", texts, teacher, min_count=1)
    with pytest.raises(UsageError, match="min_count: 1 there, 2 now"):
        prepared(tmp_path / "run", texts, teacher, min_count=2)


def byte_pairs(folder):
    """A preset of RoBERTa's kind: its tokenizer needs every token it has."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    known = {token: i for i, token in enumerate([*special, *letters, "ab"])}
    tokenizer = keras_hub.tokenizers.RobertaTokenizer(known, ["a b"])
    layer = keras_hub.models.RobertaTextClassifierPreprocessor(tokenizer, 16)
    backbone = keras_hub.models.RobertaBackbone(
        len(known), 1, 1, 4, 4, max_sequence_length=16
    )
    keras_hub.models.RobertaTextClassifier(backbone, 2, layer).save_to_preset(
        str(folder / "preset")
    )
    return folder / "preset"


def hashed(folder):
    """A model that reads the numbers of tokens, not a table of them alone."""
    inputs = keras.Input((None,), dtype="int32", name="token_ids")
    mask = keras.Input((None,), dtype="int32", name="padding_mask")
    x = keras.layers.Embedding(len(tiny_runs.VOCABULARY), 4)(inputs)
    numbers = keras.ops.cast(inputs, "float32")
    x = keras.layers.GlobalAveragePooling1D()(x * numbers[..., None])
    model = keras.Model([inputs, mask], keras.layers.Dense(2)(x))
    tiny_lm.randomized(model, 0)
    model.save(folder / "hashed.keras")
    data.write_vocabulary(tiny_runs.VOCABULARY, folder / "vocab.txt")
    return folder / "hashed.keras"


@pytest.mark.parametrize(
    ("teacher", "options", "told"),
    [
        (lambda _: "embedded", {"min_count": 1}, "brings its vocabulary"),
        (tiny_runs.hub_teacher, {"min_count": 0}, "min_count"),
        (tiny_runs.hub_teacher, {"min_count": 1.5}, "min_count"),
        (byte_pairs, {"min_count": 1}, "WordPieceTokenizer"),
        (hashed, {"min_count": 1}, "by tables alone"),
        (
            lambda _: "embedded",
            {"min_count": 1, "task": "images", "data": "digits"},
            "not for `--task images`",
        ),
    ],
)
def test_what_cannot_be_is_told(teacher, options, told, texts, tmp_path):
    with pytest.raises(UsageError, match=told):
        prepared(tmp_path / "run", texts, teacher(tmp_path), **options)


@pytest.mark.large
@pytest.mark.exhaustive
def test_a_contrastive_start_knows_no_others(texts, tmp_path):
    backbone = keras_hub.models.BertBackbone(
        len(tiny_runs.VOCABULARY), 1, 1, 4, 4, dropout=0.0
    )
    folder = str(tmp_path / "encoder")
    backbone.save_to_preset(folder)
    tokenizer = data.bert_preprocessor(tiny_runs.VOCABULARY, 16).tokenizer
    tokenizer.save_to_preset(folder)
    run = prepared(
        tmp_path / "run",
        texts,
        folder,
        teacher_start="contrastive",
        smoke=True,
        min_count=1,
    )
    tables = [w for w in run.model.weights if w.path.endswith("embeddings")]
    assert len(vocabulary(run)) < len(tiny_runs.VOCABULARY)
    assert len(vocabulary(run)) in [table.shape[0] for table in tables]
