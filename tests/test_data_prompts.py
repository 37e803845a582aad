"""Prompts and completions from files, and the files that are refused."""

import json

import pytest

from keras_distill._errors import UsageError
from keras_distill.data.prompts import load_prompts
from keras_distill.data.prompts import read_prompts
from keras_distill.experiments import LanguageModelSettings
from keras_distill.experiments.language_models import texts

STORIES = [f"Story number {i} ends well." for i in range(60)]


def written(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def test_a_text_file_has_texts_without_prompts(tmp_path):
    path = written(tmp_path / "a.txt", "One.\n\n  Two. \n")
    assert read_prompts(path) == [(None, "One."), (None, "Two.")]


def test_objects_have_prompts_and_perhaps_completions(tmp_path):
    rows = [{"prompt": "1 + 1 =", "completion": " 2"}, {"prompt": "2 + 2 ="}]
    path = written(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_prompts(path) == [("1 + 1 =", " 2"), ("2 + 2 =", None)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.jsonl", '{"text": "One,\\ntwo."}\n{"text": "Three."}'),
        ("a.csv", 'label,text\n1,"One,\ntwo."\n0,Three.\n'),
    ],
)
def test_whole_texts_of_objects_and_tables(tmp_path, name, text):
    found = read_prompts(written(tmp_path / name, text))
    assert found == [(None, "One,\ntwo."), (None, "Three.")]


def test_tables_have_prompts_and_perhaps_completions(tmp_path):
    path = written(tmp_path / "a.csv", 'prompt,completion\n"a, b",c\nd,\n')
    assert read_prompts(path) == [("a, b", "c"), ("d", None)]


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
def test_tables_keep_what_a_language_model_learns(tmp_path, suffix):
    """`-1` was a missing completion, and blanks were stripped."""
    rows = [
        ("1 - 2 =", "-1"),
        ("1 + 1 =", " 2"),
        ("  if x:", "    y "),
        ("a", ""),
    ]
    between = "," if suffix == ".csv" else "\t"
    lines = [between.join(row) for row in [("prompt", "completion"), *rows]]
    path = written(tmp_path / f"a{suffix}", "\n".join(lines))
    assert read_prompts(path) == [*rows[:3], ("a", None)]


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl"])
def test_only_line_ends_end_lines(tmp_path, name):
    text = "one\u2028two\u2029three\x85four\x7ffive"
    rows = [text, "another"]
    if name == "a.jsonl":
        rows = [json.dumps({"prompt": t}, ensure_ascii=False) for t in rows]
    found = read_prompts(written(tmp_path / name, "\r\n".join(rows)))
    assert [prompt or whole for prompt, whole in found] == [text, "another"]


def test_a_tenth_is_held_out_where_there_is_no_dev(tmp_path):
    path = written(tmp_path / "a.txt", "\n".join(STORIES))
    splits = load_prompts(path)
    assert len(splits.train) + len(splits.dev) == len(STORIES)
    assert 1 <= len(splits.dev) <= 15
    assert not set(splits.train) & set(splits.dev)
    assert splits == load_prompts(path)
    assert f"{len(splits.dev)} rows" in splits.notes[0]


def test_prompts_that_are_held_out_are_not_in_train(tmp_path):
    rows = [
        json.dumps({"prompt": f"prompt {i}", "completion": f"{j}"})
        for i in range(60)
        for j in range(5)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(rows))
    found = load_prompts(tmp_path / "a.jsonl")
    train, dev = ({p for p, _ in part} for part in (found.train, found.dev))
    assert train
    assert dev
    assert not train & dev


def test_an_empty_completion_of_an_object_is_none(tmp_path):
    row = json.dumps({"prompt": "a", "completion": ""})
    (tmp_path / "train.jsonl").write_text(row)
    (tmp_path / "dev.jsonl").write_text(row)
    assert load_prompts(tmp_path).train == [("a", None)]


def test_a_folder_with_dev_is_taken_as_it_is(tmp_path):
    written(tmp_path / "train.txt", "One.\nTwo.")
    written(tmp_path / "dev.jsonl", '{"prompt": "Three"}')
    splits = load_prompts(tmp_path)
    assert len(splits.train) == 2
    assert splits.dev == [("Three", None)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.txt", "\n \n", "must have rows"),
        ("a.txt", "One.", "too few rows to hold"),
        ("a.jsonl", "{", "a JSON object. Received: .* in a.jsonl, line 1"),
        ("a.jsonl", '{"completion": "b"}', "with the string 'prompt'"),
        ("a.jsonl", '{"prompt": "a", "completion": 3}', "in a.jsonl, line 1"),
        ("a.jsonl", '{"prompt": " ", "completion": "a"}', "the string 'text'"),
        ("a.jsonl", '{"text": ["a"]}', "the string 'text'"),
        ("a.jsonl", '["prompt"]', "names with values between braces"),
        ("a.csv", "body,label\na,b\n", "exactly one column 'prompt'"),
        ("a.csv", 'prompt,completion\na,"b\n', "begins in a.csv, line 2"),
        ("a.csv", "prompt,completion\n ,b\n", "empty prompt in a.csv, line 2"),
        ("a.jsonl", r'{"prompt": "\ud83d"}', "half of a surrogate pair, in a"),
        ("a.txt", "a\0b", "NUL character in line 1"),
        ("a.docx", "a", "one of the kinds"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, name, text, message):
    with pytest.raises(ValueError, match=message):
        load_prompts(written(tmp_path / name, text))


def test_folders_of_another_kind_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="must hold train"):
        load_prompts(tmp_path)
    written(tmp_path / "train.txt", "One.")
    written(tmp_path / "train.jsonl", '{"prompt": "a"}')
    with pytest.raises(ValueError, match="one file for train"):
        load_prompts(tmp_path)


@pytest.mark.parametrize(
    ("held", "chosen", "expected"),
    [
        ((6, 10), (None, None), (7, 11)),
        ((6, 300), (None, None), (7, 57)),  # The embedded models read 64.
        ((200, 10), (None, None), (53, 11)),
        ((200, 300), (None, None), (32, 32)),
        ((6, None), (None, None), (7, 57)),
        ((6, 300), (20, None), (20, 44)),
        ((200, 10), (None, 60), (4, 60)),
        ((6, 10), (None, 64), "Received: 1 and 64"),
        ((6, 10), (60, 5), "Received: 60 and 5"),
    ],
)
def test_lengths_follow_the_data_and_the_models(held, chosen, expected):
    settings = LanguageModelSettings(
        max_prompt_length=chosen[0],
        max_completion_length=chosen[1],
    )
    prompt, completion = held
    row = [0] * prompt, completion and [0] * completion
    tokens = {"train": [row, ([0], row[1] and [0])], "dev": [row]}
    if isinstance(expected, str):
        with pytest.raises(UsageError, match=expected):
            texts.lengths(tokens, settings)
    else:
        assert texts.lengths(tokens, settings) == expected


def test_short_texts_have_short_prompts(tmp_path):
    path = tmp_path / "texts.txt"
    lines = [f"{'a b c d e ' * 2}{n}" for n in range(60)]
    path.write_text("\n".join([*lines, "a b", "a"] * 9))
    found = texts.build(LanguageModelSettings(data=str(path)), tmp_path)
    assert found["max_prompt_length"] == 4  # A third of eleven, and a start.
    assert found["left_out"]["train"] + found["left_out"]["dev"] == 18
    assert "18 texts as short" in texts.summary(found)
    assert found["cut"] == {"prompts": 0, "completions": 0}
