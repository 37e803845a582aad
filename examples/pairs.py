"""Do two questions ask the same? A model that reads both, and a small one.

    python examples/pairs.py --smoke
    python examples/pairs.py
    python examples/pairs.py --data FOLDER

Without `--data`, a folder whose files have two columns of text and a label, the
questions are made here. Teacher and students read them one by one, with one set
of weights for both, and compare what they have read: a wide TextCNN teaches a
narrow one and a BiLSTM. (An encoder reads both in one row; from scratch it does
not learn this.) The SavedModel of the best student answers two strings.
"""

import argparse
import pathlib
import tempfile

import numpy as np
import tensorflow as tf

import keras_distill as kd

ASKED = {
    "open": ("how do I open {}", "what opens {}", "{} does not open"),
    "clean": ("how do I clean {}", "{} is dirty , what now", "washing {}"),
    "repair": ("who repairs {}", "{} is broken", "how to mend {}"),
    "buy": ("where can I buy {}", "a shop for {}", "the price of {}"),
}
THINGS = [
    f"{of} {thing}"
    for of in ("my", "the old", "a new", "your")
    for thing in ("bicycle", "oven", "window", "radio", "coat", "lamp")
]
ROWS = {"train": 1500, "dev": 300, "test": 600}
SMOKE = {"train": 80, "dev": 30, "test": 30}


def question(meaning, thing, rng):
    """One way to ask it."""
    return rng.choice(ASKED[meaning]).format(thing)


def pairs(rows, seed):
    """A `TextDataset` of pairs, half of which ask the same."""
    rng = np.random.default_rng(seed)
    texts, labels = [], np.arange(rows) % 2
    for same in labels:
        meaning, other = rng.choice(list(ASKED), 2, replace=False)
        thing, another = rng.choice(THINGS, 2, replace=False)
        first = question(meaning, thing, rng)
        if same:
            texts.append((first, question(meaning, thing, rng)))
        elif rng.random() < 0.5:
            texts.append((first, question(other, thing, rng)))
        else:
            texts.append((first, question(meaning, another, rng)))
    return kd.data.TextDataset(texts, labels)


def main(options):
    """Data, teacher, students, a comparison, and an answer."""
    if options.data is None:
        sizes = SMOKE if options.smoke else ROWS
        parts = [pairs(rows, seed) for seed, rows in enumerate(sizes.values())]
        splits = kd.data.TextSplits(*parts, ["another", "same"])
    else:
        splits = kd.data.load(options.data)
    words = [text for pair in splits.train.texts for text in pair]
    preprocessor = kd.data.bert_preprocessor(
        kd.data.train_vocabulary(words), sequence_length=48
    )
    task = kd.tasks.PairClassification.from_texts(splits, preprocessor)
    epochs = 1 if options.smoke else 10
    teacher = kd.students.TextCNN(width=256).build(task, None)
    kd.experiments.fine_tune(teacher, task, epochs, 1e-3)
    students = {
        "TextCNN": kd.students.TextCNN(width=16, epochs=epochs),
        "BiLSTM": kd.students.BiLSTM(width=16, epochs=epochs),
    }
    found = kd.compare(
        task, teacher, students, options.output, seeds=1, html=False
    )
    for model in found["models"]:
        print(f"{model['name']:28} {np.mean(model['test_score']):.1%}")
    for verdict in found["verdicts"]:
        print(verdict["headline"])
    best = max(found["rows"], key=lambda row: row["dev_score"]["mean"])
    folder = found["exports"][best["student"]]["folder"]
    path = options.output / "export" / folder / "student_saved_model"
    serve = tf.saved_model.load(str(path)).signatures["serving_default"]
    for first, second in splits.test.texts[:2]:
        answer = serve(
            text=tf.constant([first]), text_pair=tf.constant([second])
        )
        label = splits.label_names[int(np.argmax(answer["logits"]))]
        print(f"{label}: {first} / {second}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="a folder with train.tsv")
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        arguments.output = pathlib.Path(temporary)
        main(arguments)
