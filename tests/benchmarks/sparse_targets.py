"""What the sparse forms of a language model's targets cost, and how wrong.

    python tests/benchmarks/sparse_targets.py

For each form of `kd.cache`: bytes a token on disk, and the error of the
student's gradient against that of the full distribution, its length over the
length of the right one, on average over tokens. An error that stays in the mean
over seeds is a bias. Teacher and student are made up: probabilities fall with a
power of the rank, drawn for each token, as they do for language models; the
student has learnt most of that.
"""

import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

from keras_distill import cache
from keras_distill import losses

TEXTS, TOKENS, CLASSES = 4, 64, 8192
SEEDS = 50
FORMS = {
    "all logits": lambda seed: "full",
    "top 12, renormalised": lambda seed: cache.TopK(12, tail=False),
    "top 12 and tail": lambda seed: cache.TopK(12),
    "50 draws": lambda seed: cache.Sampled(50, seed),
    "top 50, renormalised": lambda seed: cache.TopK(50, tail=False),
    "top 50 and tail": lambda seed: cache.TopK(50),
    "300 draws": lambda seed: cache.Sampled(300, seed),
}


def made_up():
    """Logits of the teacher and the student, `[texts, tokens, classes]`."""
    rng = np.random.default_rng(0)
    shape = (TEXTS, TOKENS, CLASSES)
    ranks = rng.random(shape).argsort(axis=-1) + 1
    teacher = -rng.uniform(0.9, 2.5, (TEXTS, TOKENS, 1)) * np.log(ranks)
    student = 0.7 * teacher + rng.normal(0, 0.7, shape)
    return teacher.astype("float32"), student.astype("float32")


def stored(form, teacher, folder):
    """The signal that comes back from the disk, and bytes a token."""
    inputs = keras.Input((TOKENS, CLASSES))
    model = keras.Model(inputs, keras.layers.Identity()(inputs))
    rows = tf.data.Dataset.from_tensor_slices(teacher)
    cache.write(model, rows, folder, logits=form)
    batch = next(iter(cache.attach(rows, folder).batch(TEXTS)))
    size = sum(path.stat().st_size for path in folder.glob("*.tfrecord"))
    return batch["teacher_signal"]["logits"], size / (TEXTS * TOKENS)


def gradient(signal, student):
    """That of the sum over tokens, in the student's logits."""
    loss = losses.ForwardKL(temperature=1.0)
    if isinstance(signal, dict):
        loss = cache.SparseForwardKL()
    student = tf.Variable(student)
    with tf.GradientTape() as tape:
        value = TEXTS * TOKENS * tf.reduce_mean(loss(signal, student))
    return tape.gradient(value, student).numpy().astype("float64")


def main():
    teacher, student = made_up()
    p, q = (
        keras.ops.convert_to_numpy(keras.ops.softmax(x.astype("float64")))
        for x in (teacher, student)
    )
    length = np.linalg.norm(q - p, axis=-1).mean()
    for name, form in FORMS.items():
        seeds = SEEDS if name.endswith("draws") else 1
        total, single = 0, []
        for seed in range(seeds):
            with tempfile.TemporaryDirectory() as folder:
                signal, size = stored(
                    form(seed), teacher, pathlib.Path(folder) / "cache"
                )
            found = gradient(signal, student)
            total = total + found / seeds
            single.append(np.linalg.norm(found - (q - p), axis=-1).mean())
        mean = np.linalg.norm(total - (q - p), axis=-1).mean()
        print(
            f"{name}: {size:,.0f} bytes a token, error of the gradient "
            f"{np.mean(single) / length:.3f}, of its mean over {seeds} seeds "
            f"{mean / length:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
