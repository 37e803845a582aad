"""The command line: help, wrong uses, continuing, and whole tiny runs."""

import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

import keras
import keras_hub
import numpy as np
import pytest
import tiny_runs
import tiny_text
import variants
from helpers import run_snippets

import keras_distill as kd
from keras_distill import _files
from keras_distill import data
from keras_distill._errors import UsageError
from keras_distill.cli import main
from keras_distill.cli.distill import command
from keras_distill.cli.distill.options import Distill
from keras_distill.cli.entry_point import parse
from keras_distill.cli.shared import choices
from keras_distill.cli.shared import native_log
from keras_distill.cli.shared.screen import Screen
from keras_distill.experiments import bench
from keras_distill.experiments import distilling
from keras_distill.experiments import engine
from keras_distill.experiments import exports
from keras_distill.experiments import file_forms
from keras_distill.experiments import training
from keras_distill.experiments import transfer
from keras_distill.experiments.phases import Phase
from keras_distill.experiments.phases import fingerprints
from keras_distill.experiments.preparation import Preparation
from keras_distill.experiments.prepared import Prepared
from keras_distill.experiments.run_folder import RunFolder

SIZES = {"train": 120, "dev": 30, "test": 30}


@pytest.fixture
def texts(tmp_path):
    """A folder with train, dev and test, two classes that words tell apart."""
    return tiny_text.write(tmp_path / "texts", SIZES)


@pytest.fixture
def call(texts, tmp_path, capsys):
    """Calls the command on the tiny texts; exit code, output, errors."""

    def run(*arguments, output="out"):
        command = ["distill", "--smoke", "--data", str(texts)]
        command += ["--output", str(tmp_path / output), *arguments]
        code = main(command)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_help_names_every_option_with_its_unit_and_default(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["distill", "--help"])
    text = capsys.readouterr().out
    assert stopped.value.code == 0
    options = Distill()
    for group in dataclasses.fields(options):
        for field in dataclasses.fields(getattr(options, group.name)):
            # What is done by default has the option to leave it out.
            no = "no-" * (field.default is True)
            assert f"--{no}{field.name.replace('_', '-')}" in text
    assert "1000 for docstrings" in " ".join(re.split(r"[\s│]+", text))


@pytest.mark.parametrize(
    ("arguments", "on"),
    [
        ([], True),
        (["--no-linear-part"], False),
        (["--linear-part", "False"], False),
        (["--linear_part=false"], False),
        (["--linear-part"], True),
        (["--linear-part", "True"], True),
        (["--no-linear-part", "true"], False),
        (["--no_linear_part=False"], True),
    ],
)
def test_what_is_done_by_default_may_be_switched_off(arguments, on):
    options = parse(["distill", *arguments, "--epochs", "3"])
    assert options.learning.linear_part is on
    assert options.learning.epochs == 3


def test_help_lists_the_commands(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "distill" in capsys.readouterr().out


def test_a_narrow_table_keeps_its_numbers(capsys):
    row = ["a student of some width", "KD and hidden states + transfer"]
    row += ["87.6 ± 0.2", "+0.6 [−0.5, +1.8]", "1,234"]
    Screen().table("A title", list("abcde"), [row], words=2)
    told = capsys.readouterr().out
    for number in row[2:]:
        assert number in told
    assert "…" not in told
    assert "transfer" in told


def test_a_log_holds_each_epoch(capsys):
    with Screen().progress(2, "steps") as advance:
        advance()
        advance(0, "epoch 1: dev 50.0 %")
    assert capsys.readouterr().out.strip() == "epoch 1: dev 50.0 %"


@pytest.mark.parametrize(
    "arguments",
    [[], ["distil"], ["distill", "--epoch", "x"], ["distill", "--method", "x"]],
)
def test_what_the_parser_refuses(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "--help" in capsys.readouterr().err


WRONG_OPTIONS = [
    (["--seeds", "0"], "at least 1"),
    (["--seeds", "1", "1"], "different"),
    (["--epochs", "0"], "epochs=0"),
    (["--sequence-length", "2"], "sequence_length=2"),
    (["--labels", "0"], "labels=0"),
    (["--width", "0"], "width=0"),
    (["--temperature", "0"], "temperature=0"),
    (["--learning-rate", "-1"], "learning_rate=-1"),
    (["--teacher-epochs", "0"], "from scratch"),
    (["--soft-weight", "0"], "nothing would be distilled"),
    (["--hard-weight", "-1"], "hard_weight=-1"),
    (["--method", "hidden"], "--student shrink"),
    (["--layers", "2"], "--student shrink"),
    (["--embedding-rank", "0"], "embedding_rank=0"),
    (["--buckets", "64"], "`--buckets` is for `--student ngram`"),
    (["--student", "ngram", "--buckets", "0"], "buckets=0"),
    (["--ngram-buckets", "0"], "ngram_buckets=0"),
    (
        ["--student", "shrink", "--embeddings", "teacher"],
        "`--embeddings` is for",
    ),
    (["--student", "shrink", "--embedding-rank", "4"], "`--embedding-rank` is"),
    (
        ["--student", "shrink", "--teacher", "f_net_base_en"],
        "needs a teacher with one of the encoders BertBackbone",
    ),
    (["--method", "annealing", "--hard-weight", "1"], "leave"),
    (["--method", "annealing", "--temperature", "2.5"], "integer"),
    (["--method", "annealing", "--epochs", "2"], "more epochs"),
    (["--data", "docstrings", "--text-column", "t"], "no columns"),
    (["--vocabulary", "vocab.txt"], ".keras"),
    (["--teacher", "no/such/folder"], "no such folder"),
    (["--teacher", "none.keras"], "exists"),
    (["--data", "none.tsv"], "no such file"),
    (["--transfer", "augment"], "augment:20"),
    (["--transfer", "augment:0"], "augment:0"),
    (["--transfer", "double:3"], "double:3"),
    (["--unlabelled", "none.txt"], "no such file"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_OPTIONS)
def test_wrong_options_end_before_anything_starts(
    arguments, message, call, tmp_path
):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Received" in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_teacher_folder_without_a_model(call, tmp_path):
    (tmp_path / "empty").mkdir()
    code, _, err = call("--teacher", str(tmp_path / "empty"))
    assert code == 2
    assert "config.json" in err


def test_unknown_preset(call):
    code, _, err = call("--teacher", "bert_bse_en")
    assert code == 2
    assert "bert_base_en" in err


def test_preset_without_a_network(call, monkeypatch):
    def fail(*args, **kwargs):
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr(
        keras_hub.models.TextClassifierPreprocessor, "from_preset", fail
    )
    code, _, err = call("--teacher", "bert_tiny_en_uncased")
    assert code == 2
    assert "could not be downloaded" in err
    assert "embedded" in err


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("train.tsv", "text\tclass\na\tb\n", "'label'"),
        ("train.tsv", "text\tlabel\nall of one\tb\n", "two classes"),
        ("train.tsv", "text\tlabel\n", "rows below its header"),
        ("dev.tsv", "text\tlabel\nwhat\tunknown\n", "occur in train"),
    ],
)
def test_wrong_data(file, content, message, call, texts):
    (texts / file).write_text(content)
    code, _, err = call()
    assert code == 2
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize("labels", ["1", "121"])
def test_labels_that_the_data_does_not_have(labels, call):
    code, _, err = call("--labels", labels)
    assert code == 2
    assert f"={labels}" in err


def test_the_teacher_is_not_trained_for_an_impossible_student(
    call, monkeypatch
):
    def fit(*args):
        raise AssertionError("A training has begun.")

    monkeypatch.setattr(training, "fit", fit)
    code, _, err = call("--student", "shrink", "--layers", "9")
    assert code == 2
    assert (
        "Received: num_layers=9. See `--copy-from` and `--layer-map` and "
        "`--layers` and `--pair-encoder` and `--width`." in err
    )


def test_a_folder_of_many_files_that_is_no_data(call, texts):
    (texts / "train.tsv").unlink()
    for number in range(20):
        (texts / f"b{number}.txt").write_text("")
    code, _, err = call()
    assert code == 2
    assert "'b15.txt'] and 14 more. See `--data`" in err


def test_a_missing_column_is_told_with_the_options_of_columns(call, texts):
    (texts / "train.tsv").write_text("opinion\tstars\na film\t1\n")
    code, _, err = call()
    assert code == 2
    assert "['opinion', 'stars']" in err
    assert (
        "See `--data` and `--text-column` and `--label-column` and "
        "`--text-pair-column` in `--help`."
    ) in err


@pytest.fixture
def tiny_teacher(tmp_path):
    """A .keras file with three logits and no tokenizer."""
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name)
        for name in ("token_ids", "padding_mask", "segment_ids")
    }
    x = keras.layers.Embedding(60, 4)(inputs["token_ids"])
    x = keras.layers.GlobalAveragePooling1D()(x)
    path = tmp_path / "tiny.keras"
    keras.Model(inputs, keras.layers.Dense(3)(x)).save(path)
    return path


def test_saved_teacher_without_a_tokenizer(call, tiny_teacher):
    code, _, err = call("--teacher", str(tiny_teacher))
    assert code == 2
    assert "--vocabulary" in err


def test_saved_teacher_that_reads_strings(call, tmp_path):
    words = keras.layers.TextVectorization(vocabulary=["a", "b"])
    embed = keras.layers.Embedding(4, 2)
    mean = keras.layers.GlobalAveragePooling1D()
    model = keras.Sequential(
        [
            keras.Input((1,), dtype="string"),
            *(words, embed, mean, keras.layers.Dense(2)),
        ]
    )
    model.save(tmp_path / "strings.keras")
    code, _, err = call("--teacher", str(tmp_path / "strings.keras"))
    assert code == 2
    assert "reads strings" in err
    assert "kd.experiments.Teacher" in err


def test_saved_teacher_of_other_classes(call, tiny_teacher):
    vocabulary = [*data.vocabulary.SPECIAL_TOKENS, *"abcdefghijklmnopqrst"]
    path = tiny_teacher.with_name("vocab.txt")
    data.write_vocabulary(vocabulary, path)
    code, _, err = call("--teacher", str(tiny_teacher))
    assert code == 2
    assert "must give 2 logits" in err


def test_saved_teacher_that_is_none(call, tmp_path):
    (tmp_path / "wrong.keras").write_text("no model")
    code, _, err = call("--teacher", str(tmp_path / "wrong.keras"))
    assert code == 2
    assert "cannot be loaded" in err


def test_output_that_cannot_be_written(call, tmp_path):
    (tmp_path / "file").write_text("")
    code, _, err = call(output="file/out")
    assert code == 2
    assert "cannot be written" in err


def test_output_that_holds_other_things(call, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("")
    code, _, err = call()
    assert code == 2
    assert "thesis.tex" in err


def test_output_of_another_command(tmp_path):
    RunFolder(tmp_path / "out", "gkd")
    with pytest.raises(UsageError, match="keras-distill gkd"):
        RunFolder(tmp_path / "out", "distill")


def test_help_comes_before_heavy_imports():
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, keras_distill.cli; print(sorted(sys.modules))",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for package in ("keras", "tensorflow", "numpy"):
        assert f"'{package}'" not in told


# Phases that only count, in the place of the real ones.


class Counting:
    """Three phases, of which one may be interrupted or half-written."""

    def __init__(self):
        self.calls = []
        self.interrupt = None
        self.options = {"first": {"a": 1}, "second": {"b": 1}, "third": {}}
        self.needs = {"first": (), "second": ("first",), "third": ()}

    def phases(self, folder):
        def phase(name):
            def run():
                self.calls.append(name)
                with _files.complete_file(folder.path / name) as draft:
                    draft.write_text("half")
                    if name == self.interrupt:
                        raise KeyboardInterrupt
                return {"name": name}

            return Phase(
                name=name,
                title=f"making {name}",
                options=self.options[name],
                needs=self.needs[name],
                run=run,
                summary=lambda result: f"made {result['name']}",
                files=(name,),
            )

        return [phase(name) for name in self.options]


@pytest.fixture
def counting(monkeypatch):
    counted = Counting()

    class Counted(Prepared):
        task = teacher = model = None

        def phases(self, *args):
            return counted.phases(self.folder)

    monkeypatch.setattr(command, "Prepared", Counted)
    monkeypatch.setattr(command.distilling, "distill", lambda *a, **k: None)
    monkeypatch.setattr(command.table, "show", lambda *args: None)
    return counted


def test_rerun_does_nothing_twice(call, counting):
    assert call()[0] == 0
    code, out, _ = call()
    assert code == 0
    assert counting.calls == ["first", "second", "third"]
    assert "already done: first (made first)" in out


def test_interrupted_run_continues(call, counting, tmp_path):
    counting.interrupt = "second"
    code, _, err = call()
    assert code == 130
    assert len(err.strip().splitlines()) == 1
    assert "during second" in err
    assert "keras-distill distill --smoke" in err
    out = tmp_path / "out"
    assert not (out / "second").exists()
    assert not list(out.rglob(".draft-*"))
    counting.interrupt = None
    code, printed, _ = call()
    assert code == 0
    assert counting.calls == ["first", "second", "second", "third"]
    assert "already done: first" in printed
    assert "already done: second" not in printed


def test_phase_whose_file_is_gone_is_made_again(call, counting, tmp_path):
    call()
    (tmp_path / "out" / "second").unlink()
    call()
    assert counting.calls == ["first", "second", "third", "second"]


def test_other_options_are_refused(call, counting):
    call()
    counting.options["first"] = {"a": 2}
    code, _, err = call()
    assert code == 2
    assert "a: 1 there, 2 now" in err
    assert "['first', 'second']" in err
    assert "--redo" in err
    assert len(counting.calls) == 3


def test_redo_makes_what_changed_and_what_follows(call, counting):
    call()
    counting.options["first"] = {"a": 2}
    assert call("--redo")[0] == 0
    assert counting.calls[3:] == ["first", "second"]
    assert call()[0] == 0
    assert len(counting.calls) == 5


def test_a_new_phase_changes_nothing_before_it(call, counting):
    call()
    counting.options["fourth"] = {}
    counting.needs["fourth"] = ("third",)
    assert call()[0] == 0
    assert counting.calls[3:] == ["fourth"]


def test_a_phase_that_comes_or_goes_before_others(call, counting):
    call()
    counting.options = {"new": {"c": 3}, **counting.options}
    counting.needs |= {"new": (), "first": ("new",)}
    code, _, err = call()
    assert code == 2
    assert "(c: None there, 3 now)" in err
    assert call("--redo")[0] == 0
    del counting.options["new"]
    counting.needs["first"] = ()
    code, _, err = call()
    assert code == 2
    assert "(c: 3 there, None now)" in err
    assert "['first', 'second']" in err


def plan_of(folder, **changes):
    prepared = Prepared(Preparation(**changes), RunFolder(folder, "distill"))
    phases = prepared.phases()
    prepared.folder.close()
    return fingerprints(phases)


@pytest.mark.parametrize(
    ("option", "value", "kept"),
    [
        ("labels", 500, {"data", "teacher", "signal"}),
        ("teacher_epochs", 1, {"data"}),
        ("teacher_learning_rate", 0.1, {"data"}),
        ("transfer", "augment:3", {"data", "teacher"}),
        ("sequence_length", 48, set()),
        ("smoke", True, set()),
    ],
)
def test_what_an_option_changes(option, value, kept, tmp_path):
    before = plan_of(tmp_path)
    after = plan_of(tmp_path, **{option: value})
    assert {name for name in before if before[name] == after[name]} == kept


def students_of(options, recipe, seeds=(0,), labels=6):
    """What the cells of `distill` are made with, by their names."""
    options = dict(options)
    kind = options.pop("kind", kd.students.TextCNN)
    task = tiny_text.task()
    keras.utils.set_random_seed(options.pop("teacher_seed", 0))
    teacher = tiny_text.teacher(task, tiny_text.encoder(task))
    trainer = bench.Bench(task, teacher)
    return {
        cell.name: trainer.made_with(cell)
        for cell in distilling.cells(
            task, kind(**options), recipe, labels, seeds
        )
    }


CONTROL, DISTILLED, ALL = (
    f"{arm}_seed_0" for arm in ("control", "distilled", "all_labels")
)


@pytest.mark.large
@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"recipe": kd.recipes.kd(2.0)}, {CONTROL, ALL}),
        ({"recipe": kd.recipes.mse()}, {CONTROL, ALL}),
        ({"labels": 10}, {ALL}),
        ({"seeds": (0, 2)}, {CONTROL, DISTILLED, ALL}),
        ({"epochs": 3}, set()),
        ({"embeddings": "teacher"}, set()),
        ({"embedding_rank": 2}, set()),
    ],
    ids=["kd", "mse", "labels", "seeds", "epochs", "embeddings", "rank"],
)
def test_what_an_option_changes_in_a_student(change, kept):
    recipe = kd.recipes.kd()
    before = students_of({}, recipe)
    taken = ("recipe", "labels", "seeds")
    further = {k: change[k] for k in taken if k in change}
    options = {k: v for k, v in change.items() if k not in taken}
    after = students_of(options, **{"recipe": recipe, **further})
    assert {n for n in before if before[n] == after[n]} == kept


@pytest.mark.large
@pytest.mark.parametrize(
    ("start", "depends"),
    [
        ({"kind": kd.students.Shrink}, True),
        ({"embeddings": "teacher"}, True),
        ({}, False),
    ],
)
def test_a_control_of_the_teachers_weights_depends_on_it(start, depends):
    recipe = kd.recipes.kd()
    before = students_of(start, recipe)
    after = students_of({**start, "teacher_seed": 1}, recipe)
    assert (before[CONTROL] != after[CONTROL]) is depends
    assert before[DISTILLED] != after[DISTILLED]


def test_changed_file_changes_the_fingerprint(texts):
    chosen = Preparation(data=str(texts))
    before = chosen.identities()
    assert chosen.identities() == before
    with (texts / "train.tsv").open("a") as file:
        file.write("one more\tgood\n")
    assert chosen.identities() != before
    single = Preparation(data=str(texts / "train.tsv"))
    before = single.identities()
    (texts / "labels.txt").write_text("bad\ngood\n")
    assert single.identities() != before


def test_transfer_set_comes_between_data_and_signal(tmp_path):
    chosen = Preparation(transfer="augment:3")
    with RunFolder(tmp_path, "distill") as folder:
        phases = Prepared(chosen, folder).phases()
    names = [phase.name for phase in phases]
    assert names == ["data", "transfer", "teacher", "signal"]


TEXTS_ALONE = {"text_column": None, "text_pair_column": None}


class FewTexts:
    """Texts of which one occurs in each part."""

    splits = data.TextSplits(
        **{
            part: data.TextDataset([f"{part} one", f"{part} two"], [0, 1])
            for part in ("train", "dev", "test")
        },
        label_names=["x", "y"],
    )
    preprocessor = staticmethod(
        lambda texts: {
            "token_ids": np.array([[len(t), 0] for t in texts]),
            "padding_mask": np.array([[1, 0]] * len(texts)),
        }
    )


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("more.txt", "new\n\ntrain one\nDev two\ntest one\nnew\nother\n"),
        ("more.tsv", "text\nnew\ntrain one\ndev two\nother\n"),
        ("more.csv", "id,text\n1,new\n2,test two\n3,other\n"),
    ],
)
def test_unlabelled_texts_without_those_of_other_parts(file, content, tmp_path):
    path = tmp_path / file
    path.write_text(content)
    found, given = transfer.make(FewTexts.splits, None, path, TEXTS_ALONE)
    assert found == ["new", "other"]
    assert given >= 3
    encoded = data.encode(
        data.TextDataset(found, [-1, -1]),
        FewTexts.preprocessor,
        special_tokens=True,
    )
    assert encoded.labels.tolist() == [-1, -1]
    assert encoded.inputs["token_ids"][:, 0].tolist() == [3, 5]
    assert encoded.lengths.tolist() == [1, 1]


def test_no_transfer_text_left(tmp_path):
    path = tmp_path / "more.txt"
    path.write_text("train one\n")
    with pytest.raises(UsageError, match="No transfer text"):
        transfer.make(FewTexts.splits, None, path, TEXTS_ALONE)


@pytest.mark.parametrize(
    ("seeds", "expected"), [((2,), (0, 1)), ((7, 3), (7, 3))]
)
def test_seeds_are_a_count_or_a_list(seeds, expected):
    assert engine.as_seeds(choices.seeds(seeds)) == expected


def test_best_epoch_is_restored():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    best = training.BestEpoch(model, tiny_text.task())
    for epoch, value in enumerate([0.1, 0.3, 0.3, 0.2]):
        model.layers[-1].bias.assign([float(epoch)])
        best.value = lambda value=value: value
        best.on_epoch_end(epoch, {})
    best.on_train_end()
    assert float(model.layers[-1].bias[0]) == 1.0
    assert (best.epoch, best.score) == (2, 0.3)


def test_refused_export_is_reported(monkeypatch):
    def refuse(*args, **kwargs):
        raise file_forms.export.ExportError("agrees on 90 %")

    monkeypatch.setattr(file_forms.export, "saved_model", refuse)
    facts = file_forms.exported(
        *(None, file_forms.SAVED_MODEL),
        *(pathlib.Path("student"), tiny_text.task()),
    )
    assert facts == {"path": "student", "refused": "agrees on 90 %"}
    assert "90 %" in exports.summary({"SavedModel": facts})


def test_native_messages_leave_python_alone(tmp_path, capfd):
    with native_log.native_messages_to(tmp_path / "log"):
        os.write(2, b"native\n")
        sys.stderr.write("python\n")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "python\nafter\n"
    assert (tmp_path / "log").read_text() == "native\n"


# Whole runs.

MODEL_KEYS = {
    "name": str,
    "description": str,
    "labels": int,
    "seeds": list,
    "dev_accuracy": list,
    "test_accuracy": list,
    "dev_score": list,
    "test_score": list,
    "parameters": int,
    "files": dict,
}
SCORES = ("test_score", "test_accuracy")
FILE_KEYS = {
    "path": str,
    "size_bytes": int,
    "latency_ms": float,
    "agreement": float,
    "max_difference": float,
    "examples": int,
}


def check_report(path, names, seeds):
    held = json.loads(path.read_text())
    assert set(held) >= {
        "command",
        "settings",
        "task",
        "models",
        "difference",
        "seconds",
        "environment",
    }
    assert [model["name"] for model in held["models"]] == names
    for model in held["models"]:
        once = model["name"] in ("teacher", "linear_all_labels")
        if model["name"].startswith("linear"):
            extra = {"size_bytes": int, "latency_ms": float}
            once = once or not model["seeds"]
        else:
            extra = {} if model["name"] == "teacher" else {"failed": dict}
        found = {k: type(v) for k, v in model.items()}
        assert found == MODEL_KEYS | extra
        assert len(model["test_accuracy"]) == (1 if once else len(seeds))
        for value in model["dev_accuracy"] + model["test_accuracy"]:
            assert 0 <= value <= 1
        for kind, file in model["files"].items():
            if "refused" not in file:
                scores = () if kind == "SavedModel" else SCORES
                extra = dict.fromkeys(scores, float)
                found = {k: type(v) for k, v in file.items()}
                assert found == FILE_KEYS | extra
                assert (path.parent / "export" / file["path"]).exists()
    return held


@pytest.mark.large
@pytest.mark.exhaustive
def test_whole_run_interrupted_and_continued(call, monkeypatch, tmp_path):
    real = bench.Bench.train
    trained = []

    def train(bench, cell, *args):
        trained.append(cell.name)
        if trained == ["control_seed_3", "all_labels_seed_3"]:
            raise KeyboardInterrupt
        return real(bench, cell, *args)

    monkeypatch.setattr(bench.Bench, "train", train)
    arguments = ["--labels", "20", "--seeds", "3", "5", "--epochs", "2"]
    code, _, err = call(*arguments)
    assert code == 130
    assert "during all_labels_seed_3" in err
    code, out, _ = call(*arguments)
    assert code == 0
    for name in ("data", "teacher", "signal", "control_seed_3"):
        assert f"already done: {name} (" in out
    assert trained[2:] == [
        "all_labels_seed_3",
        "control_seed_5",
        "all_labels_seed_5",
        "distilled_seed_3",
        "distilled_seed_5",
    ]
    assert "McNemar" not in out
    assert re.search(r"(istillation h|difference can be shown)", out)
    card = (tmp_path / "out" / "export" / "README.md").read_text()
    assert "20 labels" in card
    assert "95 % interval" in card
    names = [
        *("teacher", "linear", "linear_all_labels"),
        *("control", "distilled", "all_labels"),
    ]
    held = check_report(tmp_path / "out" / "report.json", names, [3, 5])
    assert [m["labels"] for m in held["models"]] == [
        *(120, 20, 120),
        *(20, 20, 120),
    ]
    files = held["models"][4]["files"]
    assert list(files) == ["float32", "int8", "SavedModel"]
    for text in ("student, 20 labels", "distilled, 20", "teacher"):
        assert text in out
    assert call(*arguments)[1].count("already done") == 16


@pytest.mark.large
@pytest.mark.parametrize(
    "arguments",
    [
        variants.exhaustive(["--student", "bilstm", "--method", "hidden"]),
        variants.exhaustive(
            [
                *("--student", "bilstm", "--method", "kd"),
                *("--embeddings", "teacher", "--embedding-rank", "4"),
            ]
        ),
        ["--student", "shrink", "--method", "hidden"],
        variants.exhaustive(
            ["--student", "shrink", "--method", "mse", "--width", "16"]
        ),
        variants.exhaustive(["--student", "text_cnn", "--method", "annealing"]),
    ],
    ids=lambda arguments: "-".join(arguments[1::2]),
)
@pytest.mark.usefixtures("eager")
def test_every_student_and_method(arguments, call, tmp_path):
    assert call(*arguments)[0] == 0
    names = ["teacher", "linear", "control", "distilled"]
    check_report(tmp_path / "out" / "report.json", names, [0])
    table = (tmp_path / "out" / "report.md").read_text()
    assert "\n| export/control.tflite | " in table


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_distilled_with_a_transfer_set(call, tmp_path):
    more = tmp_path / "more.txt"
    more.write_text("a fine text\nthe dull text\n")
    arguments = ["--transfer", "augment:2", "--unlabelled", str(more)]
    assert call(*arguments, "--labels", "40")[0] == 0
    out = tmp_path / "out"
    held = _files.read_json(out / "phases" / "transfer.json")["result"]
    assert held["texts"] > 100
    records = [
        _files.read_json(out / "phases" / f"{arm}_seed_0.json")["result"]
        for arm in ("control", "distilled", "all_labels")
    ]
    assert [r["texts"] for r in records] == [40, 120 + held["texts"], 120]
    assert [r["labels"] for r in records] == [40, 40, 120]
    card = out / "export" / "README.md"
    assert "variations" in card.read_text()
    assert set(run_snippets(card)) <= {"good", "bad"}


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_finished_teacher_serves_again(call, tmp_path):
    call("--teacher-epochs", "2")
    teacher = tmp_path / "out" / "teacher.keras"
    code, _, _ = call("--teacher", str(teacher), output="next")
    assert code == 0
    held = [
        check_report(
            tmp_path / output / "report.json",
            ["teacher", "linear", "control", "distilled"],
            [0],
        )["models"][0]["test_accuracy"]
        for output in ("out", "next")
    ]
    assert held[0] == held[1]


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_what_nobody_has_chosen_follows_from_the_teacher(call, tmp_path):
    preset = tiny_runs.preset_teacher(tmp_path / "preset")
    for output, arguments, method in [
        ("scratch", (), "kd"),
        ("pretrained", ("--teacher", str(preset)), "pooled"),
        ("chosen", ("--teacher", str(preset), "--method", "mse"), "mse"),
    ]:
        code, out, _ = call(*arguments, output=output)
        assert code == 0
        assert f"distilled ({method})" in out
        held = _files.read_json(tmp_path / output / "report.json")
        assert held["settings"]["method"] == method
        assert ("weight" in held["settings"]) is (method == "pooled")


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_folder_with_a_preset_as_teacher(call, tmp_path):
    vocabulary = [*data.vocabulary.SPECIAL_TOKENS, "the", "fine", "awful"]
    preprocessor = data.bert_preprocessor(vocabulary, 16)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=len(vocabulary),
        num_layers=2,
        num_heads=2,
        hidden_dim=8,
        intermediate_dim=16,
        max_sequence_length=16,
    )
    task = keras_hub.models.BertTextClassifier(
        backbone, num_classes=2, preprocessor=preprocessor
    )
    task.save_to_preset(tmp_path / "preset")
    code, _, _ = call(
        "--teacher", str(tmp_path / "preset"), "--student", "shrink"
    )
    assert code == 0
    held = check_report(
        tmp_path / "out" / "report.json",
        ["teacher", "linear", "control", "distilled"],
        [0],
    )
    assert held["models"][0]["parameters"] == task.count_params()
    saved = tmp_path / "out" / "teacher.keras"
    teacher = keras.models.load_model(saved, compile=False)
    assert teacher.preprocessor.sequence_length == 16
    # With the state of an optimizer, as people save what they trained.
    teacher.optimizer.build(teacher.trainable_variables)
    teacher.save(tmp_path / "trained.keras")
    trained = str(tmp_path / "trained.keras")
    assert call("--teacher", trained, output="next")[0] == 0
    again = _files.read_json(tmp_path / "next" / "report.json")
    scores = [h["models"][0]["test_accuracy"] for h in (held, again)]
    assert scores[0] == scores[1]


@pytest.mark.large
@pytest.mark.exhaustive
def test_ctrl_c_in_a_process_of_its_own(texts, tmp_path):
    out = tmp_path / "out"
    # A process started in the background inherits that Ctrl-C is ignored.
    command = (
        "import signal, sys; from keras_distill.cli import main; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        "sys.exit(main())"
    )
    arguments = ["distill", "--data", str(texts), "--output", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *arguments, "--epochs", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stdout:
            if "control:" in line:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "To continue: keras-distill distill" in err
    assert "Traceback" not in err
    assert not list(out.rglob(".draft-*"))
    assert (out / "phases" / "teacher.json").exists()
    assert not (out / "phases" / "control_seed_0.json").exists()
