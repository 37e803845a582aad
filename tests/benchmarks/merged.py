"""Students with and without the map after a table of low rank: steps, files.

    python tests/benchmarks/merged.py

TextCNN, BiLSTM and both taggers of 128 filters or units over MiniLM's 30,522
tokens in 128 columns, widened to 384, with random weights: as they are trained
and as they ship, by `pruning.merge`. Of each the TFLite file's size, and its
latency on one thread for a text of 56 tokens, the least of `--rounds` rounds in
which all files take turns. Before that the processor's time for a step of 64
texts, with and without `pruning.merged`, by turns, too.
"""

import argparse
import contextlib
import pathlib
import tempfile
import time

import keras
import numpy as np

from keras_distill import export
from keras_distill import pruning
from keras_distill import students

TOKENS, LENGTH = 30_522, 56
FORMS = {"float32": None, "int8": "dynamic"}


def files(folder, examples):
    """Dict from (student, form, whether it is merged) to a file."""
    found = {}
    for build in (
        *(students.text_cnn, students.bilstm),
        *(students.cnn_tagger, students.bilstm_tagger),
    ):
        trained = build(2, (TOKENS, 384), 128)
        for merged in (False, True):
            model = pruning.merge(trained) if merged else trained
            for form, quantization in FORMS.items():
                path = folder / f"{build.__name__}_{form}_{merged}.tflite"
                export.litert(
                    model,
                    path,
                    quantization,
                    examples=examples,
                    # Random weights decide by less than a step of int8.
                    min_agreement=0.1,
                )
                found[build.__name__, form, merged] = path
    return found


def step_seconds(build, rounds, steps=8):
    """Pair of the least processor time of a step: as it is, merged."""
    random = np.random.default_rng(0)
    ids = random.integers(5, TOKENS, (64, LENGTH)).astype("int32")
    rows = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    labels = random.integers(0, 2, 64)
    model = build(2, (TOKENS, 384), 128)
    least = [np.inf, np.inf]
    for _ in range(rounds):
        for place, context in enumerate((contextlib.nullcontext(), None)):
            # Compiled anew: what was traced knows its context.
            model.compile(
                keras.optimizers.Adam(1e-3),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            )
            with context or pruning.merged(model):
                model.train_on_batch(rows, labels)
                start = time.process_time()
                for _ in range(steps):
                    model.train_on_batch(rows, labels)
            taken = (time.process_time() - start) / steps
            least[place] = min(least[place], taken)
    return least


def run(rounds):
    print("student | s a step | merged | ratio")
    for build in (students.text_cnn, students.bilstm):
        plain, merged = step_seconds(build, rounds)
        ratio = f"{merged / plain:.2f}"
        print(f"{build.__name__} | {plain:.3f} | {merged:.3f} | {ratio}")
    ids = np.random.default_rng(0).integers(5, TOKENS, (50, LENGTH))
    examples = {
        "token_ids": ids.astype("int32"),
        "padding_mask": np.ones((50, LENGTH), "int32"),
    }
    with tempfile.TemporaryDirectory() as folder:
        found = files(pathlib.Path(folder), examples)
        least = dict.fromkeys(found, np.inf)
        for _ in range(rounds):
            for key, path in found.items():
                taken = export.measure_latency(path, examples)
                least[key] = min(least[key], taken)
        print("student | form | MB | ms | merged: MB | ms")
        for name, form, merged in found:
            if merged:
                continue
            cells = [name, form]
            for key in ((name, form, False), (name, form, True)):
                cells.append(f"{found[key].stat().st_size / 1e6:.2f}")
                cells.append(f"{least[key]:.3f}")
            print(" | ".join(cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=5)
    run(parser.parse_args().rounds)
