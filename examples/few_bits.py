"""Cut a network of images, teach it again under the rounding of int4.

    python examples/few_bits.py --smoke
    python examples/few_bits.py
    python examples/few_bits.py --budget 0.2

The network learns scikit-learn's handwritten digits; what is worth least to it
goes until it is within a share of its multiplications. Then the whole network
teaches what is left, whose weights have 4 bits in the file: once after the
training, once during it.
"""

import argparse
import pathlib
import tempfile

import keras
import numpy as np

import keras_distill as kd

SMOKE = {"epochs": 1, "width": 8}


def accuracy(model, split):
    """The share of its predictions that are right."""
    logits = model.predict(split.images, verbose=0)
    return np.mean(logits.argmax(-1) == split.labels)


def taught(student, teacher, split, epochs):
    """The student, after it has learnt from the teacher."""
    distiller = kd.Distiller(teacher=teacher, student=student)
    distiller.compile(
        keras.optimizers.Adam(1e-3),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    distiller.fit(split.images, split.labels, epochs=epochs, verbose=0)
    return student


def main(options):
    """A network, a smaller one, and its files."""
    splits = kd.data.load_images("digits")
    task = kd.tasks.ImageClassification(splits)
    teacher = kd.students.conv_net(
        task.num_outputs, task.image_shape, options.width
    )
    kd.experiments.fine_tune(task.adapted(teacher), task, options.epochs, 3e-3)
    smaller = kd.pruning.search(
        teacher,
        {"multiplications": options.budget},
        (splits.train.images[:256], splits.train.labels[:256]),
        verbose=0,
    )
    taught(smaller, teacher, splits.train, options.epochs)
    files = {"whole": (teacher, None), "cut": (smaller, None)}
    files["int4 afterwards"] = (smaller, "int4")
    for name in ("whole", "cut"):
        print(f"{name:18} {accuracy(files[name][0], splits.test):.1%}")
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, form) in files.items():
            export(model, form, name, folder, splits)
        aware = kd.quantization.QuantizationAware(smaller, "int4")
        taught(aware, teacher, splits.train, options.epochs)
        export(aware, None, "int4 trained", folder, splits)


def export(model, form, name, folder, splits):
    """Prints what the file of a form is worth."""
    report = kd.export.litert(
        model,
        pathlib.Path(folder, f"{name.replace(' ', '_')}.tflite"),
        form,
        examples={"images": splits.test.images},
        min_agreement=0.5,
    )
    print(
        f"{name:18} {report.size_bytes:,} bytes, {report.latency_ms:.3f} ms, "
        f"agreement {report.agreement:.1%}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--budget", type=float, default=0.5)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--width", type=int, default=16)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    arguments = parser.parse_args()
    if arguments.smoke:
        vars(arguments).update(SMOKE)
    main(arguments)
