"""Step time: the Distiller over what it must do anyway.

The base is a plain student training step plus a plain teacher forward pass,
measured in the same run, round by round. Prints one ratio a variant.

    python tests/benchmarks/step_time.py
"""

import argparse
import statistics
import time

import keras
import keras_hub
import numpy as np
import tensorflow as tf

import keras_distill as kd

CLASSES, VOCABULARY = 2, 1000
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def encoder(layers, width):
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=layers,
        num_heads=12,
        hidden_dim=width,
        intermediate_dim=4 * width,
        max_sequence_length=128,
    )
    return keras_hub.models.BertTextClassifier(
        backbone, num_classes=CLASSES, preprocessor=None
    )


def batch(size, length):
    generator = np.random.default_rng(0)
    x = {
        "token_ids": generator.integers(0, VOCABULARY, (size, length)),
        "segment_ids": np.zeros((size, length)),
        "padding_mask": np.ones((size, length)),
    }
    x = {key: value.astype("int32") for key, value in x.items()}
    return x, generator.integers(0, CLASSES, size)


def repeated(x, y):
    return tf.data.Dataset.from_tensors((x, y)).repeat()


def trainer(model, rows, **options):
    """A callable that runs one training step."""
    model.compile(keras.optimizers.Adam(1e-4), LOSS, **options)
    model.fit(rows, steps_per_epoch=2, verbose=0)
    iterator = iter(rows)
    return lambda: model.train_function(iterator)


def forward(teacher, x, jit_compile):
    run = tf.function(
        lambda: teacher(x, training=False), jit_compile=jit_compile
    )
    run()
    return run


def matches(teacher, student):
    pairs = kd.uniform_layer_map(6, 3)[1:]
    states = kd.hidden_states(teacher), kd.hidden_states(student)
    return [
        kd.Match(states[0][t], states[1][s], kd.losses.HiddenMSE())
        for t, s in pairs
    ]


def seconds(step):
    start = time.perf_counter()
    keras.tree.map_structure(np.asarray, step())
    return time.perf_counter() - start


def measure(options, jit_compile):
    teacher = encoder(6, 384)
    x, y = batch(options.batch, options.length)
    rows = repeated(x, y)
    steps = {
        "student": trainer(encoder(3, 312), rows, jit_compile=jit_compile),
        "teacher": forward(teacher, x, jit_compile),
    }
    for name, with_matches in (("logits", False), ("3 matches", True)):
        student = encoder(3, 312)
        pairs = matches(teacher, student) if with_matches else []
        distiller = kd.Distiller(teacher, student, pairs)
        steps[name] = trainer(distiller, rows, jit_compile=jit_compile)
    times = {name: [] for name in steps}
    for _ in range(options.rounds):
        for name, step in steps.items():
            times[name].append(seconds(step))
    median = {name: statistics.median(t) for name, t in times.items()}
    base = median["student"] + median["teacher"]
    mode = "jit_compile" if jit_compile else "graph"
    print(
        f"{mode}: student {median['student']:.3f} s + teacher "
        f"{median['teacher']:.3f} s = {base:.3f} s"
    )
    for name in ("logits", "3 matches"):
        ratio = median[name] / base
        print(f"{mode}: Distiller, {name}: {ratio:.3f} x", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    for jit_compile in (False, True):
        measure(options, jit_compile)


if __name__ == "__main__":
    main()
