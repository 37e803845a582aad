"""`keras-distill gkd`: help, wrong uses, and whole tiny runs."""

import dataclasses
import json
import re

import keras
import keras_hub
import pytest
from helpers import run_snippets

from keras_distill.cli import main
from keras_distill.cli.entry_point import parse
from keras_distill.cli.gkd.options import GKD
from keras_distill.experiments import LanguageModelSettings
from keras_distill.experiments.language_models import models
from keras_distill.experiments.language_models import training


@pytest.fixture
def call(tmp_path, capsys):
    """Calls the command; exit code, output, errors."""

    def run(*arguments, output="out"):
        command = ["gkd", "--smoke", "--output", str(tmp_path / output)]
        code = main([*command, *arguments])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return run


def test_help_names_every_option(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["gkd", "--help"])
    text = capsys.readouterr().out
    assert stopped.value.code == 0
    options = GKD()
    for group in dataclasses.fields(options):
        for field in dataclasses.fields(getattr(options, group.name)):
            assert f"--{field.name.replace('_', '-')}" in text
    assert "--teacher-model" in text


@pytest.mark.parametrize(
    ("arguments", "on"),
    [
        ([], False),
        (["--seq-kd"], True),
        (["--seq_kd"], True),
        (["--seq_kd", "True"], True),
        (["--seq-kd", "true"], True),
        (["--seq_kd=True"], True),
        (["--seq_kd", "False"], False),
        (["--seq_kd=false"], False),
    ],
)
def test_a_switch_may_be_written_as_in_trl(arguments, on):
    options = parse(["gkd", "--student", "True", *arguments, "--steps", "3"])
    assert options.method.seq_kd is on
    assert options.models.student == "True"
    assert options.training.steps == 3
    assert not options.run.smoke


def test_defaults_follow_from_the_models():
    embedded = LanguageModelSettings()
    assert (embedded.student, embedded.max_completion_length) == (
        "embedded",
        20,
    )
    loaded = LanguageModelSettings(teacher="gpt2_base_en")
    assert (loaded.student, loaded.teacher_epochs) == ("shrink", 0)
    assert loaded.gkd_learning_rate == loaded.learning_rate / 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--beta", "2"], "beta=2"),
        (["--lmbda", "-1"], "lmbda=-1"),
        (["--temperature", "0"], "temperature=0"),
        (["--loss-temperature", "-1"], "loss_temperature=-1"),
        (["--sft-weight", "-1"], "sft_weight=-1"),
        (["--max_completion_length", "0"], "max_completion_length=0"),
        (["--steps", "0"], "steps=0"),
        (["--teacher-epochs", "0"], "from scratch"),
        (["--layers", "2"], "--student shrink"),
        (["--teacher", "gpt2", "--student", "embedded"], "vocabulary of the"),
        (["--teacher", "no/such/folder"], "no such folder"),
        (["--teacher-model", "no/such/folder"], "no such folder"),
        (["--student", "no/such/folder"], "student='no/such/folder'"),
        (["--data", "none.txt"], "no such file"),
    ],
)
def test_wrong_options_end_before_anything_starts(arguments, message, call):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert "Received" in err


@pytest.mark.parametrize(
    ("rows", "arguments", "message"),
    [
        ('{"prompt": "a b c"}', [], "have no completion"),
        ('{"body": "a b c"}', [], "the string 'prompt'"),
        ("a\tb", [], "exactly one column 'prompt'"),
        ("one\ntwo", ["--prompt-tokens", "90"], "longer than its prompt"),
        (
            "\n".join(["one two three four five six seven"] * 2),
            ["--prompt-tokens=2", "--max-completion-length=80"],
            "read 64 tokens",
        ),
    ],
)
def test_data_that_does_not_fit(rows, arguments, message, call, tmp_path):
    kind = {"{": "jsonl", "a": "tsv"}.get(rows[0], "txt")
    folder = tmp_path / "texts"
    folder.mkdir()
    for part in ("train", "dev"):
        (folder / f"{part}.{kind}").write_text("\n".join([rows] * 20))
    code, _, err = call("--data", str(folder), *arguments)
    assert code == 2
    assert message in err


def test_the_teacher_is_not_trained_for_an_impossible_student(
    call, monkeypatch
):
    def fit(*args):
        raise AssertionError("A training has begun.")

    monkeypatch.setattr(training, "_fit_texts", fit)
    code, _, err = call("--student", "shrink", "--layers", "9")
    assert code == 2
    assert "Received: num_layers=9. See `--layers`." in err


@pytest.mark.large
def test_a_whole_run_and_a_second_one(call, tmp_path):
    code, out, _ = call()
    assert code == 0
    assert "the teacher's cross-entropy" in out
    assert out.count("distilled:") == 4
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert set(report["seconds"]) == {
        *("data", "teacher", "start", "before", "gkd", "after", "export"),
    }
    assert report["after"]["student"]["tokens"] > 0
    path = tmp_path / "out" / "student.keras"
    student = keras.models.load_model(path, compile=False)
    assert student.count_params() == report["student"]["parameters"]
    assert not (tmp_path / "out" / "backup").exists()
    card = tmp_path / "out" / "README.md"
    assert run_snippets(card) == [""]
    assert [steps for steps, _ in report["curve"]["points"]] == [0, 3]
    after = report["after"]["student"]["reverse_kl"]
    row = "own text: KL(student ‖ teacher)"
    assert re.search(
        rf"\| {re.escape(row)} \| .* \| {after:.3f} \|", card.read_text()
    )

    code, out, _ = call()
    assert code == 0
    assert out.count("already done") == 7
    code, _, err = call("--beta", "1")
    assert code == 2
    assert "beta: 0.5 there, 1.0 now" in err


@pytest.mark.large
@pytest.mark.exhaustive
def test_a_preset_is_shrunk_and_saved_as_a_preset(call, tmp_path):
    vocabulary = {"<|endoftext|>": 0} | {
        chr(code): code - 96 for code in range(97, 123)
    }
    vocabulary |= {"Ġ": 27, "ab": 28}
    tokenizer = keras_hub.models.GPT2Tokenizer(vocabulary, ["a b"])
    backbone = keras_hub.models.GPT2Backbone(29, 2, 2, 8, 16)
    preprocessor = keras_hub.models.GPT2CausalLMPreprocessor(tokenizer, 32)
    teacher = keras_hub.models.GPT2CausalLM(backbone, preprocessor)
    teacher.save_to_preset(str(tmp_path / "teacher"))
    lines = [f"{a}{b} {b}{a} {a}{a}" for a in "abcdefg" for b in "hijklmn"]
    (tmp_path / "texts.txt").write_text("\n".join(lines))
    code, out, err = call(
        *("--teacher", str(tmp_path / "teacher"), "--prompt-tokens", "2"),
        *("--data", str(tmp_path / "texts.txt"), "--max-prompt-length", "3"),
    )
    assert (code, err) == (0, ""), err
    student = keras_hub.models.CausalLM.from_preset(
        str(tmp_path / "out" / "student")
    )
    assert student.backbone.num_layers == 1
    assert run_snippets(tmp_path / "out" / "student" / "README.md") == [""]
    assert isinstance(student.generate("ab", max_length=6), str)


def test_text_is_free_of_special_tokens():
    from keras_distill import data

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "##s"]
    tokenizer = data.bert_preprocessor(vocabulary).tokenizer
    assert models.text(tokenizer, [2, 5, 6, 3, 0]) == "goods"
