"""Distil a model that gives each text any number of labels, or a score.

    python examples/several_labels.py --smoke
    python examples/several_labels.py
    python examples/several_labels.py --scores

What it learns from is made here: reports of a shop's visitors, of whom each
names some of the things that were good or bad. The labels are these things, the
score is how many stars the visitor gives. The student is a TextCNN, beside it
stand its control, on labels alone, and a linear model.
"""

import argparse
import tempfile

import numpy as np

import keras_distill as kd

THINGS = {
    "price": ("cheap and fair", "dear beyond all reason"),
    "staff": ("friendly people", "nobody who would help"),
    "delivery": ("it came the next day", "weeks until it came"),
    "quality": ("well made", "broke at once"),
}
FILLERS = ("I must say", "as always", "to be honest", "and", "this time", "but")
SMOKE = {"train": 60, "epochs": 1}


def reports(rows, seed, scores):
    """A `TextDataset` of so many reports."""
    rng = np.random.default_rng(seed)
    texts, labels = [], []
    for _ in range(rows):
        named = rng.random(len(THINGS)) < 0.4
        good = rng.random(len(THINGS)) < 0.6
        words = [
            said[0] if is_good else said[1]
            for said, is_named, is_good in zip(THINGS.values(), named, good)
            if is_named
        ]
        words += list(rng.choice(FILLERS, 3))
        texts.append(" ".join(rng.permutation(words)))
        stars = 3.0 + (named & good).sum() - (named & ~good).sum()
        labels.append(stars if scores else named.astype(int))
    return kd.data.TextDataset(texts, np.array(labels))


def main(options):
    """Data, teacher, student, and what they are worth."""
    sizes = {"train": options.train, "dev": 200, "test": 500}
    parts = {
        name: reports(rows, seed, options.scores)
        for seed, (name, rows) in enumerate(sizes.items())
    }
    if options.scores:
        kind = kd.tasks.TextRegression
        splits = kd.data.ScoreSplits(**parts, label_names=["stars"])
    else:
        kind = kd.tasks.MultiLabelClassification
        names = list(THINGS)
        splits = kd.data.MultiLabelSplits(**parts, label_names=names)
    vocabulary = kd.data.train_vocabulary(splits.train.texts)
    task = kind.from_texts(splits, kd.data.bert_preprocessor(vocabulary, 48))

    teacher = task.embedded_teacher(smoke=options.smoke)
    kd.experiments.fine_tune(teacher, task, options.epochs, 1e-3)
    student = kd.students.TextCNN(width=32, epochs=options.epochs)
    with tempfile.TemporaryDirectory() as folder:
        found = kd.distill(task, teacher, student, folder, export=False)
    print(f"{task.measure} on test")
    for model in found["models"]:
        print(f"{model['name']:10} {np.mean(model['test_score']):.1%}")
    print(found["verdicts"][0]["headline"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--scores", action="store_true", help="stars instead")
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    arguments = parser.parse_args()
    if arguments.smoke:
        vars(arguments).update(SMOKE)
    main(arguments)
