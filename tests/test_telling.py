"""What the columns of a table, and what they hold, tell of its task."""

import json

import pytest

from keras_distill.data import sources
from keras_distill.data.columns import TEXTS
from keras_distill.experiments import Preparation


@pytest.mark.parametrize(
    "columns", [texts for texts in TEXTS if len(texts) == 2]
)
def test_columns_of_pairs_are_known_by_their_names(tmp_path, columns):
    for part in ("train", "dev", "test"):
        text = "\t".join([*columns[::-1], "label"]) + "\nb\ta\t1\n"
        (tmp_path / f"{part}.tsv").write_text(text)
    found = Preparation(data=tmp_path)
    assert (found.text_column, found.text_pair_column) == columns
    assert found.task == "pairs"
    assert Preparation(data=tmp_path, task="text").text_pair_column is None
    named = Preparation(data=tmp_path, text_column=columns[1])
    assert named.task == "text"


@pytest.mark.parametrize(
    ("header", "text", "label"),
    [
        ("text,label", None, None),
        ("text,sentence1,sentence2,category", None, "category"),
        ("sentence1,label", "sentence1", None),
        ("id,Review,Sentiment", "Review", "Sentiment"),
        ("Text,label", "Text", None),
        # Which of two is meant, their user has to say.
        ("review,content,sentiment,topic", None, None),
        ("review,content,topic,label", None, None),
        ("", None, None),
    ],
)
def test_columns_of_single_texts(tmp_path, header, text, label):
    path = tmp_path / "all.csv"
    path.write_text(header + "\n")
    found = Preparation(data=path)
    assert (found.task, found.text_pair_column) == ("text", None)
    assert (found.text_column, found.label_column) == (text, label)
    named = Preparation(data=path, text_column="a", label_column="b")
    assert (named.text_column, named.label_column) == ("a", "b")


def test_a_first_line_of_mere_text_is_no_header(tmp_path):
    path = tmp_path / "train.txt"
    path.write_text("review\nthe next text\n")
    assert sources.header_of(path) == []


@pytest.mark.parametrize("source", ["docstrings", "tfds:glue/mrpc", "no.csv"])
def test_what_has_no_header_is_no_table_of_pairs(source):
    assert sources.header_of(source) == []


def table(folder, *rows):
    path = folder / "all.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


def told(path, **chosen):
    found = Preparation(data=path, **chosen)
    return found.task, found.text_column, found.label_column


@pytest.mark.parametrize(
    ("header", "text", "label"),
    [
        ("tweet,mood", "tweet", "mood"),
        ("mood,text", None, "mood"),
        ("label,body", "body", None),
        ("body,Intent", "body", "Intent"),
        # Neither is known, and both repeat, or there is a third one.
        ("body,mood", None, None),
        ("id,tweet,mood", "tweet", None),
    ],
)
def test_of_two_columns_one_tells_the_other(tmp_path, header, text, label):
    rows = (
        ("a,a", "a,b", "b,a", "b,b") if header.count(",") == 1 else ("a,b,c",)
    )
    path = table(tmp_path, header, *rows)
    assert told(path) == ("text", text, label)
    assert told(path, task="multi_label")[1:] == (text, label)


def test_a_column_of_the_rows_names_is_no_class(tmp_path):
    path = table(tmp_path, "number,text", "1,good", "1,bad", "2,good")
    assert told(path) == ("text", None, None)
    assert told(path, label_column="number") == ("text", None, "number")
    sentiments = table(tmp_path, "sentiment,text", "1,good", "2,bad")
    assert told(sentiments) == ("text", None, "sentiment")


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (["a,x", "b,x", "c,y", "d,y"], ("text", "one", "two")),
        (["x,a", "x,b", "y,c", "y,d"], ("text", "two", "one")),
        (["a,0.5", "b,1.5", "c,2"], ("regression", "one", "two")),
        (["a,x", "b,y", "c,z"], ("text", None, None)),
    ],
)
def test_of_two_unknown_columns_the_labels_repeat(tmp_path, rows, expected):
    path = table(tmp_path, "one,two", *rows)
    assert told(path) == expected


@pytest.mark.parametrize(
    "rows", [["a,x", "b,y", "c,x", "d,y"], ["a,1.5", "b,0.5", "c,2"]]
)
def test_a_first_row_is_no_header(tmp_path, rows):
    assert told(table(tmp_path, *rows)) == ("text", None, None)
    known = table(tmp_path, "text,spam", "a,spam", "b,ham", "c,spam", "d,ham")
    assert told(known) == ("text", None, "spam")


def test_of_two_columns_one_is_named(tmp_path):
    path = table(tmp_path, "one,two", "a,x", "b,y", "b,z")
    assert told(path, label_column="two") == ("text", "one", "two")
    assert told(path, text_column="one") == ("text", "one", None)
    path = table(tmp_path, "one,two", "a,x", "b,x")
    assert told(path, text_column="one") == ("text", "one", "two")
    path = table(tmp_path, "topic,x", "a,x", "b,x")
    assert told(path) == ("text", "x", "topic")
    assert told(path, label_column="x") == ("text", "topic", "x")


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        (["1.5", "-2", "", "3e-1"], "regression"),
        (["1.0", "0.0", "-1.0"], "text"),
        (["1", "2", "5"], "text"),
        (["1.5", "v2"], "text"),
        (["1.5", "nan"], "text"),
        (["1.5", "inf"], "text"),
        (["", ""], "text"),
    ],
)
@pytest.mark.parametrize("suffix", [".tsv", ".jsonl"])
def test_numbers_that_are_not_whole_are_scores(tmp_path, labels, task, suffix):
    path = tmp_path / f"all{suffix}"
    rows = [{"text": "a", "label": label} for label in [*labels, labels[0]]]
    if suffix == ".tsv":
        lines = ["text\tlabel", *["\t".join(row.values()) for row in rows]]
    else:
        lines = map(json.dumps, rows)
    path.write_text("\n".join(lines))
    assert told(path) == (task, None, None)
    assert told(path, task="text")[0] == "text"
    assert told(path, label_column="label")[0] == task
    assert told(path, label_column="label", text_pair_column="b")[0] == {
        "text": "pairs"
    }.get(task, task)


def test_scores_beside_a_known_text(tmp_path):
    path = table(tmp_path, "tweet,valence", "good,2.25", "bad,-1", "so so,.5")
    assert told(path) == ("regression", "tweet", "valence")
    assert told(path, task="regression") == ("regression", "tweet", "valence")
    path = table(tmp_path, "score,body", "1,good", "2,bad")
    assert told(path) == ("regression", "body", None)


def test_scores_of_pairs(tmp_path):
    path = table(tmp_path, "sentence1,sentence2,label", "a,b,2.5", "a,c,5")
    assert told(path) == ("regression", "sentence1", None)
    assert Preparation(data=path).text_pair_column == "sentence2"
