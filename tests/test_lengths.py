"""How long rows are, and what of the texts is cut, unknown or seen twice."""

import numpy as np
import pytest
import tiny_runs

from keras_distill import _files
from keras_distill import data
from keras_distill._errors import UsageError
from keras_distill._watcher import Watcher
from keras_distill.cli import main
from keras_distill.data import lengths
from keras_distill.experiments import Preparation
from keras_distill.experiments import Prepared
from keras_distill.experiments import TeacherSource
from keras_distill.experiments.prepared import open_folder
from keras_distill.tasks import TextClassification
from keras_distill.tasks import counts

WORDS = [*data.vocabulary.SPECIAL_TOKENS, *"很好真的ab", "##b", "جيد", "😀"]
LAYER = data.bert_preprocessor(WORDS, 8)


def texts(*found):
    return data.TextDataset(found, [0] * len(found))


@pytest.mark.parametrize(
    ("sizes", "longest", "expected"),
    [
        ([3] * 50, None, 16),
        ([30] * 50, None, 32),
        ([31] * 50, None, 40),
        # One of two hundred may be longer.
        ([10] * 199 + [90], None, 16),
        ([10] * 90 + [40] * 10, None, 48),
        ([300] * 50, None, 304),
        ([600] * 50, None, 512),
        ([600] * 50, 600, 512),
        ([500] * 50, 50, 50),
        ([3] * 50, 12, 12),
    ],
)
def test_a_length_holds_nearly_all_texts(sizes, longest, expected):
    rows = texts(*("好" * size for size in sizes))
    assert lengths.fitting_length(rows, LAYER, longest) == expected
    assert LAYER.sequence_length == 8


def test_a_length_is_chosen_on_a_sample(monkeypatch):
    monkeypatch.setattr(lengths, "SAMPLE", 10)
    seen = []
    encode = lengths.encode
    monkeypatch.setattr(
        lengths,
        "encode",
        lambda rows, layer: seen.append(len(rows)) or encode(rows, layer),
    )
    rows = texts(*(["a"] * 50 + ["a " * 60] * 50))
    assert lengths.fitting_length(rows, LAYER) == 64
    assert seen == [10]


def test_cut_texts_are_those_that_lose_tokens():
    rows = texts("很好", "很好真的ab", "很好真的 a b", "好" * 30, "好" * 7)
    encoded = data.encode(rows, LAYER)
    assert encoded.lengths.tolist() == [4, 8, 8, 8, 8]
    assert lengths.count_cut(rows, encoded, LAYER) == 2
    few = rows.take(np.arange(2))
    assert lengths.count_cut(few, data.encode(few, LAYER), LAYER) == 0


def test_the_share_of_unknown_tokens():
    rows = texts("很好差", "جيد سيئ", "😀 😡 a", "ab")
    encoded = data.encode(rows, LAYER)
    share = lengths.unknown_share(encoded, LAYER.tokenizer)
    assert share == pytest.approx(3 / 10)
    known = data.encode(texts("很好"), LAYER)
    assert lengths.unknown_share(known, LAYER.tokenizer) == 0
    assert lengths.unknown_share(known, object()) == 0


def splits(train, test):
    parts = [
        data.TextDataset(rows, [i % 2 for i in range(len(rows))])
        for rows in (train, test, test)
    ]
    return data.TextSplits(*parts, ["no", "yes"])


def test_what_is_lost_is_told():
    task = TextClassification.from_texts(
        splits(
            ["很好真的，很好真的", "很好", "جيد", "a b"],
            ["很 好！", "جيد", "A B", "真的"],
        ),
        LAYER,
        notes=["Before."],
    )
    assert task.notes == (
        "Before.",
        "1 of 4 train texts (25 %) are longer than 8 tokens and were cut.",
        "9.1 % of the tokens of train are unknown: the vocabulary lacks them.",
        "3 of 4 test texts are in train, too, but for case, blanks, "
        "punctuation and symbols.",
    )
    assert task.summary(task.facts()) == (
        "4 train, 4 dev and 4 test texts, 2 classes; 25 % of the train texts "
        "cut at 8 tokens, 9.1 % of tokens unknown, 3 test texts in train"
    )
    whole = TextClassification.from_texts(splits(["很好", "a"], ["b"]), LAYER)
    assert whole.notes == ()
    assert whole.summary(whole.facts()).endswith("2 classes")
    rare = whole.facts() | {"unknown_tokens": 1e-6}
    assert counts.summary(rare) == "; less than 0.01 % of tokens unknown"


def test_tokens_that_no_text_needs_are_told():
    words = [f"word{i}" for i in range(2000)]
    layer = data.bert_preprocessor(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", *words], 8
    )
    found = splits(["word1 word2", "word1 a"], ["word3"])
    task = TextClassification.from_texts(found, layer)
    facts = task.facts()
    # Used: three words, and what starts, ends and fills a row.
    assert facts["unused_tokens"] == 2006 - 6
    assert task.notes == (
        "2,000 of the vocabulary's 2,006 tokens occur in no train text: "
        "`--min-count 1` leaves most of them out of every file.",
    )
    assert task.notes_on(facts | {"unused_tokens": 1003}) == ()
    assert lengths.count_unused(task.encoded["train"], object()) == 0


class Lines(Watcher):
    """Keeps what is told."""

    def __init__(self):
        self.told = []

    def line(self, text=""):
        self.told.append(text)


def read(folder, watcher, **chosen):
    """What the data phase leaves, and its fingerprint."""
    preparation = Preparation(**chosen)
    with open_folder(folder, "distill", preparation) as opened:
        prepared = Prepared(preparation, opened)
        opened.execute(prepared.phases(watcher)[:1], watcher)
        task = prepared.task
        return (
            prepared.settings()["sequence_length"],
            task,
            opened.record("data")["fingerprint"],
        )


@pytest.fixture
def chinese(tmp_path):
    """Reviews of 20 or 21 tokens."""
    folder = tmp_path / "reviews"
    folder.mkdir()
    for part, count in {"train": 30, "dev": 10, "test": 10}.items():
        rows = [
            f"{'很' * (i % 2)}{'真的' * 8}好{'😀' * (i % 2)}{part}\t{i % 2}"
            for i in range(count)
        ]
        lines = ["text\tlabel", *rows]
        (folder / f"{part}.tsv").write_text(
            "\n".join(lines) + "\n", encoding="utf-8"
        )
    return folder


def test_the_length_is_decided_once(chinese, tmp_path):
    teacher = tiny_runs.saved_teacher(tmp_path / "teacher")
    chosen = {"data": chinese, "teacher": str(teacher)}
    assert Preparation(**chosen).sequence_length == "auto"
    held = []
    for _ in "ab":
        watcher = Lines()
        length, task, fingerprint = read(tmp_path / "out", watcher, **chosen)
        assert length == 24
        assert task.encoded["train"].width == 24
        assert task.preprocessor.sequence_length == 24
        assert "% of tokens unknown" in watcher.told[0]
        assert "unknown: the vocabulary lacks them" in task.notes[0]
        held.append((fingerprint, task.notes))
    assert watcher.told[0].startswith("already done: data")
    assert held[0] == held[1]
    with pytest.raises(UsageError, match="sequence_length: auto there, 32 now"):
        read(tmp_path / "out", Lines(), **chosen, sequence_length=32)


def test_a_length_is_at_most_what_the_teacher_reads(chinese, tmp_path):
    hub = tiny_runs.hub_teacher(tmp_path)
    preset = tiny_runs.preset_teacher(tmp_path / "preset")
    for teacher in (hub, preset):
        assert TeacherSource(str(teacher)).longest_sequence() == 16
    length, task, _ = read(
        tmp_path / "out", Lines(), data=chinese, teacher=str(hub)
    )
    assert length == task.encoded["train"].width == 16
    assert TeacherSource().longest_sequence() is None
    hugging_face = tmp_path / "hugging_face"
    hugging_face.mkdir()
    _files.write_json(
        hugging_face / "config.json", {"max_position_embeddings": 24}
    )
    assert TeacherSource(str(hugging_face)).longest_sequence() == 24


@pytest.mark.parametrize("positions", [512, None])
def test_a_pretrained_teacher_reads_so_many_of_long_texts(tmp_path, positions):
    config = {"max_position_embeddings": positions}
    _files.write_json(tmp_path / "config.json", config)
    assert TeacherSource(str(tmp_path)).longest_sequence() == 256
    assert TeacherSource("bert_tiny_en_uncased").longest_sequence() == 256


@pytest.mark.large
def test_a_command_takes_the_length_from_the_data(chinese, tmp_path, capsys):
    teacher = tiny_runs.hub_teacher(tmp_path)
    arguments = ["--data", str(chinese), "--teacher", str(teacher)]
    for command in ("distill", "cache"):
        output = tmp_path / command
        options = [command, *arguments, "--output", str(output)]
        if command == "distill":
            options += ["--epochs", "1", "--width", "4"]
        assert main(options) == 0
        assert "cut at 16 tokens" in capsys.readouterr().out
    assert main(options) == 0
    assert "already done: cache" in capsys.readouterr().out
    found = _files.read_json(tmp_path / "distill" / "report.json")
    assert found["settings"]["sequence_length"] == 16
    assert any("longer than 16 tokens" in note for note in found["measured"])
    (manifest,) = (tmp_path / "cache" / "cache").glob("manifest*")
    assert '"sequence_length": 16' in manifest.read_text()
