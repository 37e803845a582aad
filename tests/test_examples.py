"""Each example runs with tiny sizes, and is short."""

import ast
import pathlib
import re
import runpy
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
SHARE = r"\d+\.\d%"
LINES = {
    "bert_to_text_cnn": [
        rf"{name} +[\d,]+ parameters  {SHARE}$"
        for name in ("teacher", "few labels", "distilled")
    ],
    "gkd_stories": [
        rf"{name} +own text: KL\(student \|\| teacher\) \d\.\d{{3}}, "
        for name in ("start", "distilled")
    ],
    "hidden_matches": [
        r"soft_loss +\d",
        r"hidden_mse_\w+ +\d+\.\d{4} -> +\d+\.\d{4}$",
        r"neuron_selectivity_\S*transformer_layer_1\S* +\d",
        rf"teacher test accuracy: {SHARE}$",
        rf"student test accuracy: {SHARE}$",
    ],
    "annealing_kd": [
        rf"0\s+0\s+3.0\s+{SHARE}$",
        rf"2\s+0\s+1.0\s+{SHARE}$",
        rf"3\s+1\s+1.0\s+{SHARE}$",
        rf"student test accuracy: {SHARE}$",
    ],
    "images": [
        r"1,452 images, shift$",
        *(
            rf"{name} +{SHARE}$"
            for name in ("teacher", "hard labels", "KD", "KD and hidden states")
        ),
    ],
    "vectors": [
        r"neighbours kept on test$",
        *(
            rf"{name} +{SHARE}$"
            for name in ("teacher", "linear", "control", "distilled")
        ),
        r"distilled_vectors\.npz [\d,]+ bytes$",
        r"1\.00 .+",
    ],
    "pairs": [
        *(rf"{name} +{SHARE}$" for name in ("teacher", "linear")),
        *(
            rf"{student}, {how} +{SHARE}$"
            for student in ("TextCNN", "BiLSTM")
            for how in ("hard labels", "logit MSE", "KD")
        ),
        r"(same|another): .+ / .+",
    ],
    "tags": [
        r"entity F1 on test$",
        *(
            rf"{name} +{SHARE}$"
            for name in ("teacher", "linear", "control", "distilled")
        ),
        r".+: \[.*\]$",
    ],
    "few_bits": [
        *(rf"{name} +{SHARE}$" for name in ("whole", "cut")),
        *(
            rf"{name} +[\d,]+ bytes, \d\.\d+ ms, agreement {SHARE}$"
            for name in ("whole", "cut", "int4 afterwards", "int4 trained")
        ),
    ],
    "several_labels": [
        r"(micro F1|Pearson) on test$",
        *(
            rf"{name} +{SHARE}$"
            for name in ("teacher", "linear", "control", "distilled")
        ),
    ],
    "export_tflite": [
        rf"student_{kind} +answers \w+, agreement {SHARE}, \d+ kB, \d+.\d+ ms$"
        for kind in (
            "float32.tflite",
            "dynamic.tflite",
            "int8.tflite",
            "saved_model",
        )
    ],
}
OPTIONS = {
    "annealing_kd": [[], ["--control", "one_stage"]],
    "several_labels": [[], ["--scores"]],
}
# What these are made of other tests and the blocks of the docs hold in CI.
SLOW = {
    "annealing_kd",
    "export_tflite",
    "few_bits",
    "hidden_matches",
    "images",
    "pairs",
}
RUNS = [
    pytest.param(
        name,
        options,
        id="".join([name, *options]),
        marks=[pytest.mark.exhaustive] if options or name in SLOW else [],
    )
    for name in LINES
    for options in OPTIONS.get(name, [[]])
]


def test_readme_counts_them():
    words = ["nine", "ten", "eleven", "twelve", "thirteen"]
    readme = (ROOT / "README.md").read_text()
    assert f"{words[len(EXAMPLES) - 9]} complete programs" in readme


def test_every_example_is_run():
    assert [path.stem for path in EXAMPLES] == sorted(LINES)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_is_short_and_says_how_to_run_it(path):
    source = path.read_text()
    assert len(source.splitlines()) <= 120
    docstring = ast.get_docstring(ast.parse(source))
    assert f"python examples/{path.name} --smoke" in docstring


@pytest.mark.large
# Keras says so of every dataset, whatever `fit` was told.
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")
@pytest.mark.parametrize(("name", "options"), RUNS)
def test_runs(name, options, tmp_path, monkeypatch, capfd):
    path = ROOT / "examples" / f"{name}.py"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path), "--smoke", *options])
    runpy.run_path(str(path), run_name="__main__")
    printed = capfd.readouterr().out
    expected = LINES[name]
    if options:
        expected = expected[-1:]
    for line in expected:
        assert re.search(rf"^{line}", printed, re.MULTILINE), printed
