"""`keras-distill compare`: options, arms, and a whole tiny run."""

import dataclasses
import json
import re
import signal
import subprocess
import sys
import types

import numpy as np
import pytest
from helpers import run_snippets

from keras_distill import data
from keras_distill.cli import main
from keras_distill.cli import training
from keras_distill.cli.compare import command
from keras_distill.cli.compare import options as options_module
from keras_distill.cli.compare.options import Compare
from keras_distill.cli.compare.settings import settle
from keras_distill.cli.problems import UsageProblem

WORDS = {"good": "fine great nice lovely", "bad": "awful poor dull sad"}
SIZES = {"train": 60, "dev": 20, "test": 20}


@pytest.fixture
def texts(tmp_path):
    """A folder with train, dev and test, two classes that words tell apart."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "texts"
    folder.mkdir()
    for part, count in SIZES.items():
        lines = ["text\tlabel"]
        for row in range(count):
            label = ["good", "bad"][row % 2]
            words = rng.choice(WORDS[label].split(), 3)
            lines.append(f"{part} {row} the {' '.join(words)}\t{label}")
        (folder / f"{part}.tsv").write_text("\n".join(lines) + "\n")
    return folder


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
            assert f"--{field.name.replace('_', '-')}" in text


WRONG = [
    (["--seeds", "0"], "at least 1"),
    (["--arms", "kd", "mse"], "the control"),
    (["--arms", "hard", "hard"], "must differ"),
    (["--arms", "hard", "hidden"], "--student shrink"),
    (["--arms", "hard", "annealing"], "more epochs"),
    (["--student", "bilstm", "bilstm"], "different kinds"),
    (["--layers", "2"], "--student shrink"),
    (["--epochs", "0"], "epochs=0"),
    (["--max-temperature", "0"], "max_temperature=0"),
    (["--cost-per-hour", "-2"], "cost_per_hour=-2"),
    (["--transfer", "much"], "augment:20"),
    (["--unlabelled", "none.txt"], "exists"),
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


def test_students_differ_in_what_is_theirs():
    settings = settle(options_of(student=("text_cnn", "shrink"), layers=1))
    cnn, shrink = settings.students.values()
    assert (cnn.epochs, shrink.epochs) == (10, 4)
    assert (cnn.learning_rate, shrink.learning_rate) == (2e-3, 5e-4)
    assert (cnn.layers, shrink.layers) == (None, 1)
    assert cnn.seeds == shrink.seeds == (0, 1, 2)
    json.dumps(settings.resolved())


def test_transfer_text_takes_more_steps():
    settings = settle(options_of(transfer="augment:5"))
    assert settings.shared.transfer == 5
    assert settings.shared.epochs == 30
    assert settle(options_of(smoke=True)).shared.seeds == (0,)


def corpus(further):
    """Stands in for a `Corpus` of four texts, with a transfer set or none."""
    part = data.TextDataset(["a", "b", "c", "d"], [0, 1, 0, 1])
    splits = data.TextSplits(part, part, part, ["no", "yes"])
    return types.SimpleNamespace(
        splits=splits, transfer=part if further else None
    )


@pytest.mark.parametrize("further", [True, False])
def test_arms_by_default(further):
    arms = command.chosen_arms(settle(options_of()), corpus(further))
    names = [arm.name for arm in arms]
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
        epochs=12,
        max_temperature=4,
        temperature=3.0,
        hard_weight=0.1,
        soft_weight=0.9,
    )
    settings = settle(options)
    hard, annealing, flat, hidden, kd = command.chosen_arms(
        settings, corpus(True)
    )
    assert hard.is_control
    assert annealing.transfer
    stages = annealing.stages(12)
    assert [s.epochs for s in stages] == [8, 4]
    assert [stages[0].temperature(e) for e in (0, 7)] == [4, 1]
    assert flat.stages(12)[0].temperature == 1
    assert hidden.matches is command.hidden_matches
    assert kd.soft_loss.temperature == 3
    assert (kd.hard_weight, kd.soft_weight) == (0.1, 0.9)
    assert "hidden_matches" in json.dumps(hidden.options(3))


def test_every_arm_of_the_options_exists():
    names = options_module.Arm.__args__
    kinds = {name.removesuffix("+transfer") for name in names}
    assert kinds == set(command.ARM_NAMES)
    assert len(names) == 2 * len(kinds)


def test_transfer_arms_need_text():
    settings = settle(options_of(arms=("hard", "kd+transfer"), labels="all"))
    with pytest.raises(UsageProblem, match="--unlabelled"):
        command.chosen_arms(settings, corpus(False))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--arms", "hard", "kd+transfer"], "The arm kd+transfer needs text"),
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
def test_whole_run_interrupted_and_continued(call, monkeypatch, tmp_path):
    from keras_distill.comparison import cells

    real, trained = cells.train, []

    def train(cell, *args):
        trained.append(cell.name)
        if len(trained) == 2:
            raise KeyboardInterrupt
        return real(cell, *args)

    monkeypatch.setattr(cells, "train", train)
    arguments = ["--labels", "20", "--seeds", "2", "--epochs", "2"]
    arguments += ["--arms", "hard", "kd", "hard+transfer", "kd+transfer"]
    code, _, err = call(*arguments)
    assert code == 130
    assert "during TextCNN, KD, seed 0" in err
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
