"""Texts of many scripts, from a table to files."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 - Operations of exported tokenizers.

from keras_distill.cli import main

# Of each script words of praise and of blame.
WORDS = {
    "Chinese": ("好吃 便宜 喜欢 不错", "难吃 太贵 再也不来 很差", ""),
    "Japanese": ("面白い 素晴らしい 好き", "つまらない ひどい 嫌い", ""),
    "Arabic": ("رائع جميل ممتاز", "سيئ قبيح فظيع", " "),
    "Hindi": ("अच्छा सुंदर बढ़िया", "बुरा खराब गंदा", " "),
    "emoji": ("😀 👍🏽 ❤️", "😡 👎 💔", " "),
}


def write(path, rows=300):
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["text", "label"])
        for row in range(rows):
            *words, blank = list(WORDS.values())[row % len(WORDS)]
            label = int(rng.integers(2))
            chosen = rng.choice(words[label].split(), 4)
            table.writerow([f"{row}{blank or ' '}{blank.join(chosen)}", label])
    return path


@pytest.mark.large
@pytest.mark.exhaustive
def test_scripts_go_from_a_table_to_files(tmp_path, capsys):
    path = write(tmp_path / "texts.csv")
    arguments = [
        *("distill", "--data", str(path), "--keep-weak-teacher"),
        *("--teacher-epochs", "3", "--width", "16", "--epochs", "12"),
        *("--output", str(tmp_path / "run")),
    ]
    assert main(arguments) == 0
    assert "unknown" not in capsys.readouterr().out
    report = json.loads((tmp_path / "run/report.json").read_text())
    exported = report["exported"]
    shipped = {m["name"]: m for m in report["models"]}[exported]
    assert np.mean(shipped["test_score"]) > 0.8
    folder = tmp_path / "run/export" / shipped["files"]["SavedModel"]["path"]
    serve = tf.saved_model.load(str(folder)).signatures["serving_default"]
    for *sides, blank in WORDS.values():
        texts = [blank.join(side.split()) for side in sides]
        logits = serve(text=tf.constant(texts))["logits"].numpy()
        assert logits.argmax(axis=-1).tolist() == [0, 1]
