"""Distil a tagger of named entities, and read entities off its TFLite file.

    python examples/tags.py --smoke
    python examples/tags.py
    python examples/tags.py --data FOLDER --teacher FOLDER

Without `--data`, a folder with `train.conll` and so on, the sentences are made
here: who travels where. The teacher without `--teacher` is a BERT from scratch.
The student is a BiLSTM; beside it stand its control, on labels alone, and a
linear model.
"""

import argparse
import pathlib
import tempfile

import numpy as np
from ai_edge_litert.interpreter import Interpreter

import keras_distill as kd

STARTS = ("An", "Bel", "Cor", "Dor", "Fin", "Gil", "Hel", "Jor", "Mar", "Pel")
ENDS = {
    "person": ("na", "ta", "mir", "ka", "ro", "wen"),
    "place": ("burg", "heim", "dorf", "stadt", "tal", "au"),
}
SENTENCES = (
    "{person} took the train to {place} .",
    "in {place} it rains , said {person}",
    "{person} and {person} met near {place}",
    "nobody knows why {person} left {place}",
    "the train to {place} is late again",
    "we wrote to {person} about the train",
)
ROWS = {"train": 400, "dev": 60, "test": 120}
SMOKE = {"train": 60, "dev": 20, "test": 20}


def written(folder, rows):
    """A folder with `train.conll`, `dev.conll` and `test.conll`."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for part, count in rows.items():
        lines = []
        for _ in range(count):
            for word in rng.choice(SENTENCES).split():
                kind = word.strip("{}")
                if kind in ENDS:
                    name = rng.choice(STARTS) + rng.choice(ENDS[kind])
                    lines.append(f"{name}\tB-{kind}")
                else:
                    lines.append(f"{word}\tO")
            lines.append("")
        (folder / f"{part}.conll").write_text("\n".join(lines) + "\n")
    return folder


def entities(path, prepared, sentence):
    """Pairs of an entity and its type, by an exported file."""
    preprocessor = prepared.task.preprocessor
    row = preprocessor([sentence])
    runner = Interpreter(model_path=str(path)).get_signature_runner()
    wanted = runner.get_input_details()
    inputs = {name: np.array(row[name], "int32") for name in wanted}
    (logits,) = runner(**inputs)["logits"]
    first, found = 1, []  # Before the first word is [CLS].
    for word in sentence.split(" "):
        if first >= len(logits):
            break  # The row is full: what follows was cut off.
        tag = prepared.task.splits.label_names[logits[first].argmax()]
        if tag.startswith("B-"):
            found.append((word, tag[2:]))
        elif tag.startswith("I-") and found:
            found[-1] = (f"{found[-1][0]} {word}", found[-1][1])
        first += len(preprocessor.tokenizer(word))
    return found


def main(options, folder):
    """Data, teacher, student, what they are worth, and an answer."""
    if options.data is None:
        rows = SMOKE if options.smoke else ROWS
        options.data = written(folder / "data", rows)
    prepared = kd.experiments.prepare(
        folder / "run",
        command="distill",
        data=options.data,
        teacher=options.teacher,
        task="tags",
        teacher_minutes=1.0,
        smoke=options.smoke,
    )
    student = kd.students.BiLSTM(
        width=32, epochs=1 if options.smoke else 20, batch_size=16
    )
    found = kd.distill(
        prepared.task, prepared.teacher, student, prepared.folder
    )
    print(f"{prepared.task.measure} on test")
    for model in found["models"]:
        print(f"{model['name']:10} {np.mean(model['test_score']):.1%}")
    print(found["verdicts"][0]["headline"])
    path = folder / "run" / "export" / "distilled_int8.tflite"
    sentence = prepared.task.splits.test.texts[0]
    print(f"{sentence}: {entities(path, prepared, sentence)}")
    prepared.folder.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="a folder with train.conll")
    parser.add_argument("--teacher", default="embedded")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    with tempfile.TemporaryDirectory() as temporary:
        main(parser.parse_args(), pathlib.Path(temporary))
