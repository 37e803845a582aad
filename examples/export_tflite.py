"""Export a small student as TFLite and SavedModel, and call both.

    python examples/export_tflite.py --smoke
    python examples/export_tflite.py --output exports

Trains a TextCNN (a distilled one is exported in the same way). Each export is
compared with it in its own runtime, and is written only if they agree. To use
the files, a program needs the functions `call_...` alone.
"""

import argparse
import json
import pathlib

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text  # noqa: F401 - registers the tokenizer's operations.
from ai_edge_litert.interpreter import Interpreter

import keras_distill as kd
from keras_distill.data import docstrings

LENGTH = 32  # Tokens; the rest of a longer text is cut.
SMOKE = {"filters": 8, "epochs": 1, "min_agreement": 0.9}


def train_student(options, splits, preprocessor):
    """A TextCNN that has learnt from the labels."""
    table = (preprocessor.tokenizer.vocabulary_size(), 64)
    student = kd.students.text_cnn(
        splits.num_classes, embeddings=table, filters=options.filters
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    student.compile("adam", loss)
    train = kd.data.encode(splits.train, preprocessor)
    rows = kd.data.batches(train, 64, shuffle=True)
    student.fit(rows, epochs=options.epochs, verbose=2)
    return student


def export_all(options, student, splits, preprocessor):
    """Yields the report of each export."""
    texts = splits.dev.texts[:200]
    calibration = preprocessor(splits.train.texts[:200])
    for kind in (None, "dynamic", "int8"):
        yield kd.export.litert(
            student,
            options.output / f"student_{kind or 'float32'}.tflite",
            quantization=kind,
            calibration=calibration if kind == "int8" else None,
            examples=preprocessor(texts),
            labels=splits.label_names,
            tokenizer=preprocessor.tokenizer,
            min_agreement=options.min_agreement,
        )
    yield kd.export.saved_model(
        student,
        options.output / "student_saved_model",
        preprocessor,
        examples=texts,
        labels=splits.label_names,
        min_agreement=options.min_agreement,
    )


def call_tflite(path, inputs):
    """The logits of one text, `[1, classes]`: no Keras is needed here."""
    runner = Interpreter(model_path=str(path)).get_signature_runner()
    return runner(**inputs)["logits"]


def call_saved_model(path, text):
    """The same from a string: the tokenizer is a part of the file."""
    serve = tf.saved_model.load(str(path)).signatures["serving_default"]
    return serve(text=tf.constant([text]))["logits"]


def main(options):
    """Trains, exports, and calls every export on one text."""
    keras.utils.set_random_seed(0)
    if options.smoke:
        splits = docstrings.build(("numpy", "keras_hub"), max_per_class=150)
    else:
        splits = kd.data.load(options.data)
    vocabulary = kd.data.train_vocabulary(splits.train.texts)
    preprocessor = kd.data.bert_preprocessor(vocabulary, LENGTH)
    student = train_student(options, splits, preprocessor)
    reports = list(export_all(options, student, splits, preprocessor))
    text = splits.test.texts[0]
    row = preprocessor([text])
    names = ("token_ids", "padding_mask")
    inputs = {name: np.array(row[name], "int32") for name in names}
    sidecar = options.output / "student_int8.metadata.json"
    labels = json.loads(sidecar.read_text())["labels"]
    for report in reports:
        if report.path.suffix == ".tflite":
            logits = call_tflite(report.path, inputs)
        else:
            logits = call_saved_model(report.path, text)
        answer = labels[int(np.argmax(logits[0]))]
        print(
            f"{report.path.name:22} answers {answer}, "
            f"agreement {report.agreement:.1%}, "
            f"{report.size_bytes / 1e3:.0f} kB, {report.latency_ms:.3f} ms"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default="docstrings", help="folder or file")
    parser.add_argument("--output", type=pathlib.Path, default="exports")
    parser.add_argument("--filters", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--min-agreement", type=float, default=0.99)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes")
    arguments = parser.parse_args()
    if arguments.smoke:
        vars(arguments).update(SMOKE)
    main(arguments)
