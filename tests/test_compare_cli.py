"""`keras-distill compare`: options, arms, and a whole tiny run."""

import dataclasses
import json
import re
import signal
import subprocess
import sys

import pytest
import tiny_text
from helpers import run_snippets

from keras_distill import _kinds
from keras_distill._errors import UsageError
from keras_distill.cli import main
from keras_distill.cli.compare import command
from keras_distill.cli.compare import options as options_module
from keras_distill.cli.compare.options import Compare
from keras_distill.cli.shared import choices
from keras_distill.cli.shared.options import Learning
from keras_distill.experiments import bench
from keras_distill.experiments import comparing
from keras_distill.experiments import configurations
from keras_distill.experiments import engine
from keras_distill.experiments import training
from keras_distill.experiments.preparation import Preparation
from keras_distill.students import TextCNN
from keras_distill.tasks.base import Task

SIZES = {"train": 60, "dev": 20, "test": 20}


@pytest.fixture
def texts(tmp_path):
    """A folder with train, dev and test, two classes that words tell apart."""
    return tiny_text.write(tmp_path / "texts", SIZES)


@pytest.fixture
def call(texts, tmp_path, capsys):
    """Calls the command on the tiny texts; exit code, output, errors."""

    def run(*arguments):
        given = ["compare", "--smoke", "--data", str(texts)]
        code = main([*given, "--output", str(tmp_path / "out"), *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def options_of(**changes):
    options = Compare()
    for group in dataclasses.fields(options):
        held = getattr(options, group.name)
        mine = {k: v for k, v in changes.items() if hasattr(held, k)}
        changed = dataclasses.replace(held, **mine)
        options = dataclasses.replace(options, **{group.name: changed})
    return options


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["compare", "--help"])
    text = capsys.readouterr().out
    assert stopped.value.code == 0
    options = Compare()
    for group in dataclasses.fields(options):
        for field in dataclasses.fields(getattr(options, group.name)):
            # What is done by default has the option to leave it out.
            no = "no-" * (field.default is True)
            assert f"--{no}{field.name.replace('_', '-')}" in text


WRONG = [
    (["--seeds", "0"], "at least 1"),
    (["--arms", "kd", "mse"], "the control"),
    (["--arms", "hard", "hard"], "must differ"),
    (["--arms", "hard", "hidden"], "--student shrink"),
    (["--arms", "hard", "annealing", "--epochs", "2"], "more epochs"),
    (["--student", "bilstm", "bilstm"], "different kinds"),
    (["--layers", "2"], "--student shrink"),
    (["--epochs", "0"], "epochs=0"),
    (["--max-temperature", "0"], "max_temperature=0"),
    (["--cost-per-hour", "-2"], "cost_per_hour=-2"),
    (["--transfer", "much"], "augment:20"),
    (["--unlabelled", "none.txt"], "no such file"),
    (["--data", "none.tsv"], "no such file"),
    (["--teacher", "no/such/folder"], "no such folder"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_wrong_options_end_before_anything_starts(
    arguments, message, call, tmp_path
):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Received" in err
    assert not (tmp_path / "out").exists()


def test_what_makes_the_page_is_asked_for_first(call, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    code, _, err = call()
    assert code == 2
    assert "pip install 'keras-distill[report]'" in err
    assert "--no-html" in err
    assert not (tmp_path / "out").exists()


def students_of(prepared, options, learning=None):
    named = command.recipes(options, Task.recipes)
    return choices.students(
        options.what.student,
        learning or Learning(),
        prepared,
        list(named.values()),
    )


def test_students_differ_in_what_is_theirs():
    cnn, shrink = students_of(
        Preparation(),
        options_of(student=("text_cnn", "shrink")),
        Learning(layers=1),
    ).values()
    assert (cnn.epochs, shrink.epochs) == (10, 4)
    assert (cnn.learning_rate, shrink.learning_rate) == (2e-3, 5e-4)
    assert (hasattr(cnn, "layers"), shrink.layers) == (False, 1)
    assert command._seeds(options_of()) == (0, 1, 2)
    json.dumps([vars(cnn), vars(shrink)])


def test_rows_of_n_grams_are_the_students_own():
    cnn, ngram = students_of(
        Preparation(),
        options_of(student=("text_cnn", "ngram")),
        Learning(buckets=64, ngram_buckets=32),
    ).values()
    assert (cnn.ngram_buckets, ngram.buckets, ngram.width) == (32, 64, 32)
    # Only copied layers are fine-tuned as their teacher is.
    assert (ngram.epochs, ngram.learning_rate) == (20, 5e-3)


def test_new_embeddings_have_n_grams_beside_them():
    def buckets(**given):
        found = students_of(Preparation(), options_of(), Learning(**given))
        return found["text_cnn"].ngram_buckets

    assert buckets() == 2**14
    assert buckets(ngram_buckets=None) is None
    assert buckets(ngram_buckets=8) == 8
    smoke = students_of(Preparation(smoke=True), options_of())
    assert smoke["text_cnn"].ngram_buckets is None


def test_a_smoke_test_has_one_seed():
    assert command._seeds(options_of(smoke=True)) == (0,)


@pytest.mark.parametrize("further", [True, False])
def test_arms_by_default(further):
    task = tiny_text.task(tiny_text.TRANSFER if further else ())
    found = command.recipes(options_of(), command.default_arms(task, None))
    names = [recipe.name for recipe in found.values()]
    assert names[:3] == ["hard labels", "logit MSE", "KD"]
    assert len(names) == (6 if further else 3)
    assert all(name.endswith(" + transfer") for name in names[3:])


def test_arms_by_name():
    given = (
        "hard",
        "annealing+transfer",
        "two_stage",
        "hidden",
        "kd",
    )
    options = options_of(
        student=("bilstm",),
        arms=given,
        max_temperature=4,
        temperature=3.0,
        hard_weight=0.1,
        soft_weight=0.9,
    )
    found = command.recipes(options)
    assert tuple(found) == given
    hard, annealing, flat, hidden, kd = found.values()
    assert hard.is_control
    assert annealing.transfer
    stages = annealing.stages(12)
    assert [s.epochs for s in stages] == [8, 4]
    assert [stages[0].temperature(e) for e in (0, 7)] == [4, 1]
    assert flat.stages(12)[0].temperature == 1
    assert kd.soft_loss.temperature == hidden.soft_loss.temperature == 3
    assert (kd.hard_weight, kd.soft_weight) == (0.1, 0.9)
    told = configurations.configuration(hidden.matches)
    assert "match_states" in json.dumps(told)


def test_every_arm_of_the_options_exists():
    names = options_module.Arm.__args__
    kinds = {name.removesuffix("+transfer") for name in names}
    assert kinds == set(_kinds.RECIPES)
    # No training is none on further text either.
    assert len(names) == 2 * len(kinds) - 1
    assert len(command.recipes(options_of(), names)) == len(names)


def test_transfer_arms_need_text():
    task = tiny_text.task(transfer=())
    named = command.recipes(options_of(arms=("hard", "kd+transfer")))
    planned = comparing.cells({"CNN": TextCNN()}, named.values(), (0,), None)
    with pytest.raises(UsageError, match="--unlabelled"):
        engine.check(planned, task, None)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--arms", "hard", "kd+transfer"],
            "The arm 'KD + transfer' needs text",
        ),
        (["--student", "text_cnn", "shrink", "--layers", "9"], "num_layers=9."),
    ],
)
def test_the_teacher_is_not_trained_for_what_cannot_be(
    arguments, message, call, monkeypatch
):
    def fit(*args):
        raise AssertionError("A training has begun.")

    monkeypatch.setattr(training, "fit", fit)
    code, _, err = call(*arguments)
    assert code == 2
    assert message in err


@pytest.mark.large
@pytest.mark.usefixtures("eager")
def test_whole_run_interrupted_and_continued(call, monkeypatch, tmp_path):
    real, trained = bench.Bench.train, []

    def train(bench, cell, *args):
        trained.append(cell.name)
        if len(trained) == 2:
            raise KeyboardInterrupt
        return real(bench, cell, *args)

    monkeypatch.setattr(bench.Bench, "train", train)
    arguments = ["--labels", "20", "--seeds", "2", "--epochs", "2"]
    arguments += ["--arms", "hard", "kd", "hard+transfer", "kd+transfer"]
    code, _, err = call(*arguments)
    assert code == 130
    assert "during TextCNN, hard labels, seed 1" in err
    assert "keras-distill compare --smoke" in err
    code, out, _ = call(*arguments)
    assert code == 0
    for name in ("data", "teacher", "signal", "TextCNN, hard labels, seed 0"):
        assert f"already done: {name} (" in out
    assert len(trained) == 9
    assert re.search(r"TextCNN: (distillation h|no difference)", out)
    folder = tmp_path / "out"
    held = json.loads((folder / "report.json").read_text())
    assert [row["texts"] for row in held["rows"]] == [20, 20, 60, 60]
    assert [row["labels"] for row in held["rows"]] == [20] * 4
    for name in ("report.html", "report.md"):
        assert "20 of the train labels" in (folder / name).read_text()
    card = folder / "export" / "textcnn" / "README.md"
    assert set(run_snippets(card)) <= {"good", "bad"}
    code, _, err = call(*arguments, "--temperature", "2")
    assert code == 2
    assert "--redo" in err


@pytest.mark.large
@pytest.mark.exhaustive
@pytest.mark.usefixtures("eager")
def test_students_arms_and_transfer_set(call, texts, tmp_path):
    more = tmp_path / "more.txt"
    more.write_text("a fine text\nthe dull text\n")
    code, out, _ = call(
        *("--student", "bilstm", "shrink", "--no-html"),
        *("--arms", "hard", "hidden+transfer", "annealing", "two_stage"),
        *("--epochs", "3", "--max-temperature", "2"),
        *("--transfer", "augment:2", "--unlabelled", str(more)),
    )
    assert code == 0
    assert out.count("KD and hidden states + transfer") >= 2
    held = json.loads((tmp_path / "out" / "report.json").read_text())
    assert len(held["rows"]) == 8
    transfer = held["task"]["transfer_rows"]
    assert transfer > 50
    assert held["rows"][1]["texts"] == 60 + transfer
    assert not (tmp_path / "out" / "report.html").exists()


@pytest.mark.large
@pytest.mark.exhaustive
def test_ctrl_c_in_a_process_of_its_own(texts, tmp_path):
    command_line = (
        "import signal, sys; from keras_distill.cli import main; "
        "signal.signal(signal.SIGINT, signal.default_int_handler); "
        "sys.exit(main())"
    )
    out = tmp_path / "out"
    arguments = ["compare", "--data", str(texts), "--output", str(out)]
    process = subprocess.Popen(
        [sys.executable, "-c", command_line, *arguments, "--epochs", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stdout:
            if "hard labels, seed 0" in line:
                break
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "during TextCNN, hard labels, seed 0" in err
    assert "Traceback" not in err
    assert not list(out.rglob(".draft-*"))
