"""Resumed equals undisturbed, bit by bit; what has changed is not resumed."""

import contextlib
import dataclasses
import json
import random

import keras
import numpy as np
import pytest
import tiny_runs
import variants

from keras_distill import _files
from keras_distill import callbacks
from keras_distill.cli import main
from keras_distill.experiments import LanguageModelSettings
from keras_distill.experiments import engine
from keras_distill.experiments.language_models import models
from keras_distill.experiments.language_models import run
from keras_distill.experiments.language_models import scoring
from keras_distill.experiments.language_models import texts
from keras_distill.experiments.language_models import training as lm_training
from keras_distill.experiments.phases import fingerprints
from keras_distill.experiments.places import contents
from keras_distill.experiments.run_folder import RunFolder
from keras_distill.experiments.sources import TeacherSource
from keras_distill.gkd.evaluation import WritingScores
from keras_distill.gkd.model import GKDDistiller


@pytest.fixture
def quick(monkeypatch):
    tiny_runs.without_tracing(monkeypatch)
    tiny_runs.without_exports(monkeypatch)
    monkeypatch.setattr(engine.gc, "collect", lambda: None)
    compile_ = GKDDistiller.compile

    def eager(self, *args, **further):
        compile_(self, *args, **further, run_eagerly=True)

    monkeypatch.setattr(GKDDistiller, "compile", eager)


def as_a_new_process(seed):
    """What another process would not know."""
    random.seed(seed)
    keras.utils.clear_session()
    keras.utils.set_random_seed(seed)


@contextlib.contextmanager
def stopped_after(count):
    """Ctrl-C after so many phases have written their files.

    The last one's record is missing then: it is made again.
    """
    calls = []

    def file_hashes(self, files, result):
        calls.append(result)
        if len(calls) > count:
            raise KeyboardInterrupt
        return whole(self, files, result)

    whole = RunFolder._file_hashes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunFolder, "_file_hashes", file_hashes)
        yield


def in_pieces(command):
    """Runs a command that is stopped in every phase; how often it was."""
    for number in range(20):
        as_a_new_process(number + 1000)
        with stopped_after(bool(number)):
            code = main(command)
        if code == 0:
            return number
        assert code == 130
    raise AssertionError("It never ends.")


TEACHERS = {
    "embedded": (lambda folder: "embedded", "--student", "bilstm"),
    "beside": (
        lambda folder: tiny_runs.saved_teacher(folder, dropout=0.5),
        *("--teacher-epochs", "1"),
    ),
    "beside, as it is": (lambda folder: tiny_runs.saved_teacher(folder),),
    "named": (
        lambda folder: tiny_runs.saved_teacher(folder, dropout=0.5),
        *("--teacher-epochs", "1", "--vocabulary", "{folder}/vocab.txt"),
    ),
    "inside": (tiny_runs.hub_teacher, "--teacher-epochs", "1"),
    "preset": (tiny_runs.preset_teacher, "--method", "mse"),
}


@pytest.mark.large
@pytest.mark.parametrize("kind", variants.in_ci(TEACHERS, "embedded"))
def test_resumed_equals_undisturbed(kind, quick, tmp_path):
    make, *further = TEACHERS[kind]
    folder = tmp_path / "teacher"
    command = [
        *("distill", "--smoke", "--batch-size", "10", "--labels", "30"),
        *("--data", str(tiny_runs.write_texts(tmp_path / "texts"))),
        *("--teacher", str(make(folder)), "--teacher-batch-size", "10"),
        *(text.format(folder=folder) for text in further),
        "--output",
    ]
    as_a_new_process(7)
    assert main([*command, str(tmp_path / "whole")]) == 0
    # data, teacher, signal, two linear models, and three students; the report
    # at last.
    assert in_pieces([*command, str(tmp_path / "pieces")]) == 8
    whole = tiny_runs.arrays(tmp_path / "whole")
    pieces = tiny_runs.arrays(tmp_path / "pieces")
    assert len(whole) > 20
    assert [name for name in whole if whole[name] != pieces[name]] == []
    assert set(whole) == set(pieces)


# ---- Language models ----


def score(scoring, when):
    """Nothing is drawn there that a training reads, and it takes long."""
    names = [field.name for field in dataclasses.fields(WritingScores)]
    told = dict.fromkeys(names, 1.0)
    return {
        "student": told,
        "teacher": told,
        "batches": [told],
        "samples": {"student": [["a", "b"]], "teacher": [["a", "b"]]},
    }


@pytest.fixture
def letters(tmp_path):
    return tiny_runs.write_letters(tmp_path / "texts.txt")


@pytest.fixture
def distil(letters, tmp_path, quick, monkeypatch):
    """The command, with a backup after each step of the distillation."""
    monkeypatch.setattr(lm_training, "STEPS_PER_EPOCH", 1)
    monkeypatch.setattr(scoring.Scoring, "__call__", score)
    tiny_runs.language_model(tmp_path / "teacher")

    def command(output, *further):
        return [
            *("gkd", "--smoke", "--teacher", str(tmp_path / "teacher")),
            *("--data", str(letters), "--prompt-tokens", "2"),
            *("--batch-size", "4", "--max-completion-length", "3"),
            *("--output", str(tmp_path / output), *further),
        ]

    return command


@contextlib.contextmanager
def stopped_in_training(epochs):
    """Ctrl-C after so many epochs were kept; what was restored before."""
    restored = []
    restore, keep = callbacks.Backup.restore, callbacks.Backup.on_epoch_end

    def restored_by(self, model):
        restored.append(restore(self, model))
        return restored[-1]

    def stop(self, epoch, logs=None):
        keep(self, epoch, logs)
        if epoch + 1 == epochs:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(callbacks.Backup, "restore", restored_by)
        patch.setattr(callbacks.Backup, "on_epoch_end", stop)
        yield restored


def weights_of(folder):
    model = models._load(str(folder / "student"))
    report = json.loads((folder / "report.json").read_text())
    return [w.tobytes() for w in model.get_weights()], report["gkd"]


@pytest.mark.large
@pytest.mark.exhaustive
def test_a_language_model_resumed_equals_undisturbed(distil, tmp_path):
    as_a_new_process(7)
    assert main(distil("whole")) == 0
    as_a_new_process(8)
    with stopped_in_training(1):
        assert main(distil("pieces")) == 130
    as_a_new_process(9)
    with stopped_in_training(2) as restored:
        assert main(distil("pieces")) == 130
    assert restored == [1]
    # Half of the newest backup is on the disk, as after a power cut.
    backups = sorted((tmp_path / "pieces").rglob("epoch_*.weights.h5"))
    backups[-1].write_bytes(backups[-1].read_bytes()[:500])
    as_a_new_process(10)
    with stopped_in_training(9) as restored:
        assert main(distil("pieces")) == 0
    assert restored == [1]
    assert weights_of(tmp_path / "pieces") == weights_of(tmp_path / "whole")
    student = tmp_path / "pieces" / "student"
    (weights,) = student.glob("model.weights.h5")
    weights.write_bytes(b"damaged")
    assert main(distil("pieces")) == 0
    assert weights_of(tmp_path / "pieces") == weights_of(tmp_path / "whole")


@pytest.mark.large
@pytest.mark.parametrize("changed", variants.in_ci(["data", "teacher"], "data"))
def test_changed_contents_do_not_go_on_from_an_old_backup(
    changed, distil, letters, tmp_path, capsys
):
    student = tiny_runs.language_model(tmp_path / "student", seed=5, layers=1)
    command = distil("out", "--student", str(student))
    with stopped_in_training(2):
        assert main(command) == 130
    if changed == "data":
        tiny_runs.write_letters(letters, firsts="tuvwxyz")
    else:
        tiny_runs.language_model(tmp_path / "teacher", seed=3)
    assert main(command) == 2
    assert f"contents of the {changed}" in capsys.readouterr().err
    with stopped_in_training(9) as restored:
        assert main([*command, "--redo"]) == 0
    assert restored == [0]


def corpus(folder, longest, data):
    settings = LanguageModelSettings(
        data=str(data), max_prompt_length=longest, max_completion_length=2
    )
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    (folder / models.VOCABULARY).write_text("\n".join(vocabulary) + "\n")
    rows = [[list(range(5, 7)) * 6, [5]], [[5], [6, 5]]]
    _files.write_json(folder / texts.TOKENS, {"train": rows, "dev": rows})
    return texts.Corpus(folder, settings)


@pytest.mark.parametrize(("longest", "expected"), [(3, 3), (1, 1), (None, 13)])
def test_the_longest_prompt_is_as_asked(longest, expected, letters, tmp_path):
    found = corpus(tmp_path, longest, letters)
    for batch in found.batches("train", batch_size=2):
        lengths = np.asarray(batch["prompt_mask"]).sum(axis=1)
        assert lengths.max() == expected


def test_the_longest_prompt_is_in_the_fingerprint(letters, tmp_path):
    prints = []
    with RunFolder(tmp_path / "out", "gkd") as folder:
        for longest in (3, 4):
            settings = LanguageModelSettings(
                data=str(letters), max_prompt_length=longest
            )
            prints.append(fingerprints(run.plan(settings, folder)))
    assert all(prints[0][name] != prints[1][name] for name in prints[0])


def test_a_changed_vocabulary_beside_the_teacher_is_seen(tmp_path):
    teacher, vocabulary = tmp_path / "a.keras", tmp_path / "vocab.txt"
    teacher.write_bytes(b"a model")
    assert TeacherSource(str(teacher)).paths()["vocabulary"] is None
    vocabulary.write_text("[PAD]\n")
    source = TeacherSource(str(teacher))
    before = contents(source.paths())
    vocabulary.write_text("[PAD]\n[UNK]\n")
    after = contents(source.paths())
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"contents of the vocabulary"}
