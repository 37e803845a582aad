"""Steps of students whose tables have only the rows that occur, and all.

    python tests/benchmarks/occurring.py

TextCNN and BiLSTM of 128 filters or units over MiniLM's 30,522 tokens in 128
columns, widened to 384, and n-grams as `distill` makes them, with random
weights: batches of 64 texts of up to 24 tokens, of `--tokens` different ones,
drawn by Zipf's law. The processor's time for a step of Adam, the least of
`--rounds` rounds by turns, with and without `pruning.occurring`.
"""

import argparse
import contextlib
import time

import keras
import numpy as np
import tensorflow as tf

from keras_distill import pruning
from keras_distill import students

TOKENS, LENGTH, BATCH, STEPS = 30_522, 24, 64, 60
STUDENTS = {
    "text_cnn": lambda: students.text_cnn(2, (TOKENS, 384), 128),
    "bilstm": lambda: students.bilstm(2, (TOKENS, 384), 128),
    "ngram": lambda: students.ngram(2, (TOKENS, 128)),
}


def texts(tokens):
    """Inputs and labels of `STEPS` batches."""
    random = np.random.default_rng(0)
    known = random.permutation(np.arange(5, TOKENS))[:tokens]
    shares = 1 / np.arange(1, tokens + 1)
    shape = STEPS * BATCH, LENGTH
    ids = random.choice(known, shape, p=shares / shares.sum())
    lengths = random.integers(4, LENGTH + 1, (len(ids), 1))
    mask = (np.arange(LENGTH) < lengths).astype("int32")
    rows = {"token_ids": ids.astype("int32") * mask, "padding_mask": mask}
    return rows, random.integers(0, 2, len(ids))


def seconds(model, rows, labels):
    """Processor time of a step, without the first epoch's tracing."""
    model.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    batches = tf.data.Dataset.from_tensor_slices((rows, labels)).batch(BATCH)
    batches = batches.cache()
    with pruning.merged(model):
        model.fit(batches, verbose=0)
        start = time.process_time()
        model.fit(batches, verbose=0)
        return (time.process_time() - start) / STEPS


def run(rounds, tokens):
    rows, labels = texts(tokens)
    print("student | ms a step, all rows | those that occur | ratio")
    for name, build in STUDENTS.items():
        model, least = build(), [np.inf, np.inf]
        for _ in range(rounds):
            for place, context in enumerate(
                (contextlib.nullcontext(model), pruning.occurring(model, rows))
            ):
                with context as trained:
                    taken = seconds(trained, rows, labels)
                least[place] = min(least[place], taken)
        whole, occurring = (1000 * value for value in least)
        ratio = f"{occurring / whole:.2f}"
        print(f"{name} | {whole:.1f} | {occurring:.1f} | {ratio}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=8000)
    arguments = parser.parse_args()
    run(arguments.rounds, arguments.tokens)
