"""Texts a second on one core: the student `ngram`, beside static embeddings.

    python -m venv /tmp/m2v && /tmp/m2v/bin/pip install model2vec
    python tests/benchmarks/throughput.py --model2vec /tmp/m2v/bin/python

Strings in, classes out, for the sentences of the docstring set. `ngram` as a
SavedModel (TensorFlow tokenises in the graph) and as a LiteRT file, whose token
ids are made by KerasHub before; model2vec with the same vocabulary, a table of
random vectors and a dense layer, as its classifiers have it. The weights are
not trained: they change no time. Rounds alternate, the fastest one counts.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import tensorflow as tf
import tensorflow_text  # noqa: F401 - Operations of the exported tokenizer.

import keras_distill as kd
from keras_distill import data
from keras_distill.export.latency import LiteRTModel

LENGTH, BATCH, ROUNDS, CLASSES, WIDTH = 32, 1024, 7, 6, 256
CHILD = pathlib.Path(__file__).with_name("throughput_model2vec.py")


def batched(texts):
    return [texts[i : i + BATCH] for i in range(0, len(texts), BATCH)]


def ways(texts, folder):
    """Dict from names to callables that classify all texts once."""
    vocabulary = data.train_vocabulary(texts)
    data.write_vocabulary(vocabulary, folder / "vocab.txt")
    layer = data.bert_preprocessor(vocabulary, LENGTH)
    student = kd.students.ngram(CLASSES, (len(vocabulary), 32))
    kd.export.saved_model(student, folder / "saved", layer, examples=texts[:32])
    ids = layer(texts[:BATCH])
    file = folder / "student.tflite"
    kd.export.litert(student, file, examples={k: ids[k][:32] for k in ids})
    loaded = tf.saved_model.load(folder / "saved")
    serve = loaded.signatures["serving_default"]
    lite = LiteRTModel(file)

    def saved_model():
        for batch in batched(texts):
            serve(text=tf.constant(batch))["logits"].numpy()

    def tokens():
        return [layer(batch) for batch in batched(texts)]

    rows = [
        {name: batch[name][i : i + 1].numpy() for name in lite.inputs}
        for batch in tokens()
        for i in range(len(batch["token_ids"]))
    ]

    def litert():
        for row in rows:
            lite(row)

    return {
        "ngram, SavedModel, strings": saved_model,
        "ngram, tokens by KerasHub": tokens,
        "ngram, LiteRT, a token row each": litert,
    }


def static(python, texts, folder):
    """A callable that runs one round of model2vec in another process."""
    (folder / "texts.json").write_text(json.dumps(texts))
    child = subprocess.Popen(
        [python, CHILD, folder, str(WIDTH), str(CLASSES), str(LENGTH)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TOKENIZERS_PARALLELISM": "false"},
    )

    def run():
        child.stdin.write("go\n")
        child.stdin.flush()
        return float(child.stdout.readline())

    return run


def seconds(run):
    begin = time.perf_counter()
    told = run()
    return told if isinstance(told, float) else time.perf_counter() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model2vec", help="a Python that has it")
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    splits = data.load()
    texts = [
        t for p in ("train", "dev", "test") for t in getattr(splits, p).texts
    ]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        runs = ways(texts, folder)
        if chosen.model2vec:
            runs["model2vec, strings"] = static(chosen.model2vec, texts, folder)
        fastest = dict.fromkeys(runs, float("inf"))
        for _ in range(ROUNDS):
            for name, run in runs.items():
                fastest[name] = min(fastest[name], seconds(run))
    print(f"{len(texts):,} texts, one core, texts a second:")
    for name, best in fastest.items():
        print(f"{name:30} {len(texts) / best:10,.0f}")


if __name__ == "__main__":
    main()
